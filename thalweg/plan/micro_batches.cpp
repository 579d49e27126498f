#include "thalweg/plan/micro_batches.h"

#include <cstring>

#include "thalweg/core/thread_pool.h"
#include "thalweg/ops/random/key.h"

namespace thalweg {
namespace {

struct Loop : MicroBatches {};

Specs infer(const Loop& op, Inputs) {
  Specs specs = op.sums;
  for (const auto& spec : op.rows) specs.push_back(spec);
  return specs;
}

constexpr std::int64_t state_bytes = memory::rounded(random::state_size * 8);

std::int64_t lane_bytes(const Loop& op) {
  return state_bytes + std::max(op.body->workspace(), op.tail ? op.tail->workspace() : 0);
}
std::int64_t workspace(const Loop& op, Inputs) { return op.lanes * lane_bytes(op); }

void run_part(const Loop& op, std::int64_t first, Arrays in, Arrays out, std::byte* scratch) {
  const std::int64_t count = std::min(op.part, op.examples - first);
  SmallVector<void*, 32> arguments, carries, results;
  for (const auto& array : in) arguments.push_back(array.data);
  for (std::size_t i = 0; i < op.inputs.size(); ++i)
    if (op.inputs[i].is_rows()) arguments[i] = in[i].as<std::byte>() + first * (in[i].spec->bytes() / op.examples);
  for (std::size_t i = 0; i < op.sums.size(); ++i) carries.push_back(out[i].data);
  for (std::size_t i = 0; i < op.rows.size(); ++i)
    results.push_back(out[op.sums.size() + i].as<std::byte>() + first * op.row_bytes[i]);
  if (op.random) {
    auto* state = reinterpret_cast<std::int64_t*>(scratch);
    std::memcpy(state, in.back().data, random::state_size * sizeof(std::int64_t));
    state[2] = first, state[3] = count;
    arguments.back() = state;
  }
  const Procedure& body = count == op.part ? *op.body : *op.tail;
  body.run({arguments.data(), arguments.size()}, {carries.data(), carries.size()}, {results.data(), results.size()},
           scratch + state_bytes);
}

void run(const Loop& op, Arrays in, Arrays out, Scratch scratch) {
  for (std::size_t i = 0; i < op.sums.size(); ++i)
    std::memset(out[i].data, 0, static_cast<std::size_t>(out[i].spec->bytes()));
  const auto part = [&](std::int64_t i, int lane) {
    run_part(op, i * op.part, in, out, scratch.data() + lane * lane_bytes(op));
  };
  if (op.lanes > 1) return parallel_lanes(op.parts(), op.lanes, part);
  for (std::int64_t i = 0; i < op.parts(); ++i) part(i, 0);
}

[[maybe_unused]] bool differentiable(const Loop&) { return false; }

// A plan's own node: it is printed, never written to files.
void visit_op(Loop& op, FieldVisitor& visitor) {
  std::int64_t parts = op.parts(), part = op.part, lanes = op.lanes;
  visitor.integer("parts", parts);
  visitor.integer("examples", part);
  if (lanes > 1) visitor.integer("at_a_time", lanes);
}

}  // namespace

std::shared_ptr<const void> make_micro_batches(MicroBatches loop) {
  return std::make_shared<const Loop>(Loop{std::move(loop)});
}

const MicroBatches* loop_of(const Node& node) {
  return node.info == &micro_batches_info() ? static_cast<const MicroBatches*>(node.op.get()) : nullptr;
}

const OpInfo& micro_batches_info() {
  static const OpInfo info = [] {
    OpInfo made = detail::make_op_info<Loop>("micro_batches");
    made.checks_values = true;
    return made;
  }();
  return info;
}

}  // namespace thalweg
