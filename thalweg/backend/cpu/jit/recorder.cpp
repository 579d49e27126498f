#include "thalweg/backend/cpu/jit/recording.h"

namespace thalweg::jit {

thread_local Recorder* recorder = nullptr;

namespace {

std::size_t hash(const Node& node) {
  std::uint64_t mixed = node.bits ^ (static_cast<std::uint64_t>(node.op) << 8 | node.immediate);
  for (const int operand : node.operands) mixed = (mixed ^ static_cast<std::uint64_t>(operand)) * 0x9E3779B97F4A7C15U;
  return static_cast<std::size_t>(mixed >> 32);
}

}  // namespace

int Recorder::add(Node node) {
  if (const auto known = simpler(node)) return *known;
  if (2 * nodes_.size() >= table_.size()) grow();
  std::size_t at = hash(node) & (table_.size() - 1);
  for (; table_[at] >= 0; at = (at + 1) & (table_.size() - 1))
    if (nodes_[static_cast<std::size_t>(table_[at])] == node) return table_[at];
  nodes_.push_back(node);
  is_bf16_.push_back(makes_bf16(node));
  byte_values_.push_back(byte_values(node));
  return table_[at] = static_cast<int>(nodes_.size()) - 1;
}

void Recorder::grow() {
  table_.assign(2 * table_.size(), -1);
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    std::size_t at = hash(nodes_[i]) & (table_.size() - 1);
    while (table_[at] >= 0) at = (at + 1) & (table_.size() - 1);
    table_[at] = static_cast<int>(i);
  }
}

bool Recorder::makes_bf16(const Node& node) const {
  const auto [x, z, a] = node.operands;
  switch (node.op) {
    case Op::load: return binding_.inputs[node.immediate].dtype == DType::bf16;
    case Op::constant: return !wide_ && (node.bits & 0xFFFFU) == 0;
    case Op::bit_and: return is_bf16(x) || is_bf16(z);
    case Op::minimum:
    case Op::maximum:
    case Op::bit_or:
    case Op::bit_xor: return is_bf16(x) && is_bf16(z);
    case Op::select: return is_bf16(z) && is_bf16(a);
    case Op::select_or_zero: return is_bf16(z);
    default: return false;
  }
}

bool Recorder::is_constant(int value, std::uint64_t bits) const {
  const Node& node = nodes_[static_cast<std::size_t>(value)];
  return node.op == Op::constant && node.bits == bits;
}

// Every mask comes from comparisons, each of which has an opposite, NaN included.
int Recorder::opposite(int mask) {
  Node node = nodes_[static_cast<std::size_t>(mask)];
  if (node.op == Op::compare) {
    node.immediate ^= 4;
  } else {
    node.op = node.op == Op::mask_and ? Op::mask_or : Op::mask_and;
    for (int k = 0; k < 2; ++k) node.operands[k] = opposite(node.operands[k]);
  }
  return add(node);
}

// Rewrites the node, or names a value that is the same. Results keep their bits.
std::optional<int> Recorder::simpler(Node& node) {
  switch (node.op) {
    case Op::bit_xor:
    case Op::integer_subtract: {
      const Node &x = nodes_[static_cast<std::size_t>(node.operands[0])],
                 &z = nodes_[static_cast<std::size_t>(node.operands[1])];
      if (x.op != Op::constant || z.op != Op::constant) return std::nullopt;
      const std::uint64_t lane = wide_ ? ~std::uint64_t{0} : 0xFFFFFFFFU;
      return constant((node.op == Op::bit_xor ? x.bits ^ z.bits : x.bits - z.bits) & lane);
    }
    case Op::shift_right: {  // drops what the mask would
      const Node& x = nodes_[static_cast<std::size_t>(node.operands[0])];
      if (node.immediate == 16 && x.op == Op::bit_and && is_constant(x.operands[1], 0xFFFF0000U))
        node.operands[0] = x.operands[0];
      return std::nullopt;
    }
    case Op::compare: return simpler_comparison(node);
    case Op::select: return simpler_selection(node);
    case Op::divide: return simpler_division(node);
    default: return std::nullopt;
  }
}

// The ones and zeros of a boolean result, compared with zero, are its mask again.
std::optional<int> Recorder::simpler_comparison(const Node& node) {
  const Node x = nodes_[static_cast<std::size_t>(node.operands[0])];
  if (x.op != Op::select_or_zero || !is_one(x.operands[1]) || !is_constant(node.operands[1], 0)) return std::nullopt;
  switch (static_cast<Comparison>(node.immediate)) {
    case Comparison::greater:
    case Comparison::not_equal: return x.operands[0];
    case Comparison::equal: return opposite(x.operands[0]);
    default: return std::nullopt;
  }
}

std::optional<int> Recorder::simpler_selection(Node& node) {
  auto& [mask, x, z] = node.operands;
  if (x == z) return x;
  if (is_constant(x, 0) && nodes_[static_cast<std::size_t>(mask)].op == Op::compare) {
    mask = opposite(mask);
    std::swap(x, z);
  }
  if (is_constant(z, 0)) return add({.op = Op::select_or_zero, .operands = {mask, x, -1}});
  return std::nullopt;
}

}  // namespace thalweg::jit
