#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/ops/checks.h"
#include "tests/support/calls.h"
#include "tests/support/values.h"
#include "thalweg/ops/concat/concat.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/fill/fill.h"
#include "thalweg/ops/registry.h"
#include "thalweg/ops/slice/slice.h"

namespace thalweg::testing {
namespace {

using Kind = BatchState::Kind;

// Inputs of a call cut by examples, and what its rule makes of that.
struct Assignment {
  std::int64_t examples;
  BatchStates inputs, outputs;

  // Whole outputs want all rows at once: nothing is computed from a chunk.
  bool splits() const {
    return std::any_of(outputs.begin(), outputs.end(),
                       [](const auto& state) { return state.kind != Kind::blocked && state.kind != Kind::whole; });
  }
};

// Inputs `chosen` have their examples along `axis`.
Assignment ask(const RecordedCall& call, const std::vector<std::size_t>& chosen, int axis, std::int64_t rows) {
  Assignment result{call.inputs[chosen[0]].shape()[axis] / rows, BatchStates(call.inputs.size()), {}};
  for (std::size_t i : chosen) result.inputs[i] = BatchState::of_rows(axis, rows);
  std::vector<const Spec*> specs;
  for (const auto& input : call.inputs) specs.push_back(&input.spec());
  if (call.info->batch_rule)
    result.outputs = call.info->batch_rule(call.op.get(), Inputs(specs), result.inputs, result.examples);
  return result;
}

// Every input alone, and all with as many entries along the axis together; examples of one and of two rows.
std::vector<Assignment> assignments(const RecordedCall& call) {
  std::set<std::tuple<std::vector<std::size_t>, int, std::int64_t>> tried;
  std::vector<Assignment> result;
  const auto size_along = [&](std::size_t i, int axis) {
    return axis < call.inputs[i].rank() ? call.inputs[i].shape()[axis] : -1;
  };
  for (std::size_t i = 0; i < call.inputs.size(); ++i)
    for (int axis = 0; axis < call.inputs[i].rank(); ++axis) {
      const std::int64_t size = size_along(i, axis);
      std::vector<std::size_t> together;
      for (std::size_t j = 0; j < call.inputs.size(); ++j)
        if (size_along(j, axis) == size) together.push_back(j);
      for (std::int64_t rows : {1, 2})
        for (const auto& chosen : {std::vector{i}, together})
          if (size % rows == 0 && size >= 2 * rows && tried.emplace(chosen, axis, rows).second)
            result.push_back(ask(call, chosen, axis, rows));
    }
  return result;
}

// Sets the number of the first element in an op whose elements are numbered.
struct SetFirst final : FieldVisitor {
  explicit SetFirst(std::int64_t number) : first(number) {}
  void integer(std::string_view name, std::int64_t& value) override {
    if (name == "first") value = first;
  }
  void real(std::string_view, double&) override {}
  void integers(std::string_view, std::vector<std::int64_t>&) override {}
  void reals(std::string_view, std::vector<double>&) override {}
  void text(std::string_view, std::string&) override {}
  std::int64_t first;
};

// The elements that a call draws words for: those of its input, or the weights of attention.
std::int64_t numbered_elements(const RecordedCall& call) {
  const std::string_view name = call.info->name;
  if (name == "dropout") return call.inputs[0].size();
  if (!name.starts_with("attention")) return 0;
  // The statistics are [batch, heads, queries, 2]; with them stand queries and keys, packed as many of the ones as of
  // the others.
  const bool packed = call.inputs[0].rank() == 5;
  const Tensor& statistics = name == "attention" ? call.outputs[1] : call.inputs[packed ? 2 : 4];
  const std::int64_t queries = statistics.shape()[2], rows = statistics.size() / 2;
  if (packed) return rows * queries;
  const Shape& k = call.inputs[1].shape();
  return rows * k[call.inputs[0].shape()[2] == queries ? 2 : 1];
}

struct Chunk {
  std::int64_t begin, count;  // examples
};

Tensor cut(const Tensor& x, const BatchState& state, const Chunk& chunk) {
  if (!state.is_rows()) return x;
  Ints begin(x.rank(), 0);
  begin[state.axis] = chunk.begin * state.rows;
  return slice(x, begin, x.shape().with(state.axis, chunk.count * state.rows));
}

std::vector<Tensor> run_chunk(const RecordedCall& call, const Assignment& assignment, const Chunk& chunk) {
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < call.inputs.size(); ++i)
    inputs.push_back(cut(call.inputs[i], assignment.inputs[i], chunk));
  const auto op = call.info->with_batch ? call.info->with_batch(call.op.get(), assignment.outputs[0], chunk.count)
                                        : call.info->copy(call.op.get());
  if (const std::int64_t numbered = numbered_elements(call); numbered > 0) {
    SetFirst set(chunk.begin * (numbered / assignment.examples));
    call.info->visit(const_cast<void*>(op.get()), set);
  }
  return apply(*call.info, op.get(), inputs);
}

// The whole output from those of the chunks.
Tensor joined(const std::vector<Tensor>& parts, const BatchState& state, const std::vector<Chunk>& chunks) {
  if (state.is_rows()) return concat(parts, state.axis);
  const std::int64_t examples = chunks.back().begin + chunks.back().count;
  Tensor sum;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const double share = static_cast<double>(chunks[i].count) / static_cast<double>(examples);
    const Tensor part = state.kind == Kind::mean ? parts[i] * share : parts[i];
    sum = sum.defined() ? sum + part : part;
  }
  return sum;
}

// Products are cut into tasks by all of their sizes, and so are reductions over several groups of axes; everything else
// works row by row.
bool rows_are_exact(const OpInfo& info) {
  const std::string_view name = info.name;
  const auto inexact = {"reduce_", "fused_reduce", "matmul", "convolution", "lstm"};
  return std::none_of(inexact.begin(), inexact.end(), [name](const char* start) { return name.starts_with(start); });
}

void compare(const RecordedCall& call, const Assignment& assignment, const std::vector<Chunk>& chunks) {
  std::vector<std::vector<Tensor>> parts(call.outputs.size());
  for (const auto& chunk : chunks) {
    const auto outputs = run_chunk(call, assignment, chunk);
    for (std::size_t i = 0; i < outputs.size(); ++i) parts[i].push_back(outputs[i]);
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const BatchState& state = assignment.outputs[i];
    if (state.kind == Kind::blocked) continue;
    ASSERT_NE(state.kind, Kind::whole) << "output " << i;
    const Tensor got = joined(parts[i], state, chunks), &want = call.outputs[i];
    ASSERT_EQ(got.shape(), want.shape()) << "output " << i;
    const bool exact = state.is_rows() && rows_are_exact(*call.info);
    EXPECT_TRUE(exact ? same_bits(got, want) : near(got, want, want.dtype() == f32 ? 1e-5 : 1e-10)) << "output " << i;
  }
}

std::string describe(const Assignment& assignment) {
  std::string text = std::to_string(assignment.examples) + " examples;";
  for (const auto* states : {&assignment.inputs, &assignment.outputs}) {
    for (const auto& [kind, axis, rows] : *states) {
      constexpr const char* names[] = {"whole", "rows", "sum", "mean", "blocked"};
      text += " " + std::string(names[static_cast<int>(kind)]);
      if (kind == Kind::rows) text += "{" + std::to_string(axis) + ", " + std::to_string(rows) + "}";
    }
    text += states == &assignment.inputs ? " ->" : "";
  }
  return text;
}

}  // namespace

void check_batch(const Sample& sample) {
  for (DType dtype : {f64, f32})
    for (const auto& call : record_calls([&] { sample.call(in_dtype(draw(sample.inputs, 8), dtype)); }))
      for (const auto& assignment : assignments(call)) {
        if (!assignment.splits()) continue;
        SCOPED_TRACE(call.info->name + (": " + describe(assignment)));
        const std::int64_t n = assignment.examples;
        compare(call, assignment, {{0, 1}, {1, n - 1}});
        if (n > 2) compare(call, assignment, {{0, n - 1}, {n - 1, 1}});
        if (n > 3) compare(call, assignment, {{0, 1}, {1, n - 3}, {n - 2, 2}});
      }
}

namespace {

// Ops whose examples always mix, and those that read none; every other one must split somewhere.
const std::set<std::string> never_split{"batch_norm",      "batch_norm_backward",
                                        "batch_norm_pool", "batch_norm_pool_backward",
                                        "batch_norm_relu", "batch_norm_relu_backward",
                                        "distinct_rows",   "fill",
                                        "fused_each",      "fused_product",
                                        "limit_skips",     "product_squares",
                                        "put_rows",        "random_tensor",
                                        "take_rows"};

TEST(batch, every_op_splits_unless_its_examples_mix) {
  std::set<std::string> splitting;
  for (const auto& sample : registered().samples) {
    for (const auto& call : record_calls([&] { sample.call(draw(sample.inputs, 8)); }))
      for (const auto& assignment : assignments(call))
        if (assignment.splits()) splitting.insert(call.info->name);
  }
  for (const auto* op : all_ops()) EXPECT_NE(splitting.count(op->name), never_split.count(op->name)) << op->name;
}

TEST(batch, a_part_of_a_fill) {
  const auto calls = record_calls([] { fill({4, 6}, 2.5, f32); });
  ASSERT_EQ(calls.size(), 1U);
  const auto part = calls[0].info->with_batch(calls[0].op.get(), BatchState::of_rows(1, 2), 2);
  EXPECT_TRUE(same_bits(apply(*calls[0].info, part.get(), std::span<const Tensor>())[0], full({4, 4}, 2.5, f32)));
}

}  // namespace
}  // namespace thalweg::testing
