#pragma once

// Functions that <cmath> lacks, on double; the oracle of the tests uses them too.
#include <cmath>
#include <limits>

namespace thalweg::special {

// x - z floor(x / z), exactly: the sign is z's, and the magnitude is below |z|.
inline double floormod(double x, double z) {
  const double r = std::fmod(x, z);
  return r != 0 && (r < 0) != (z < 0) ? r + z : r;
}

inline constexpr double pi = 3.14159265358979323846;

// d lgamma / dx: recurrence up to 10, then the asymptotic series; reflection below 0.
inline double digamma(double x) {
  if (x == 0 || (x < 0 && x == std::floor(x))) return std::numeric_limits<double>::quiet_NaN();
  if (x < 0) return digamma(1 - x) - pi / std::tan(pi * x);
  double shift = 0;
  for (; x < 10; ++x) shift -= 1 / x;
  const double r = 1 / (x * x);
  const double series =
      r * (1.0 / 12 - r * (1.0 / 120 - r * (1.0 / 252 - r * (1.0 / 240 - r * (1.0 / 132 - r * 691.0 / 32760)))));
  return shift + std::log(x) - 0.5 / x - series;
}

// Sum over k >= 0 of (x + k)^-s for s > 1, x > 0, by Euler-Maclaurin from x + 12 on.
inline double hurwitz_zeta(double s, double x) {
  constexpr double bernoulli[] = {1.0 / 12,       -1.0 / 720,     1.0 / 30240,
                                  -1.0 / 1209600, 1.0 / 47900160, -691.0 / 1307674368000};
  double sum = 0;
  int k = 0;
  for (; k < 12; ++k) sum += std::pow(x + k, -s);
  const double y = x + k, power = std::pow(y, -s);
  sum += power * y / (s - 1) + power / 2;
  double factor = s * power / y;
  for (int j = 0; j < 6; ++j) {
    sum += bernoulli[j] * factor;
    factor *= (s + 2 * j + 1) * (s + 2 * j + 2) / (y * y);
  }
  return sum;
}

// The n-th derivative of digamma at x > 0; other x, or an order that is no positive whole number, are NaN.
inline double polygamma(double n, double x) {
  if (n == 0) return digamma(x);
  if (!(x > 0) || !(n > 0) || n != std::floor(n)) return std::numeric_limits<double>::quiet_NaN();
  const double sign = std::fmod(n, 2) == 0 ? -1 : 1;
  return sign * std::tgamma(n + 1) * hurwitz_zeta(n + 1, x);
}

}  // namespace thalweg::special
