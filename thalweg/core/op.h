#pragma once

// What an op is to the rest of the engine. An op is an aggregate of attributes (struct Matmul { bool transpose_a; … })
// with free functions over it; TW_DEFINE_OP gathers them into one OpInfo:
//   Specs infer(const Matmul&, Inputs)                                the only shape and dtype rule; raises user errors
//   void run(const Matmul&, Arrays in, Arrays out)                    the CPU kernel, or with workspace:
//   void run(const Matmul&, Arrays in, Arrays out, Scratch)  and  std::int64_t workspace(const Matmul&, Inputs)
//   void run_by_regions(const Matmul&, Arrays in, Arrays out, Scratch, OnRegion)   the same, telling what stands of the
//                                                                     first output
//   std::int64_t alias(const Matmul&, Inputs)                         output 0 is a view of input 0 at this byte
//                                                                     offset, or -1
//   Keeps keeps(const Matmul&, Needs)                                 what the gradient rule will read
//   Gradients gradient(const Matmul&, const Kept&, const Tensors& dy, Needs)   one entry per input, in public ops
//   Tensors reference(const Matmul&, const Tensors& in)               the same in plain ops: oracle, default gradient
//   bool differentiable(const Matmul&)                                returning false: explicitly not differentiable
//   bool in_place(const Matmul&)                                      true: element i of the outputs is made of element
//                                                                     i of the inputs, so that one may take the
//                                                                     memory of the other
//   bool checks_values(const Matmul&)                                 true: the kernel throws on some values
//   double flops(const Matmul&, Inputs)                               of its products; ops without are cheap to repeat
//   BatchStates batch_rule(const Matmul&, Inputs, BatchStates& in, std::int64_t examples)
//                                                                     the outputs' states; may turn a whole input into
//                                                                     rows, which are then cut out of it
//   Matmul with_batch(const Matmul&, const BatchState& out, std::int64_t examples)
//                                                                     the attributes for another number of examples
//   Slice lifted(const Slice&, Inputs in, std::int64_t entries)       the attributes for inputs and outputs with one
//                                                                     more axis in front, of this many entries
// and TW_FIELDS, right after the struct, names its attributes.
#include <concepts>
#include <memory>
#include <span>

#include "thalweg/core/batch.h"
#include "thalweg/core/fields.h"
#include "thalweg/core/gradient.h"
#include "thalweg/core/region.h"
#include "thalweg/core/tensor.h"

namespace thalweg {

using Specs = SmallVector<Spec, 3>;

// The inputs' specs as infer sees them.
class Inputs {
 public:
  Inputs(std::span<const Spec* const> specs) : specs_(specs) {}
  int size() const { return static_cast<int>(specs_.size()); }
  const Spec& operator[](int i) const { return *specs_[static_cast<std::size_t>(i)]; }

 private:
  std::span<const Spec* const> specs_;
};

// One operand of a kernel: bytes and what they mean.
struct Array {
  void* data;
  const Spec* spec;
  const Shape& shape() const { return spec->shape; }
  DType dtype() const { return spec->dtype; }
  std::int64_t size() const { return spec->size(); }
  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
};
using Arrays = std::span<const Array>;

using Scratch = std::span<std::byte>;  // 64-byte aligned; as many bytes as the op's workspace() asked for

// A set of input or output positions. Positions from 63 on share one bit, so that a set is never too small.
class Positions {
 public:
  constexpr Positions() = default;
  constexpr Positions(std::initializer_list<int> list) {
    for (int i : list) add(i);
  }
  static constexpr Positions all() { return Positions(~std::uint64_t{0}); }
  constexpr bool operator[](std::size_t i) const { return bits_ >> (i < 63 ? i : 63) & 1; }
  constexpr void add(int i) { bits_ |= std::uint64_t{1} << (i < 63 ? i : 63); }
  constexpr bool any() const { return bits_ != 0; }

 private:
  constexpr explicit Positions(std::uint64_t bits) : bits_(bits) {}
  std::uint64_t bits_ = 0;
};

using Needs = Positions;  // the inputs that want a gradient

// What a gradient rule reads of the forward pass; the rest is let go.
struct Keeps {
  Positions inputs, outputs;
};

// The kept tensors of one recorded op, and the specs of all of them.
class Kept {
 public:
  Kept(const char* op, std::span<const Tensor> inputs, std::span<const Tensor> outputs, const Keeps& keeps);
  Tensor input(int i) const { return get(inputs_, i, "input"); }
  Tensor output(int i) const { return get(outputs_, i, "output"); }
  const Spec& input_spec(int i) const { return input_specs_[static_cast<std::size_t>(i)]; }
  const Spec& output_spec(int i) const { return output_specs_[static_cast<std::size_t>(i)]; }
  int inputs() const { return static_cast<int>(input_specs_.size()); }
  int outputs() const { return static_cast<int>(output_specs_.size()); }
  template <class F>
  void for_each(F f) const {  // the tensors that are held
    for (const auto* list : {&inputs_, &outputs_})
      for (const auto& tensor : *list)
        if (tensor.defined()) f(tensor);
  }

 private:
  Tensor get(const Tensors& list, int i, const char* what) const;
  const char* op_;
  Tensors inputs_, outputs_;
  Specs input_specs_, output_specs_;
};

enum class GradientKind { rule, reference, none, missing };  // none: explicitly not differentiable

struct OpInfo {
  const char* name;
  memory::Owner owner;
  GradientKind kind;
  bool in_place, checks_values;
  Specs (*infer)(const void* op, Inputs);
  void (*run)(const void* op, Arrays in, Arrays out, Scratch);
  void (*run_by_regions)(const void* op, Arrays in, Arrays out, Scratch, OnRegion);  // null: only as a whole
  std::int64_t (*workspace)(const void* op, Inputs);                                 // null: none
  std::int64_t (*alias)(const void* op, Inputs);                                     // null: never
  Keeps (*keeps)(const void* op, Needs);
  Gradients (*gradient)(const void* op, const Kept&, const Tensors& dy, Needs);
  Tensors (*reference)(const void* op, const Tensors& in);
  std::shared_ptr<const void> (*copy)(const void* op);
  double (*flops)(const void* op, Inputs);                                                    // null: none
  std::shared_ptr<void> (*make)();                                                            // with default attributes
  void (*visit)(void* op, FieldVisitor&);                                                     // null: no attributes
  BatchStates (*batch_rule)(const void* op, Inputs, BatchStates& in, std::int64_t examples);  // null: blocked
  std::shared_ptr<const void> (*with_batch)(const void* op, const BatchState& out,
                                            std::int64_t examples);                     // null: as it is
  std::shared_ptr<const void> (*lifted)(const void* op, Inputs, std::int64_t entries);  // null: not known
};

// Runs an op: infers, allocates, computes, and shows the call to the tapes of this thread.
Tensors apply(const OpInfo& info, const void* op, std::span<const Tensor> inputs);

template <class Op>
requires(!std::is_pointer_v<Op>)  // a pointer is the op's address, not the op
    Tensors apply(const OpInfo& info, const Op& op, std::initializer_list<Tensor> inputs) {
  return apply(info, static_cast<const void*>(&op), std::span(inputs.begin(), inputs.size()));
}

namespace detail {

template <class Op>
constexpr GradientKind gradient_kind() {
  if constexpr (requires(const Op& op) {
                  { differentiable(op) } -> std::same_as<bool>;
                })
    return GradientKind::none;
  else if constexpr (requires(const Op& op, const Kept& kept, const Tensors& dy) { gradient(op, kept, dy, Needs()); })
    return GradientKind::rule;
  else if constexpr (requires(const Op& op, const Tensors& in) { reference(op, in); })
    return GradientKind::reference;
  else
    return GradientKind::missing;
}

// The gradient of an op that has only a reference: the reference is run again under a tape and differentiated.
Gradients gradient_by_reference(const OpInfo& info, const void* op, const Kept& kept, const Tensors& dy, Needs needs);

template <class Op>
const Op& as(const void* op) {
  return *static_cast<const Op*>(op);
}

template <class Op>
void set_run(OpInfo& info) {
  if constexpr (requires(const Op& op, Arrays a) { run(op, a, a, Scratch()); }) {
    info.run = [](const void* op, Arrays in, Arrays out, Scratch scratch) { run(as<Op>(op), in, out, scratch); };
    info.workspace = [](const void* op, Inputs in) -> std::int64_t { return workspace(as<Op>(op), in); };
  } else {
    info.run = [](const void* op, Arrays in, Arrays out, Scratch) { run(as<Op>(op), in, out); };
  }
  if constexpr (requires(const Op& op, Arrays a, OnRegion done) { run_by_regions(op, a, a, Scratch(), done); })
    info.run_by_regions = [](const void* op, Arrays in, Arrays out, Scratch scratch, OnRegion done) {
      run_by_regions(as<Op>(op), in, out, scratch, done);
    };
}

template <class Op>
void set_gradient(OpInfo& info) {
  info.kind = gradient_kind<Op>();
  if constexpr (gradient_kind<Op>() == GradientKind::rule) {
    info.gradient = [](const void* op, const Kept& kept, const Tensors& dy, Needs needs) {
      return gradient(as<Op>(op), kept, dy, needs);
    };
    if constexpr (requires(const Op& op) { keeps(op, Needs()); })
      info.keeps = [](const void* op, Needs needs) { return keeps(as<Op>(op), needs); };
    else
      info.keeps = [](const void*, Needs) { return Keeps{}; };
  } else {
    info.keeps = [](const void*, Needs) { return Keeps{.inputs = Positions::all(), .outputs = {}}; };
  }
  if constexpr (requires(const Op& op, const Tensors& in) { reference(op, in); })
    info.reference = [](const void* op, const Tensors& in) -> Tensors { return reference(as<Op>(op), in); };
}

template <class Op>
void set_fields(OpInfo& info) {
  constexpr bool has_fields = requires(Op & op, FieldVisitor & visitor) { visit_op(op, visitor); };
  static_assert(std::is_empty_v<Op> || has_fields, "name the attributes of the op: TW_FIELDS(Op, first, second)");
  if constexpr (has_fields)
    info.visit = [](void* op, FieldVisitor& visitor) { visit_op(*static_cast<Op*>(op), visitor); };
}

template <class Op>
void set_batch(OpInfo& info) {
  if constexpr (requires(const Op& op, Inputs in, BatchStates& states) { batch_rule(op, in, states, 1); })
    info.batch_rule = [](const void* op, Inputs in, BatchStates& states, std::int64_t examples) -> BatchStates {
      return batch_rule(as<Op>(op), in, states, examples);
    };
  if constexpr (requires(const Op& op, const BatchState& out) { with_batch(op, out, 1); })
    info.with_batch = [](const void* op, const BatchState& out, std::int64_t examples) -> std::shared_ptr<const void> {
      return std::make_shared<Op>(with_batch(as<Op>(op), out, examples));
    };
  if constexpr (requires(const Op& op, Inputs in) { lifted(op, in, 1); })
    info.lifted = [](const void* op, Inputs in, std::int64_t entries) -> std::shared_ptr<const void> {
      return std::make_shared<Op>(lifted(as<Op>(op), in, entries));
    };
}

template <class Op>
OpInfo make_op_info(const char* name) {
  OpInfo info{};
  info.name = name;
  info.owner = memory::owner(name);
  info.infer = [](const void* op, Inputs in) -> Specs { return infer(as<Op>(op), in); };
  set_run<Op>(info);
  set_gradient<Op>(info);
  if constexpr (requires(const Op& op, Inputs in) { alias(op, in); })
    info.alias = [](const void* op, Inputs in) -> std::int64_t { return alias(as<Op>(op), in); };
  info.copy = [](const void* op) -> std::shared_ptr<const void> { return std::make_shared<Op>(as<Op>(op)); };
  info.make = []() -> std::shared_ptr<void> { return std::make_shared<Op>(); };
  if constexpr (requires(const Op& op) { in_place(op); }) info.in_place = true;
  if constexpr (requires(const Op& op) { checks_values(op); }) info.checks_values = true;
  if constexpr (requires(const Op& op, Inputs in) { flops(op, in); })
    info.flops = [](const void* op, Inputs in) -> double { return flops(as<Op>(op), in); };
  set_fields<Op>(info);
  set_batch<Op>(info);
  return info;
}

}  // namespace detail

// Defines <name>_info(), which ops.def lists. Stands last in the op's file, after its functions.
#define TW_DEFINE_OP(name, Op)                                             \
  const OpInfo& name##_info() {                                            \
    static const OpInfo info = ::thalweg::detail::make_op_info<Op>(#name); \
    return info;                                                           \
  }

}  // namespace thalweg
