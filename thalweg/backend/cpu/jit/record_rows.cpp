// The rows, recorded: their text and that of the functions they call, compiled against vectors that write down what is
// done with them.
#include "thalweg/backend/cpu/targets.h"

#include <hwy/highway.h>

#include "thalweg/backend/cpu/jit/recording_vector.h"
#include "thalweg/core/scalar.h"

// Code is made for processors with fused multiplication.
#undef HWY_NAMESPACE
#define HWY_NAMESPACE N_RECORDING
#undef HWY_TARGET
#define HWY_TARGET HWY_AVX2
#undef HWY_NATIVE_FMA
#define HWY_NATIVE_FMA 1
#include "thalweg/backend/cpu/rows-inl.h"

namespace thalweg::N_RECORDING {
namespace {

#define TW_VALUE(i) Vector<D>(hn::Vec<D>{operands[i]})
#define TW_RECORD(expression) [](const int* operands) -> int { return result(D(), expression).id; }

template <class T>
int record_row(Row row, const int* operands) {
  using D = hn::Tag<T>;
  static constexpr int (*rows[])(const int*) = {
#define TW_PRIMITIVE1(name, dx, kind, domain) TW_UNARY(name, , dx, kind, domain)
#define TW_PRIMITIVE2(name, dx, dz, kind, domain) TW_BINARY(name, , dx, dz, kind, domain)
#define TW_PRIMITIVE3(name, dx, dz, da, kind, domain) TW_TERNARY(name, , dx, dz, da, kind, domain)
#define TW_UNARY(name, y, dx, kind, domain) TW_RECORD(name(TW_VALUE(0))),
#define TW_BINARY(name, y, dx, dz, kind, domain) TW_RECORD(name(TW_VALUE(0), TW_VALUE(1))),
#define TW_TERNARY(name, y, dx, dz, da, kind, domain) TW_RECORD(name(TW_VALUE(0), TW_VALUE(1), TW_VALUE(2))),
#include "thalweg/ops/elementwise.def"
#include "thalweg/ops/undef_rows.h"
  };
  return rows[static_cast<int>(row)](operands);
}

#undef TW_VALUE
#undef TW_RECORD

// A float as it is stored: bf16 rounds to nearest even and keeps NaN, booleans are 1 where it is not zero.
int record_conversion(DType dtype, int value) {
  const hn::Tag<std::uint32_t> du;
  const auto number = [&](std::uint32_t bits) { return hn::Set(du, bits); };
  if (dtype == DType::bf16) {
    const hn::Value<float> x{value};
    const auto bits = hn::recorder->is_bf16(value) ? hn::BitCast(du, x) : math::rounded_bits(hn::Tag<float>(), x);
    return hn::ShiftRight<16>(bits).id;
  }
  if (dtype == DType::boolean) {
    const int nonzero =
        hn::record_node(hn::Op::compare, value, number(0).id, -1, static_cast<std::uint8_t>(hn::Comparison::not_equal));
    return hn::IfThenElseZero(hn::MaskValue<std::uint32_t>{nonzero}, number(1)).id;
  }
  return value;
}

}  // namespace
}  // namespace thalweg::N_RECORDING

namespace thalweg::jit {
namespace {

// The values of a program by their operand numbers; inputs and constants are written down where they are first used.
class Values {
 public:
  Values(const Program& program, const Binding& binding, Recorder& to)
      : program_(program), binding_(binding), to_(to), ids_(static_cast<std::size_t>(program.first_result()), -1) {}

  int operator[](int operand) {
    int& id = ids_[static_cast<std::size_t>(operand)];
    if (id >= 0) return id;
    if (operand >= program_.inputs)
      return id = constant(program_.constants[static_cast<std::size_t>(operand - program_.inputs)]);
    const bool scalar = binding_.inputs[static_cast<std::size_t>(operand)].scalar;
    return id = to_.add({.op = scalar ? Op::scalar : Op::load, .immediate = static_cast<std::uint8_t>(operand)});
  }
  void add(int id) { ids_.push_back(id); }

 private:
  int constant(double value) {
    return to_.constant(to_.wide() ? std::bit_cast<std::uint64_t>(value)
                                   : std::bit_cast<std::uint32_t>(element_of<float>(value)));
  }

  const Program& program_;
  const Binding& binding_;
  Recorder& to_;
  std::vector<int> ids_;
};

struct CurrentRecorder {
  explicit CurrentRecorder(Recorder& now) { recorder = &now; }
  ~CurrentRecorder() { recorder = nullptr; }
};

}  // namespace

std::optional<Recording> record(const Program& program, const Binding& binding) {
  Recorder nodes(binding);
  const CurrentRecorder current(nodes);
  Values values(program, binding, nodes);
  for (const auto& [row, numbers] : program.instructions) {
    int operands[3] = {-1, -1, -1};
    for (int k = 0; k < 3; ++k)
      if (numbers[k] >= 0) operands[k] = values[numbers[k]];
    if (row == Row::round_to_bf16 && nodes.is_bf16(operands[0])) {
      values.add(operands[0]);
      continue;
    }
    values.add(nodes.wide() ? N_RECORDING::record_row<double>(row, operands)
                            : N_RECORDING::record_row<float>(row, operands));
    if (nodes.failed()) return std::nullopt;
  }
  Recording recording{binding, {}, {}};
  for (std::size_t i = 0; i < program.outputs.size(); ++i)
    recording.outputs.push_back(N_RECORDING::record_conversion(binding.outputs[i], values[program.outputs[i]]));
  recording.nodes = nodes.take();
  return recording;
}

}  // namespace thalweg::jit
