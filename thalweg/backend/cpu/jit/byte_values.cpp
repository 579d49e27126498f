// Floats that are computed from one byte, as images are scaled: there are 256 of them, and what holds for all of them
// can be tried. A division by a constant is two products then, which take a quarter of its time.
#include <bit>
#include <cmath>

#include "thalweg/backend/cpu/jit/recording.h"

namespace thalweg::jit {
namespace {

float float_of(std::uint64_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits)); }

// Numbers that every mode of the processor computes alike.
bool is_plain(float x) { return x == 0 || std::isnormal(x); }

float compute(Op op, const float* x) {
  switch (op) {
    case Op::add: return x[0] + x[1];
    case Op::subtract: return x[0] - x[1];
    case Op::multiply: return x[0] * x[1];
    case Op::divide: return x[0] / x[1];
    case Op::multiply_add: return std::fma(x[0], x[1], x[2]);
    default: return std::nanf("");
  }
}

// x / c is x factor + x rest, where factor + rest is 1 / c in more digits than a float has.
struct Quotient {
  float factor, rest;
  explicit Quotient(float c) : factor(1 / c), rest(static_cast<float>(1 / static_cast<double>(c) - factor)) {}

  bool holds_for(float x, float c) const {
    const float small = x * rest;
    return is_plain(small) &&
           std::bit_cast<std::uint32_t>(std::fma(x, factor, small)) == std::bit_cast<std::uint32_t>(x / c);
  }
};

}  // namespace

bool Recorder::is_byte(int value) const {
  const auto& known = byte_values_[static_cast<std::size_t>(value)];
  return known && known->byte == value;
}

// The byte that all operands but constants are computed from; -1: there is none, or more than one.
int Recorder::byte_behind(const Node& node) const {
  int byte = -1;
  for (const int operand : node.operands) {
    if (operand < 0 || nodes_[static_cast<std::size_t>(operand)].op == Op::constant) continue;
    const auto& known = byte_values_[static_cast<std::size_t>(operand)];
    if (!known || (byte >= 0 && byte != known->byte)) return -1;
    byte = known->byte;
  }
  return byte;
}

std::shared_ptr<const ByteValues> Recorder::byte_values(const Node& node) const {
  const bool loaded = node.op == Op::load && binding_.inputs[node.immediate].dtype == DType::u8;
  if (loaded || (node.op == Op::select && is_byte(node.operands[1]) && is_byte(node.operands[2]))) {
    auto bytes = std::make_shared<ByteValues>(static_cast<int>(nodes_.size()) - 1);
    for (std::size_t i = 0; i < 256; ++i) bytes->values[i] = static_cast<float>(i);
    return bytes;
  }
  const int byte = node.op >= Op::add && node.op <= Op::multiply_add ? byte_behind(node) : -1;
  if (byte < 0) return nullptr;
  auto made = std::make_shared<ByteValues>(byte);
  for (std::size_t i = 0; i < 256; ++i) {
    float operands[3] = {};
    for (int k = 0; k < 3 && node.operands[k] >= 0; ++k) {
      const auto at = static_cast<std::size_t>(node.operands[k]);
      operands[k] = nodes_[at].op == Op::constant ? float_of(nodes_[at].bits) : byte_values_[at]->values[i];
    }
    made->values[i] = compute(node.op, operands);
    if (!is_plain(made->values[i])) return nullptr;
  }
  return made;
}

std::optional<int> Recorder::simpler_division(const Node& node) {
  const int x = node.operands[0], divisor = node.operands[1];
  const auto known = byte_values_[static_cast<std::size_t>(x)];
  if (!known || nodes_[static_cast<std::size_t>(divisor)].op != Op::constant) return std::nullopt;
  const float c = float_of(nodes_[static_cast<std::size_t>(divisor)].bits);
  const Quotient quotient(c);
  if (!is_plain(c) || !is_plain(quotient.factor) || !is_plain(quotient.rest)) return std::nullopt;
  for (const float value : known->values)
    if (!quotient.holds_for(value, c)) return std::nullopt;
  const int factor = constant(std::bit_cast<std::uint32_t>(quotient.factor)),
            rest = constant(std::bit_cast<std::uint32_t>(quotient.rest));
  return add({.op = Op::multiply_add, .operands = {x, factor, add({.op = Op::multiply, .operands = {x, rest}})}});
}

}  // namespace thalweg::jit
