#pragma once

// A recording as machine code.
#include <cstddef>

#include "thalweg/backend/cpu/jit/instructions.h"
#include "thalweg/backend/cpu/jit/schedule.h"

namespace thalweg::jit {

// A set of registers and which node's value each holds.
class Registers {
 public:
  static constexpr int free = -1, taken = -2;  // taken: for something that is no node's value, or for good

  Registers(int first, int count) : first_(first), holders_(static_cast<std::size_t>(count), free) {}

  int find_free() const {
    for (std::size_t i = 0; i < holders_.size(); ++i)
      if (holders_[i] == free) return first_ + static_cast<int>(i);
    return -1;
  }
  int& holder(int index) { return holders_[static_cast<std::size_t>(index - first_)]; }
  int first() const { return first_; }
  int end() const { return first_ + static_cast<int>(holders_.size()); }

 private:
  int first_;
  std::vector<int> holders_;
};

class Emitter : private Instructions {
 public:
  Emitter(const Recording& recording, Isa isa, void* buffer, std::size_t bytes);

  // Writes the function into the buffer and returns its size. It does not depend on where it stands. Throws
  // Xbyak::Error if the buffer is too small.
  std::size_t emit();
  using Instructions::lanes;

 private:
  static constexpr int frame_head = 64;  // bytes; the caller's stack pointer

  // Where a value is at the moment.
  struct Place {
    int index = -1;  // of a register
    int slot = -1;   // of the frame
  };

  void enter();
  void leave();
  void assign_pointers();
  void emit_constants();
  void emit_invariants();
  void pin_invariants();

  void emit_step(const Step& step);
  void compute(int node);
  void compute_binary(int node);
  void compute_fused(int node);
  void compute_mask(int node);
  void compute_selection(int node);
  void load_input(int node);
  void store_output(int node, int output);

  const Node& node_of(int node) const { return recording_.nodes[static_cast<std::size_t>(node)]; }
  Place& place(int node) { return places_[static_cast<std::size_t>(node)]; }
  bool invariant(int node) const { return schedule_.is_invariant[static_cast<std::size_t>(node)]; }
  bool in_mask_register(int node) const { return masks_apart() && is_mask(node_of(node).op); }
  Registers& registers_of(int node) { return in_mask_register(node) ? masks_ : vectors_; }
  int next_use(int node) const;
  bool dies(int node) const { return !invariant(node) && next_use(node) < 0; }

  // A register for a new value; the value that is needed last makes room.
  int allocate(Registers& registers);
  void evict(int index, Registers& registers);
  int new_slot();
  Address slot_address(int slot);
  Address constant_address(int node, bool repeated);
  Address elements(int number, DType dtype);

  void move_to(const Vector& to, int node);
  // The value in a register; from memory it comes into one first.
  int index_of(int node);
  Vector in_register(int node) { return vector(index_of(node)); }
  // f(operand) with the value in a register or in memory.
  template <class F>
  void with_operand(int node, F&& f);
  // Frees what this step used for the last time.
  void release();
  // A register for the node's value once its operands are used up.
  int result(int node);
  void give(int node, int index);

  const Recording& recording_;
  Schedule schedule_;
  std::vector<Place> places_;
  Registers vectors_, masks_;
  std::vector<int> temporaries_, free_slots_, ended_slots_;
  std::vector<int> constants_;  // nodes, in the order in which they stand behind the code
  std::vector<int> pointers_;   // registers of the pointers; -1: fetched when it is used
  int slots_ = 0, position_ = -1;
  std::size_t frame_size_at_ = 0;
  const int* operands_ = nullptr;  // of the step in progress: they stay in their registers
  Xbyak::Label constants_label_;
};

template <class F>
void Emitter::with_operand(int node, F&& f) {
  const Place at = place(node);
  if (at.index >= 0)
    f(vector(at.index));
  else if (at.slot >= 0)
    f(slot_address(at.slot));
  else
    f(constant_address(node, true));
}

}  // namespace thalweg::jit
