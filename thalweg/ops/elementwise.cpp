#include "thalweg/ops/elementwise.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "thalweg/core/check.h"
#include "thalweg/core/dispatch.h"
#include "thalweg/ops/batch_rules.h"
#include "thalweg/ops/broadcast.h"
#include "thalweg/ops/cast/cast.h"
#include "thalweg/ops/registry.h"
#include "thalweg/ops/row_gradients.h"
#include "thalweg/ops/row_ops.h"

namespace thalweg {
namespace {

constexpr RowInfo row_infos[] = {
#define TW_PRIMITIVE1(name, dx, kind, domain) {Row::name, #name, 1, RowKind::kind, #domain},
#define TW_PRIMITIVE2(name, dx, dz, kind, domain) {Row::name, #name, 2, RowKind::kind, #domain},
#define TW_PRIMITIVE3(name, dx, dz, da, kind, domain) {Row::name, #name, 3, RowKind::kind, #domain},
#define TW_UNARY(name, y, dx, kind, domain) {Row::name, #name, 1, RowKind::kind, #domain},
#define TW_BINARY(name, y, dx, dz, kind, domain) {Row::name, #name, 2, RowKind::kind, #domain},
#define TW_TERNARY(name, y, dx, dz, da, kind, domain) {Row::name, #name, 3, RowKind::kind, #domain},
#include "thalweg/ops/elementwise.def"
#include "thalweg/ops/undef_rows.h"
};

const RowInfo& info_of(const void* op) { return *static_cast<const RowInfo*>(op); }

void check_dtype(const RowInfo& row, DType dtype) {
  const bool number = is_float(dtype) || is_integer(dtype);
  switch (row.kind) {
    case RowKind::real:
    case RowKind::test:
      TW_CHECK_USER(is_float(dtype), row.name, "cast it first: tw::cast(x, tw::f32)", "expected a float dtype, got {}",
                    dtype);
      break;
    case RowKind::numeric:
      TW_CHECK_USER(number, row.name, "cast it first: tw::cast(x, tw::f32)",
                    "expected a float or integer dtype, got {}", dtype);
      break;
    case RowKind::logical:
      TW_CHECK_USER(dtype == DType::boolean, row.name, "compare it first, for example x > 0",
                    "expected boolean, got {}", dtype);
      break;
    case RowKind::compare:
    case RowKind::select: break;
  }
}

Specs infer_row(const void* op, Inputs in) {
  const RowInfo& row = info_of(op);
  const int first = row.kind == RowKind::select ? 1 : 0;
  if (first == 1)
    TW_CHECK_USER(in[0].dtype == DType::boolean, row.name, "compare it first, for example x > 0",
                  "expected a boolean condition, got {}", in[0].dtype);
  for (int i = first; i < in.size(); ++i) {
    check_dtype(row, in[i].dtype);
    TW_CHECK_INTERNAL(in[i].dtype == in[first].dtype, row.name, "operands of {} and {}", in[first].dtype, in[i].dtype);
  }
  const bool boolean = row.kind == RowKind::compare || row.kind == RowKind::test;
  return {Spec{boolean ? DType::boolean : in[first].dtype, broadcast_shapes(row.name, in)}};
}

Keeps keeps_of_row(const void* op, Needs needs) {
  Keeps keeps;
  for (RowValue value : row_gradient(info_of(op).row, needs).reads) {
    if (value < RowValue::y) keeps.inputs.add(static_cast<int>(value));
    if (value == RowValue::y) keeps.outputs.add(0);
  }
  return keeps;
}

Gradients gradient_of_row(const void* op, const Kept& kept, const Tensors& dy, Needs needs) {
  const Row row = info_of(op).row;
  const RowGradient& rule = row_gradient(row, needs);
  Tensor values[5];
  values[4] = dy[0];
  for (RowValue value : rule.reads)
    if (value == RowValue::y)
      values[3] = kept.output(0);
    else if (value < RowValue::y)
      values[static_cast<int>(value)] = kept.input(static_cast<int>(value));

  Gradients result(static_cast<std::size_t>(kept.inputs()));
  if (!recorders().empty()) {
    for (int input : rule.inputs) result[static_cast<std::size_t>(input)] = row_gradient_as_ops(row, input, values);
    return result;
  }
  Tensors inputs;
  for (RowValue value : rule.reads) inputs.push_back(values[static_cast<int>(value)]);
  const Tensors outputs = run_fused(rule.program, inputs);
  for (std::size_t i = 0; i < outputs.size(); ++i) result[static_cast<std::size_t>(rule.inputs[i])] = outputs[i];
  return result;
}

// The op of a row is its entry in row_infos: it has no attributes of its own, and copies are the same entry.
std::shared_ptr<void> no_owner(const void* op) { return {std::shared_ptr<void>(), const_cast<void*>(op)}; }

template <Row number>
OpInfo make_row_op() {
  static constexpr const RowInfo& row = row_infos[static_cast<int>(number)];
  OpInfo info{};
  info.name = row.name;
  info.owner = memory::owner(row.name);
  info.kind = gradient_kind(row.row);
  info.in_place = true;
  info.infer = infer_row;
  info.run = [](const void* op, Arrays in, Arrays out, Scratch) { run_program(row_program(info_of(op).row), in, out); };
  info.keeps = keeps_of_row;
  info.gradient = gradient_of_row;
  info.copy = [](const void* op) -> std::shared_ptr<const void> { return no_owner(op); };
  info.make = [] { return no_owner(&row); };
  info.batch_rule = [](const void*, Inputs in, BatchStates& states, std::int64_t examples) {
    return broadcast_rule(in, states, examples);
  };
  return info;
}

template <std::size_t... rows>
std::vector<OpInfo> make_row_ops(std::index_sequence<rows...>) {
  return {make_row_op<static_cast<Row>(rows)>()...};
}

Tensor apply_row(Row row, std::initializer_list<Tensor> inputs) {
  return apply(row_op(row), static_cast<const void*>(&row_info(row)), std::span(inputs.begin(), inputs.size()))[0];
}

// The tensor of an operand in the dtype that all of the op's operands meet in.
Tensor as_tensor(const char* op, const Operand& operand, DType dtype) {
  if (!operand.is_number()) return cast(operand.tensor(), dtype);
  require_whole(op, operand.number(), dtype);
  return scalar(operand.number(), dtype);
}

DType common_dtype(const char* op, std::initializer_list<const Operand*> operands) {
  DType dtype{};
  bool found = false;
  for (const auto* operand : operands) {
    if (operand->is_number()) continue;
    TW_CHECK_USER(operand->tensor().defined(), op,
                  "an unconnected gradient is undefined: ask .defined() first, or use Unconnected::zero",
                  "expected a tensor with a value, got an undefined one");
    dtype = found ? promote(op, dtype, operand->tensor().dtype()) : operand->tensor().dtype();
    found = true;
  }
  return found ? dtype : DType::f32;
}

Tensor binary(Row row, const Operand& x, const Operand& z) {
  const char* op = row_info(row).name;
  const DType dtype = common_dtype(op, {&x, &z});
  return apply_row(row, {as_tensor(op, x, dtype), as_tensor(op, z, dtype)});
}

Tensor ternary(Row row, const Operand& x, const Operand& z, const Operand& a) {
  const char* op = row_info(row).name;
  if (row_info(row).kind == RowKind::select) {
    const DType dtype = common_dtype(op, {&z, &a});
    return apply_row(row, {as_tensor(op, x, common_dtype(op, {&x})), as_tensor(op, z, dtype), as_tensor(op, a, dtype)});
  }
  const DType dtype = common_dtype(op, {&x, &z, &a});
  return apply_row(row, {as_tensor(op, x, dtype), as_tensor(op, z, dtype), as_tensor(op, a, dtype)});
}

}  // namespace

const RowInfo& row_info(Row row) { return row_infos[static_cast<int>(row)]; }

bool is_light(Row row) {
  constexpr Row light[] = {Row::relu, Row::relu6, Row::leaky_relu, Row::divide, Row::round_to_bf16, Row::round_to_f16};
  return row_info(row).kind != RowKind::real || std::ranges::find(light, row) != std::end(light);
}

const RowInfo* find_row(std::string_view name) {
  for (const auto& info : row_infos)
    if (name == info.name) return &info;
  return nullptr;
}

const OpInfo& row_op(Row row) {
  static const auto* ops = new std::vector<OpInfo>(make_row_ops(std::make_index_sequence<row_count>()));
  return (*ops)[static_cast<std::size_t>(row)];
}

const RowInfo* row_of(const OpInfo& info) {
  const OpInfo* first = &row_op(Row{});
  const bool inside = std::less_equal<>()(first, &info) && std::less<>()(&info, first + row_count);
  return inside ? &row_info(static_cast<Row>(&info - first)) : nullptr;
}

Tensor call_row(Row row, std::span<const Tensor> inputs) {
  return apply(row_op(row), static_cast<const void*>(&row_info(row)), inputs)[0];
}

#define TW_PRIMITIVE1(name, dx, kind, domain) TW_UNARY(name, , dx, kind, domain)
#define TW_PRIMITIVE2(name, dx, dz, kind, domain) TW_BINARY(name, , dx, dz, kind, domain)
#define TW_PRIMITIVE3(name, dx, dz, da, kind, domain) TW_TERNARY(name, , dx, dz, da, kind, domain)
#define TW_UNARY(name, y, dx, kind, domain) \
  Tensor name(const Tensor& x) { return apply_row(Row::name, {x}); }
#define TW_BINARY(name, y, dx, dz, kind, domain) \
  Tensor name(const Operand& x, const Operand& z) { return binary(Row::name, x, z); }
#define TW_TERNARY(name, y, dx, dz, da, kind, domain) \
  Tensor name(const Operand& x, const Operand& z, const Operand& a) { return ternary(Row::name, x, z, a); }
#include "thalweg/ops/elementwise.def"
#include "thalweg/ops/undef_rows.h"

Tensor operator-(const Tensor& x) { return neg(x); }

Tensor gelu(const Tensor& x, const Gelu& options) { return options.approximate ? gelu_tanh(x) : gelu_erf(x); }

Tensor clip_by_value(const Tensor& x, const Operand& low, const Operand& high) { return clip(x, low, high); }

}  // namespace thalweg
