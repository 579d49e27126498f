// Where the emitter keeps values: registers while there are any, then the stack frame.
#include <algorithm>

#include "thalweg/backend/cpu/jit/emitter.h"

namespace thalweg::jit {
namespace {

constexpr int max_slots = 256;  // of 64 bytes: a frame that no guard page is skipped by

}  // namespace

// The position of the next use after this step; -1: none.
int Emitter::next_use(int node) const {
  const auto& uses = schedule_.uses[static_cast<std::size_t>(node)];
  const auto next = std::upper_bound(uses.begin(), uses.end(), position_);
  return next == uses.end() ? -1 : *next;
}

int Emitter::allocate(Registers& registers) {
  if (const int index = registers.find_free(); index >= 0) return index;
  int farthest = -1, victim = -1;
  for (int index = registers.first(); index < registers.end(); ++index) {
    const int holder = registers.holder(index);
    if (holder < 0 || std::find(operands_, operands_ + 3, holder) != operands_ + 3) continue;
    const int next = next_use(holder);
    if (next > farthest) farthest = next, victim = index;
  }
  if (victim < 0) throw Xbyak::Error(Xbyak::ERR_INTERNAL);
  evict(victim, registers);
  return victim;
}

void Emitter::evict(int index, Registers& registers) {
  const int node = registers.holder(index);
  Place& at = place(node);
  if (at.slot < 0) {
    at.slot = new_slot();
    if (in_mask_register(node))
      store_mask(slot_address(at.slot), index);
    else
      vmovups(slot_address(at.slot), vector(index));
  }
  at.index = -1;
  registers.holder(index) = Registers::free;
}

int Emitter::new_slot() {
  if (!free_slots_.empty()) {
    const int slot = free_slots_.back();
    free_slots_.pop_back();
    return slot;
  }
  if (slots_ == max_slots) throw Xbyak::Error(Xbyak::ERR_CODE_IS_TOO_BIG);
  return slots_++;
}

Instructions::Address Emitter::slot_address(int slot) { return ptr[rsp + frame_head + slot * vector_bytes()]; }

Instructions::Address Emitter::constant_address(int node, bool repeated) {
  auto at = std::find(constants_.begin(), constants_.end(), node);
  if (at == constants_.end()) at = constants_.insert(at, node);
  const int number = static_cast<int>(at - constants_.begin());
  if (!masks_apart()) return ptr[rdx + number * vector_bytes()];
  return repeated ? ptr_b[rdx + number * lane_bytes()] : ptr[rdx + number * lane_bytes()];
}

void Emitter::move_to(const Vector& to, int node) {
  const Place& at = place(node);
  if (at.index >= 0)
    vmovaps(to, vector(at.index));
  else if (at.slot >= 0)
    vmovups(to, slot_address(at.slot));
  else if (node_of(node).bits == 0)
    vxorps(to, to, to);
  else
    broadcast(to, constant_address(node, false));
}

int Emitter::index_of(int node) {
  Place& at = place(node);
  if (at.index >= 0) return at.index;
  Registers& registers = registers_of(node);
  const int index = allocate(registers);
  if (in_mask_register(node))
    load_mask(index, slot_address(at.slot));
  else
    move_to(vector(index), node);
  if (invariant(node)) {
    registers.holder(index) = Registers::taken;
    temporaries_.push_back(index);
  } else {
    registers.holder(index) = node;
    at.index = index;
  }
  return index;
}

void Emitter::release() {
  for (const int index : temporaries_) vectors_.holder(index) = Registers::free;
  temporaries_.clear();
  for (const int slot : ended_slots_) free_slots_.push_back(slot);
  ended_slots_.clear();
  for (int k = 0; k < 3; ++k) {
    const int operand = operands_[k];
    if (operand < 0 || !dies(operand)) continue;
    Place& at = place(operand);
    if (at.index >= 0) registers_of(operand).holder(at.index) = Registers::free;
    if (at.slot >= 0) ended_slots_.push_back(at.slot);
    at = {};
  }
}

int Emitter::result(int node) {
  release();
  Registers& registers = registers_of(node);
  const int index = allocate(registers);
  give(node, index);
  return index;
}

void Emitter::give(int node, int index) {
  registers_of(node).holder(index) = node;
  place(node).index = index;
}

}  // namespace thalweg::jit
