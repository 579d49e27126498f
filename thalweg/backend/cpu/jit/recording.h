#pragma once

// Vector code without branches, written down from the text of the row kernels: what the emitter turns into
// instructions.
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "thalweg/backend/cpu/generated.h"

namespace thalweg::jit {

// Lanes are floats or doubles, for a whole recording. A mask is what compare makes.
enum class Op : std::uint8_t {
  load,      // the next elements of an input
  scalar,    // the one element of an input
  constant,  // `bits`
  add,
  subtract,
  multiply,
  divide,
  minimum,  // both as the instructions have it: the second operand if either is NaN
  maximum,
  square_root,
  round,                  // immediate: Rounding
  round_to_half,          // to what 16 bits hold
  multiply_add,           // a b + c, rounded once
  negative_multiply_add,  // c - a b
  multiply_subtract,      // a b - c
  bit_and,
  bit_or,
  bit_xor,
  integer_add,
  integer_subtract,
  shift_left,   // immediate: bits
  shift_right,  // immediate: bits; zeros come in
  compare,      // immediate: Comparison
  mask_and,
  mask_or,
  select,          // a ? b : c
  select_or_zero,  // a ? b : 0
};

// As the instructions number them; exclusive or with 4 is the opposite.
enum class Comparison : std::uint8_t {
  equal = 0,
  not_ordered = 3,
  not_equal = 4,
  less = 17,
  less_equal = 18,
  greater_equal = 29,
  greater = 30
};
enum class Rounding : std::uint8_t { nearest = 8, down = 9, up = 10 };  // none of them raises an exception

struct Node {
  Op op;
  std::uint8_t immediate = 0;  // load and scalar: the number of the input
  int operands[3] = {-1, -1, -1};
  std::uint64_t bits = 0;
  friend bool operator==(const Node&, const Node&) = default;
};

constexpr bool is_mask(Op op) { return op >= Op::compare && op <= Op::mask_or; }

struct Recording {
  Binding binding;
  std::vector<Node> nodes;   // operands come before their uses
  std::vector<int> outputs;  // values as they are stored: for bf16 and booleans the lower bits of each lane
};

// A float that is computed from one byte and constants: what it is for each of the 256.
struct ByteValues {
  explicit ByteValues(int value) : byte(value) {}
  int byte;  // the value that is the byte
  std::array<float, 256> values = {};
};

// Collects nodes; equal ones are written once.
class Recorder {
 public:
  explicit Recorder(const Binding& binding) : binding_(binding), wide_(binding.compute == DType::f64) {
    table_.assign(256, -1);
  }

  int add(Node node);
  int constant(std::uint64_t bits) { return add({.op = Op::constant, .bits = bits}); }
  int opposite(int mask);
  bool wide() const { return wide_; }
  // Whether a float is known to be a bf16, its lower bits all zero: rounding to one would change nothing.
  bool is_bf16(int value) const { return is_bf16_[static_cast<std::size_t>(value)] != 0; }
  std::vector<Node> take() { return std::move(nodes_); }

  // Something was asked for that has no straight vector code.
  void fail() { failed_ = true; }
  bool failed() const { return failed_; }

 private:
  std::optional<int> simpler(Node& node);
  std::optional<int> simpler_comparison(const Node& node);
  std::optional<int> simpler_selection(Node& node);
  std::optional<int> simpler_division(const Node& node);
  std::shared_ptr<const ByteValues> byte_values(const Node& node) const;  // null: it is none
  bool is_byte(int value) const;
  int byte_behind(const Node& node) const;
  bool makes_bf16(const Node& node) const;
  bool is_constant(int value, std::uint64_t bits) const;
  bool is_one(int value) const { return is_constant(value, wide_ ? 0x3FF0000000000000U : 0x3F800000U); }
  void grow();

  const Binding& binding_;
  std::vector<Node> nodes_;
  std::vector<char> is_bf16_;                                   // of every node
  std::vector<std::shared_ptr<const ByteValues>> byte_values_;  // of every node
  std::vector<int> table_;                                      // open addressing by the node's hash
  bool wide_, failed_ = false;
};

// The recorder of the recording in progress on this thread.
extern thread_local Recorder* recorder;

// None: a row of the program has no straight vector code.
std::optional<Recording> record(const Program& program, const Binding& binding);

}  // namespace thalweg::jit
