#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "tests/support/math_kernels.h"

namespace thalweg::test {
namespace {

using Real = long double;

struct UnaryCase {
  const char* name;
  Real (*reference)(Real);
  double ulp32, ulp64;  // largest error allowed
};

struct BinaryCase {
  const char* name;
  Real (*reference)(Real, Real);
  double ulp32, ulp64;
};

Real lgamma_reference(Real x) {
  int sign_of_gamma = 0;
  return ::lgammal_r(x, &sign_of_gamma);
}
Real sign_reference(Real x) { return x > 0 ? 1 : x < 0 ? -1 : x; }
Real max_reference(Real a, Real b) { return std::isnan(a) || a > b ? a : b; }
Real min_reference(Real a, Real b) { return std::isnan(a) || a < b ? a : b; }

const UnaryCase kUnary[] = {
    {"exp", std::exp, 2, 4},
    {"expm1", std::expm1, 2, 4},
    {"log", std::log, 2, 4},
    {"log1p", std::log1p, 2, 4},
    {"tanh", std::tanh, 2, 4},
    {"sinh", std::sinh, 4, 4},
    {"cosh", std::cosh, 4, 4},
    {"erf", std::erf, 2, 4},
    {"erfc", std::erfc, 4, 8},
    {"sin", std::sin, 2, 4},
    {"cos", std::cos, 2, 4},
    {"tan", std::tan, 4, 4},
    {"asin", std::asin, 4, 4},
    {"acos", std::acos, 4, 4},
    {"atan", std::atan, 4, 4},
    {"asinh", std::asinh, 4, 4},
    {"acosh", std::acosh, 4, 4},
    {"atanh", std::atanh, 4, 4},
    {"lgamma", lgamma_reference, 4, 8},
    {"sign", sign_reference, 0, 0},
    {"round", std::nearbyint, 0, 0},
    {"floor", std::floor, 0, 0},
    {"ceil", std::ceil, 0, 0},
};

const BinaryCase kBinary[] = {
    {"pow", std::pow, 4, 8},
    {"atan2", std::atan2, 4, 4},
    {"max", max_reference, 0, 0},
    {"min", min_reference, 0, 0},
};

template <class T>
using BitsOf = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;

// Error in units of the last place of the exact value; infinite where a special value or the sign of zero is wrong.
template <class T>
double ulp_error(T got, Real exact) {
  constexpr double kWrong = std::numeric_limits<double>::infinity();
  if (std::isnan(exact) || std::isnan(got)) return std::isnan(exact) && std::isnan(got) ? 0 : kWrong;
  if (std::isinf(exact)) return got == exact ? 0 : kWrong;
  if (exact == 0) return got == 0 && std::signbit(got) == std::signbit(exact) ? 0 : kWrong;
  if (got != 0 && std::signbit(got) != std::signbit(exact)) return kWrong;
  // Infinity stands for the power of two after the largest number
  const Real above = std::ldexp(Real(1), std::numeric_limits<T>::max_exponent);
  const Real a = std::min(std::abs(Real(got)), above), b = std::min(std::abs(exact), above);
  const int exponent = std::max(std::ilogb(b) + 1, std::numeric_limits<T>::min_exponent);
  return static_cast<double>(std::ldexp(std::abs(a - b), std::numeric_limits<T>::digits - exponent));
}

template <class T>
std::vector<T> special_values() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> values = {Limits::quiet_NaN(), -Limits::quiet_NaN()};
  const T positive[] = {0,
                        Limits::infinity(),
                        Limits::max(),
                        Limits::max() / 2,
                        Limits::min(),
                        Limits::min() / 2,
                        Limits::denorm_min(),
                        3 * Limits::denorm_min(),
                        Limits::epsilon(),
                        T(0.25),
                        T(1) / 3,
                        T(0.5),
                        T(1),
                        T(1.5),
                        T(2),
                        T(2.5),
                        T(3),
                        T(4),
                        T(10),
                        T(20),
                        T(28),
                        T(40),
                        T(88.8),
                        T(103.9),
                        T(710),
                        T(745.2),
                        T(1e5),
                        T(1e6),
                        T(8388608.5),
                        T(16777215),
                        T(16777217),
                        T(4503599627370497.5),
                        T(0.49999997),
                        T(0.49999999999999994),
                        T(0.55),
                        T(0.85),
                        T(1.5707963267948966),
                        T(3.141592653589793),
                        T(11),
                        T(1e22),
                        T(5.319372648326541e+255L)};
  for (const T v : positive) {
    for (const T x : {v, std::nextafter(v, T(0)), std::nextafter(v, Limits::infinity())}) {
      values.push_back(x);
      values.push_back(-x);
    }
  }
  return values;
}

constexpr size_t kSamples = 40000;  // of each kind

// Special values, a walk through all bit patterns, and dense samples where the functions have their seams.
template <class T>
std::vector<T> samples() {
  std::mt19937_64 random(7);
  std::vector<T> values = special_values<T>();
  const BitsOf<T> stride = static_cast<BitsOf<T>>(~BitsOf<T>(0) / kSamples) | 1;
  for (size_t i = 0; i < kSamples; ++i) values.push_back(std::bit_cast<T>(static_cast<BitsOf<T>>(i * stride + i)));
  for (const double range : {1.0, 20.0, 800.0, 1.2e5}) {
    std::uniform_real_distribution<double> uniform(-range, range);
    for (size_t i = 0; i < kSamples / 2; ++i) values.push_back(static_cast<T>(uniform(random)));
  }
  for (int n = -2000; n <= 2000; ++n) {  // where sine and cosine cancel most
    const T near = static_cast<T>(n * (n % 2 == 0 ? 1.0L : 97.0L) * 1.57079632679489661923132169163975144L);
    for (const T x : {near, std::nextafter(near, T(0))}) values.push_back(x);
  }
  while (values.size() % 16 != 0) values.push_back(T(1));
  return values;
}

template <class T>
struct Pairs {
  std::vector<T> a, b;
};

template <class T>
Pairs<T> sample_pairs() {
  Pairs<T> pairs;
  const auto add = [&](T a, T b) {
    pairs.a.push_back(a);
    pairs.b.push_back(b);
  };
  for (const T a : special_values<T>()) {
    for (const T b : special_values<T>()) add(a, b);
  }
  std::mt19937_64 random(11);
  std::uniform_real_distribution<double> uniform(-30, 30);
  for (size_t i = 0; i < kSamples; ++i) {
    add(std::bit_cast<T>(static_cast<BitsOf<T>>(random())), std::bit_cast<T>(static_cast<BitsOf<T>>(random())));
    const double base = uniform(random), exponent = uniform(random);
    add(static_cast<T>(base), static_cast<T>(exponent));
    add(static_cast<T>(std::exp(base / 10)), static_cast<T>(exponent * 30 / base));  // results over the whole range
    add(static_cast<T>(base), static_cast<T>(std::nearbyint(exponent)));
  }
  while (pairs.a.size() % 16 != 0) add(T(1), T(1));
  return pairs;
}

struct Worst {
  double ulp = 0;
  size_t index = 0;
};

template <class T>
Worst worst_error(const std::vector<T>& got, const std::vector<Real>& exact, double absolute) {
  Worst worst;
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::abs(got[i] - exact[i]) <= absolute) continue;
    const double ulp = ulp_error(got[i], exact[i]);
    if (ulp > worst.ulp) worst = {ulp, i};
  }
  return worst;
}

template <class T, class Function>
auto kernel_of(const Function& f) {
  if constexpr (sizeof(T) == 4) {
    return f.f32;
  } else {
    return f.f64;
  }
}

template <class Functions>
const auto& find(const Functions& functions, const std::string& name) {
  return *std::find_if(functions.begin(), functions.end(), [&](const auto& f) { return f.name == name; });
}

template <class T>
class MathTest : public testing::Test {
 protected:
  static constexpr bool kFloat = sizeof(T) == 4;

  template <class Case>
  static double limit(const Case& c) {
    return kFloat ? c.ulp32 : c.ulp64;
  }

  static std::vector<T> run(const UnaryFunction& f, const std::vector<T>& x) {
    std::vector<T> y(x.size());
    kernel_of<T>(f)(x.data(), y.data(), x.size());
    return y;
  }

  static std::vector<T> run(const BinaryFunction& f, const Pairs<T>& x) {
    std::vector<T> y(x.a.size());
    kernel_of<T>(f)(x.a.data(), x.b.data(), y.data(), y.size());
    return y;
  }
};

using LaneTypes = testing::Types<float, double>;
TYPED_TEST_SUITE(MathTest, LaneTypes);

TEST(MathKernelsTest, at_least_one_target_is_tested) { EXPECT_FALSE(math_kernels().empty()); }

TYPED_TEST(MathTest, unary_functions_are_accurate_on_every_target) {
  using T = TypeParam;
  const std::vector<T> x = samples<T>();
  std::vector<Real> exact(x.size());
  for (const UnaryCase& c : kUnary) {
    std::transform(x.begin(), x.end(), exact.begin(), [&](T v) { return c.reference(v); });
    const double absolute = this->kFloat && std::string(c.name) == "lgamma" ? 2e-7 : 0;  // its zeros
    for (const MathKernels& kernels : math_kernels()) {
      const std::vector<T> y = this->run(find(kernels.unary, c.name), x);
      const Worst worst = worst_error(y, exact, absolute);
      this->RecordProperty(std::string(c.name) + "_" + kernels.target, std::to_string(worst.ulp));
      EXPECT_LE(worst.ulp, this->limit(c))
          << std::hexfloat << c.name << "(" << x[worst.index] << ") = " << y[worst.index] << ", should be "
          << exact[worst.index] << " on " << kernels.target;
    }
  }
}

TYPED_TEST(MathTest, binary_functions_are_accurate_on_every_target) {
  using T = TypeParam;
  const Pairs<T> x = sample_pairs<T>();
  std::vector<Real> exact(x.a.size());
  for (const BinaryCase& c : kBinary) {
    std::transform(x.a.begin(), x.a.end(), x.b.begin(), exact.begin(), [&](T a, T b) { return c.reference(a, b); });
    for (const MathKernels& kernels : math_kernels()) {
      const std::vector<T> y = this->run(find(kernels.binary, c.name), x);
      const Worst worst = worst_error(y, exact, 0);
      this->RecordProperty(std::string(c.name) + "_" + kernels.target, std::to_string(worst.ulp));
      EXPECT_LE(worst.ulp, this->limit(c))
          << std::hexfloat << c.name << "(" << x.a[worst.index] << ", " << x.b[worst.index] << ") = " << y[worst.index]
          << ", should be " << exact[worst.index] << " on " << kernels.target;
    }
  }
}

TYPED_TEST(MathTest, avx2_and_avx512_give_the_same_bits) {
  using T = TypeParam;
  const std::vector<MathKernels> all = math_kernels();
  const auto find_target = [&](const std::string& name) {
    return std::find_if(all.begin(), all.end(), [&](const MathKernels& k) { return k.target == name; });
  };
  const auto avx2 = find_target("AVX2"), avx512 = find_target("AVX3");
  if (avx2 == all.end() || avx512 == all.end()) GTEST_SKIP() << "needs a CPU with AVX-512";
  const auto expect_equal = [&](const auto& f, const auto& g, const auto& x, size_t n) {
    const std::vector<T> y = this->run(f, x), z = this->run(g, x);
    EXPECT_EQ(std::memcmp(y.data(), z.data(), n * sizeof(T)), 0) << f.name;
  };
  const std::vector<T> x = samples<T>();
  const Pairs<T> pairs = sample_pairs<T>();
  for (size_t i = 0; i < std::size(kUnary); ++i) expect_equal(avx2->unary[i], avx512->unary[i], x, x.size());
  for (size_t i = 0; i < std::size(kBinary); ++i)
    expect_equal(avx2->binary[i], avx512->binary[i], pairs, pairs.a.size());
}

}  // namespace
}  // namespace thalweg::test
