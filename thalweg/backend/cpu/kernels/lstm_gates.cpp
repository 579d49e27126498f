#include "thalweg/backend/cpu/kernels/lstm_gates.h"

#include "thalweg/backend/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "thalweg/backend/cpu/kernels/lstm_gates.cpp"
#include <hwy/foreach_target.h>
// After foreach_target: compiled once per target.
#include "thalweg/backend/cpu/kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace thalweg::cpu {
namespace HWY_NAMESPACE {
namespace {

template <class T>
void activate(const LstmGates<T>& a) {
  const std::int64_t units = a.units;
  for (std::int64_t row = 0; row < a.rows; ++row) {
    const std::int64_t at = row * a.distance * units;
    const T *z = a.z + 4 * at, *c_before = a.c_before + row * a.before * units;
    T *gates = a.gates + 4 * at, *c = a.c + at, *h = a.h + at;
    for_each_chunk<T>(units, [&](auto chunk) HWY_ATTR {
      const auto sum = [&](int gate)
                           HWY_ATTR { return chunk.load(z + gate * units) + chunk.load(gates + gate * units); };
      const Lanes<T> i = sigmoid(sum(0)), f = sigmoid(sum(1)), g = tanh(sum(2)), o = sigmoid(sum(3));
      const Lanes<T> next = f * chunk.load(c_before) + i * g;
      chunk.store(i, gates);
      chunk.store(f, gates + units);
      chunk.store(g, gates + 2 * units);
      chunk.store(o, gates + 3 * units);
      chunk.store(next, c);
      chunk.store(o * tanh(next), h);
    });
  }
}

template <class T>
void gradients(const LstmGateGradients<T>& a) {
  const std::int64_t units = a.units;
  const Lanes<T> one(T(1)), none(T(0));
  for (std::int64_t row = 0; row < a.rows; ++row) {
    const std::int64_t at = row * a.distance * units;
    const T *gates = a.gates + 4 * at, *dgates = a.dgates == nullptr ? nullptr : a.dgates + 4 * at;
    const T *c_before = a.c_before + row * a.before * units, *dh = a.dh + row * units;
    T *dz = a.dz + 4 * at, *dc = a.dc + row * units;
    for_each_chunk<T>(units, [&](auto chunk) HWY_ATTR {
      const auto gate = [&](int which) HWY_ATTR { return chunk.load(gates + which * units); };
      const auto more = [&](int which) HWY_ATTR { return dgates ? chunk.load(dgates + which * units) : none; };
      const Lanes<T> i = gate(0), f = gate(1), g = gate(2), o = gate(3), squashed = tanh(chunk.load(a.c + at));
      const Lanes<T> from_h = chunk.load(a.dsequence + at) + chunk.load(dh);
      const Lanes<T> from_c = chunk.load(a.dcells + at) + chunk.load(dc) + from_h * o * (one - squashed * squashed);
      chunk.store((from_c * g + more(0)) * i * (one - i), dz);
      chunk.store((from_c * chunk.load(c_before) + more(1)) * f * (one - f), dz + units);
      chunk.store((from_c * i + more(2)) * (one - g * g), dz + 2 * units);
      chunk.store((from_h * squashed + more(3)) * o * (one - o), dz + 3 * units);
      chunk.store(from_c * f, dc);
    });
  }
}

template <class T>
constexpr LstmGateKernels<T> kTable{activate<T>, gradients<T>};

}  // namespace

const LstmGateKernels<float>* lstm_gates_f32() { return &kTable<float>; }
const LstmGateKernels<double>* lstm_gates_f64() { return &kTable<double>; }

}  // namespace HWY_NAMESPACE
}  // namespace thalweg::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thalweg::cpu {

HWY_EXPORT(lstm_gates_f32);
HWY_EXPORT(lstm_gates_f64);

template <>
const LstmGateKernels<float>& lstm_gate_kernels() {
  return *HWY_DYNAMIC_DISPATCH(lstm_gates_f32)();
}

template <>
const LstmGateKernels<double>& lstm_gate_kernels() {
  return *HWY_DYNAMIC_DISPATCH(lstm_gates_f64)();
}

}  // namespace thalweg::cpu
#endif
