#include "thalweg/backend/cpu/jit/emitter.h"

#include <algorithm>

namespace thalweg::jit {
namespace {

// Kept free for operands that come from memory while an instruction is put together.
constexpr int spare_registers = 3;
// Registers for pointers; those from the fifth on belong to the caller.
constexpr int pointer_registers[] = {8, 9, 10, 11, 3, 5, 12, 13, 14, 15};
constexpr int first_callers_register = 4;

// The values that the loop only reads, the most used first.
std::vector<int> by_use(const Schedule& schedule) {
  std::vector<int> order;
  for (int i = 0; i < static_cast<int>(schedule.uses.size()); ++i)
    if (schedule.is_invariant[static_cast<std::size_t>(i)] && !schedule.uses[static_cast<std::size_t>(i)].empty())
      order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return schedule.uses[static_cast<std::size_t>(a)].size() > schedule.uses[static_cast<std::size_t>(b)].size();
  });
  return order;
}

}  // namespace

Emitter::Emitter(const Recording& recording, Isa isa, void* buffer, std::size_t bytes)
    : Instructions(isa, recording.binding.compute == DType::f64, buffer, bytes),
      recording_(recording),
      schedule_(make_schedule(recording, masks_apart())),
      places_(recording.nodes.size()),
      vectors_(0, registers()),
      masks_(1, 7) {}  // mask 0 means none

// rdi: the pointers. rsi: how many elements. rax: the element reached. rdx: the constants. rcx: for a moment.
std::size_t Emitter::emit() {
  Xbyak::Label loop;
  assign_pointers();
  enter();
  emit_invariants();
  pin_invariants();
  xor_(eax, eax);
  align(32);
  L(loop);
  for (position_ = 0; position_ < static_cast<int>(schedule_.body.size()); ++position_)
    emit_step(schedule_.body[static_cast<std::size_t>(position_)]);
  add(rax, lanes());
  cmp(rax, rsi);
  jb(loop, T_NEAR);
  leave();
  emit_constants();
  return getSize();
}

void Emitter::assign_pointers() {
  const auto& inputs = recording_.binding.inputs;
  std::size_t next = 0;
  for (std::size_t i = 0; i < inputs.size() + recording_.binding.outputs.size(); ++i) {
    const bool wanted = i >= inputs.size() || !inputs[i].scalar;
    pointers_.push_back(wanted && next < std::size(pointer_registers) ? pointer_registers[next++] : -1);
  }
}

void Emitter::enter() {
  for (std::size_t i = first_callers_register; i < std::size(pointer_registers); ++i)
    if (std::find(pointers_.begin(), pointers_.end(), pointer_registers[i]) != pointers_.end())
      push(Reg64(pointer_registers[i]));
  mov(rdx, rsp);
  mov(ecx, 0x7FFFFFFF);  // the size of the frame, known at the end
  frame_size_at_ = getSize() - 4;
  sub(rsp, rcx);
  and_(rsp, -64);
  mov(ptr[rsp], rdx);
  lea(rdx, ptr[rip + constants_label_]);
  for (std::size_t i = 0; i < pointers_.size(); ++i)
    if (pointers_[i] >= 0) mov(Reg64(pointers_[i]), ptr[rdi + 8 * static_cast<int>(i)]);
}

void Emitter::leave() {
  if (recording_.binding.streamed) sfence();  // before others are told that the results are there
  mov(rsp, ptr[rsp]);
  for (std::size_t i = std::size(pointer_registers); i-- > first_callers_register;)
    if (std::find(pointers_.begin(), pointers_.end(), pointer_registers[i]) != pointers_.end())
      pop(Reg64(pointer_registers[i]));
  vzeroupper();
  ret();
  rewrite(frame_size_at_,
          static_cast<std::uint64_t>(frame_head) +
              static_cast<std::uint64_t>(slots_) * static_cast<std::uint64_t>(vector_bytes()),
          4);
}

// AVX-512 repeats an element in the instruction that reads it; for AVX2 whole vectors are laid down.
void Emitter::emit_constants() {
  align(64);
  L(constants_label_);
  for (const int node : constants_)
    for (int copy = 0; copy < (masks_apart() ? 1 : lanes()); ++copy) {
      if (lane_bytes() == 8)
        dq(node_of(node).bits);
      else
        dd(static_cast<std::uint32_t>(node_of(node).bits));
    }
}

void Emitter::emit_invariants() {
  for (const int node : schedule_.invariant) {
    operands_ = node_of(node).operands;
    compute(node);
    Place& at = place(node);
    at.slot = new_slot();
    vmovups(slot_address(at.slot), vector(at.index));
    vectors_.holder(at.index) = Registers::free;
    at.index = -1;
  }
}

void Emitter::pin_invariants() {
  int room = registers() - schedule_.pressure - spare_registers;
  for (const int node : by_use(schedule_)) {
    if (room-- <= 0) return;
    const int index = vectors_.find_free();
    move_to(vector(index), node);
    vectors_.holder(index) = Registers::taken;
    place(node).index = index;
  }
}

void Emitter::emit_step(const Step& step) {
  const int stored[3] = {step.node, -1, -1};
  operands_ = step.output < 0 ? node_of(step.node).operands : stored;
  if (step.output < 0)
    compute(step.node);
  else
    store_output(step.node, step.output);
}

void Emitter::compute(int node) {
  const Node& what = node_of(node);
  const int x = what.operands[0];
  switch (what.op) {
    case Op::load: return load_input(node);
    case Op::scalar: {
      mov(rcx, ptr[rdi + 8 * what.immediate]);
      return broadcast(vector(result(node)), ptr[rcx]);
    }
    case Op::square_root: return with_operand(x, [&](const Operand& from) { square_root(vector(result(node)), from); });
    case Op::round: {
      const Vector from = in_register(x);
      return round(vector(result(node)), from, static_cast<Rounding>(what.immediate));
    }
    case Op::round_to_half: {
      const Vector from = in_register(x);
      return round_to_half(vector(result(node)), from);
    }
    case Op::shift_left:
    case Op::shift_right: {
      const Vector from = in_register(x);
      return shift(what.op, vector(result(node)), from, what.immediate);
    }
    case Op::multiply_add:
    case Op::negative_multiply_add:
    case Op::multiply_subtract: return compute_fused(node);
    case Op::compare:
    case Op::mask_and:
    case Op::mask_or: return compute_mask(node);
    case Op::select:
    case Op::select_or_zero: return compute_selection(node);
    default: return compute_binary(node);
  }
}

void Emitter::compute_binary(int node) {
  const Node& what = node_of(node);
  int x = what.operands[0], z = what.operands[1];
  if (commutes(what.op) && place(x).index < 0) std::swap(x, z);
  const Vector first = in_register(x);
  with_operand(z, [&](const Operand& second) { binary(what.op, vector(result(node)), first, second); });
}

// One of the operands is overwritten by the result: one that is not needed again, or a copy of the third.
void Emitter::compute_fused(int node) {
  const Node& what = node_of(node);
  int x = what.operands[0], z = what.operands[1];
  const int a = what.operands[2];
  const auto last_in_register = [&](int operand) { return place(operand).index >= 0 && dies(operand); };
  if (!last_in_register(a) && (last_in_register(x) || last_in_register(z))) {
    if (!last_in_register(x)) std::swap(x, z);
    const int to = place(x).index;
    const Vector factor = in_register(z);
    with_operand(a, [&](const Operand& added) { multiply_and_add(what.op, vector(to), factor, added); });
    release();
    return give(node, to);
  }
  int to;
  if (last_in_register(a)) {
    to = place(a).index;
  } else {
    to = allocate(vectors_);
    vectors_.holder(to) = Registers::taken;
    move_to(vector(to), a);
  }
  if (place(x).index < 0) std::swap(x, z);
  const Vector factor = in_register(x);
  with_operand(z, [&](const Operand& other) { add_product(what.op, vector(to), factor, other); });
  release();
  give(node, to);
}

void Emitter::compute_mask(int node) {
  const Node& what = node_of(node);
  const int x = what.operands[0], z = what.operands[1];
  const int first = index_of(x);
  if (what.op != Op::compare) {
    const int second = index_of(z);
    return combine_masks(what.op, result(node), first, second);
  }
  with_operand(z, [&](const Operand& second) { compare(result(node), vector(first), second, what.immediate); });
}

void Emitter::compute_selection(int node) {
  const Node& what = node_of(node);
  const int mask = index_of(what.operands[0]);
  if (what.op == Op::select_or_zero) {
    const Vector x = in_register(what.operands[1]);
    return select_or_zero(vector(result(node)), mask, x);
  }
  const Vector z = in_register(what.operands[2]);
  with_operand(what.operands[1], [&](const Operand& x) { select(vector(result(node)), mask, x, z); });
}

void Emitter::load_input(int node) {
  const int input = node_of(node).immediate;
  const DType dtype = recording_.binding.inputs[static_cast<std::size_t>(input)].dtype;
  load_elements(dtype, vector(result(node)), elements(input, dtype));
}

void Emitter::store_output(int node, int output) {
  const DType dtype = recording_.binding.outputs[static_cast<std::size_t>(output)];
  const Address to = elements(static_cast<int>(recording_.binding.inputs.size()) + output, dtype);
  const Vector value = in_register(node);
  const int spare = dtype == DType::bf16 || dtype == DType::boolean ? allocate(vectors_) : 0;
  if (recording_.binding.streamed && dtype == recording_.binding.compute)
    vmovntps(to, value);
  else
    store_elements(dtype, to, value, vector(spare));
  release();
}

Instructions::Address Emitter::elements(int number, DType dtype) {
  const int kept = pointers_[static_cast<std::size_t>(number)];
  if (kept < 0) mov(rcx, ptr[rdi + 8 * number]);
  return ptr[(kept < 0 ? rcx : Reg64(kept)) + rax * static_cast<int>(size_of(dtype))];
}

}  // namespace thalweg::jit
