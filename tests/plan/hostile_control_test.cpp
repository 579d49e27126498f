// Step files with branches and loops as an attacker would make them.
#include <gtest/gtest.h>

#include "tests/support/expect_error.h"
#include "tests/support/hostile_step.h"
#include "thalweg/graph/control/control.h"
#include "thalweg/graph/rewrite.h"
#include "thalweg/plan/file/body_codec.h"
#include "thalweg/thalweg.h"

namespace thalweg::testing {
namespace {

using List = std::vector<Tensor>;

// A step with all kinds of bodies: captures, constants, random numbers, sums of gradients, a loop in a branch.
StepFile small_step() {
  const Variable w(tensor({{0.5f, 0.25f}, {-0.5f, 1.f}}), {.name = "w"});
  const auto step = function([&](const Tensor& x) {
    GradientTape tape;
    const auto turn = [&](const List& carry, const List& slices) {
      return List{dropout(matmul(carry[0], w) * 0.5f + slices[0], 0.5)};
    };
    const auto loop = [&] { return scan(turn, {zeros({1, 2})}, {x})[0]; };
    const Tensor h = loop() + cond(reduce_sum(x) > 0, loop, [&] { return x * 3.f; });
    const Tensor y =
        while_loop([](const List& v) { return reduce_sum(v[0]) < 5; },
                   [&](const List& v) { return List{v[0] + matmul(v[0], w)}; }, {h}, {.maximum_iterations = 3})[0];
    Variable(w).assign_sub(tape.gradient(reduce_sum(y * y), w));
    return y;
  });
  step.plan(ones({2, 1, 2}));
  return step_of(step);
}

// The step with one node of its graph changed.
StepFile changed(const StepFile& step, std::size_t node, const std::function<void(Node&)>& change) {
  StepFile copy = step;
  auto saved = std::make_shared<SavedGraph>(*step.entries[0].graphs[0]);
  change(saved->graph.nodes[node]);
  copy.entries[0].graphs[0] = saved;
  return copy;
}

std::vector<std::size_t> control_nodes(const StepFile& step) {
  const Graph& graph = step.entries[0].graphs[0]->graph;
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    if (is_control(*graph.nodes[i].info)) found.push_back(i);
  return found;
}

// The first node of that op.
std::size_t node_of(const StepFile& step, const OpInfo& info) {
  for (std::size_t node : control_nodes(step))
    if (step.entries[0].graphs[0]->graph.nodes[node].info == &info) return node;
  throw std::logic_error("no such node");
}

void expect_refused(const StepFile& step) {
  expect_error(ErrorCode::data_loss, {}, [&] { read_step(*memory_source(bytes_of(step))); });
}

void expect_refused(const StepFile& step, const OpInfo& info, const char* field, std::int64_t value) {
  SCOPED_TRACE(std::string(info.name) + " " + field + " " + std::to_string(value));
  expect_refused(changed(step, node_of(step, info), [&](Node& node) { node.op = with_field(node, field, value); }));
}

BodyPointer identity(const Spec& spec, std::size_t sums = 0) {
  Graph graph;
  graph.arguments = graph.results = {graph.add_value(spec)};
  return std::make_shared<const Body>(std::move(graph), sums, false);
}

}  // namespace

TEST(HostileControl, every_damaged_byte_and_cut_is_noticed) {
  const std::string bytes = bytes_of(small_step());
  ASSERT_TRUE(survives(bytes));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x10);
    EXPECT_FALSE(survives(damaged)) << "byte " << i;
    EXPECT_FALSE(survives(std::string_view(bytes).substr(0, i))) << "cut at " << i;
  }
}

TEST(HostileControl, wrong_bytes_under_right_checksums_do_no_harm) {
  const std::string bytes = bytes_of(small_step());
  const auto before = config::memory_info().in_use;
  config::reset_peak_memory();
  const auto feed = [](const std::string& text) {
    EXPECT_NO_THROW(LLVMFuzzerTestOneInput(reinterpret_cast<const unsigned char*>(text.data()), text.size()));
  };
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::string wrong = bytes;
    wrong[i] = static_cast<char>(wrong[i] + 1);
    feed(wrong);
  }
  for (unsigned n = 0; n < 3000; ++n) feed(mutated(bytes, n));
  EXPECT_EQ(config::memory_info().in_use, before);
  EXPECT_LT(config::memory_info().peak - before, MiB(32));
}

TEST(HostileControl, attributes_that_do_not_fit_the_bodies_are_refused) {
  const StepFile step = small_step();
  ASSERT_TRUE(survives(bytes_of(step)));
  for (std::int64_t value : {-2, 1 << 20}) {
    for (const char* field : {"condition_random", "body_random"}) expect_refused(step, while_loop_info(), field, value);
    for (const char* field : {"carries", "xs", "ys", "sums", "steps", "random"})
      expect_refused(step, scan_info(), field, value);
  }
  expect_refused(step, while_loop_info(), "condition_random", 0);  // a loop variable
  expect_refused(step, while_loop_info(), "maximum", -2);
  expect_refused(step, while_loop_info(), "maximum", -1);  // a stored loop has a limit
  expect_refused(step, while_loop_info(), "maximum", std::int64_t{1} << 62);
  expect_refused(step, while_loop_info(), "stored", 0);
  expect_refused(step, scan_info(), "xs", 0);  // nothing to walk along
  expect_refused(step, scan_info(), "carries", -1);
  expect_refused(step, scan_info(), "steps", 0);
}

TEST(HostileControl, any_attribute_does_no_harm) {
  const StepFile step = small_step();
  constexpr const char* fields[] = {"carries",
                                    "xs",
                                    "ys",
                                    "sums",
                                    "steps",
                                    "random",
                                    "reverse",
                                    "ys_begin_with_carry",
                                    "maximum",
                                    "stored",
                                    "condition_random",
                                    "body_random"};
  for (std::size_t node : control_nodes(step))
    for (const char* field : fields)
      for (std::int64_t value = -2; value < 12; ++value) {
        const StepFile wrong = changed(step, node, [&](Node& n) { n.op = with_field(n, field, value); });
        EXPECT_NO_THROW(survives(bytes_of(wrong))) << field << " " << value;
      }
}

TEST(HostileControl, bodies_of_other_nodes_are_refused) {
  const StepFile step = small_step();
  const Spec any{f32, {2}}, predicate{boolean, {}};
  for (std::size_t node : control_nodes(step)) {
    const auto with = [&](const BodyPointer& first, const BodyPointer& second) {
      return changed(step, node, [&](Node& n) {
        Bodies bodies = bodies_of(n);
        bodies[0] = first;
        if (bodies.size() > 1) bodies[1] = second;
        n.op = with_bodies(n, bodies);
      });
    };
    expect_refused(with(identity(any), identity(any)));
    expect_refused(with(identity(predicate), identity(predicate)));
    expect_refused(with(identity(any, 1), identity(any, 1)));
    expect_refused(changed(step, node, [](Node& n) { n.inputs.pop_back(); }));
    expect_refused(changed(step, node, [](Node& n) { n.outputs.push_back(n.outputs[0]); }));
  }
}

namespace {

// A body that is a branch with this body on both sides: so many of them have more paths than anyone can walk.
BodyPointer branching(const BodyPointer& inner) {
  Graph graph;
  const ValueId predicate = graph.add_value({boolean, {}}), x = graph.add_value({f32, {2}});
  graph.arguments = {predicate, x};
  if (!inner) graph.results = {x};
  if (inner) {
    const Node bare{&cond_info(), cond_info().make(), {}, {}, 0};
    const ValueIds inputs{predicate, predicate, x, predicate, x};
    graph.results = {graph.add_node(cond_info(), with_bodies(bare, {inner, inner}), inputs, {{f32, {2}}}).outputs[0]};
  }
  return std::make_shared<const Body>(std::move(graph), 0, false);
}

// What is read of a table of bodies, each inside of the next.
int depth_read(int depth) {
  BodyTable table;
  for (int i = 0; i < depth; ++i) table.add(branching(table.bodies().empty() ? nullptr : table.bodies().back()));
  ByteWriter out;
  std::vector<Tensor> data;
  write_bodies(out, table, data);
  std::string file;
  write_container([&](const void* bytes, std::size_t n) { file.append(static_cast<const char*>(bytes), n); }, "", {});
  const auto source = memory_source(file);
  Container container(*source);
  ByteReader in(out.bytes());
  const BodyTable read = read_bodies(in, container);
  return read.depth(read.bodies().back());
}

Tensor nested(const Tensor& x, int depth) {
  if (depth == 0) return x * 2;
  return cond(
      reduce_sum(x) > 0, [&] { return nested(x + 1, depth - 1); }, [&] { return x; });
}

}  // namespace

TEST(HostileControl, bodies_that_share_bodies_are_planned_once) {
  BodyPointer body;
  for (int i = 0; i < 64; ++i) body = branching(body);
  EXPECT_GE(body->procedure().workspace(), 0);
  EXPECT_GE(body->flops(), 64);
}

TEST(HostileControl, depth_is_bounded) {
  EXPECT_EQ(depth_read(64), 64);
  expect_error(ErrorCode::data_loss, {"65 deep"}, [] { depth_read(65); });
  const auto deep = function([](const Tensor& x) { return nested(x, 65); }, {.name = "deep"});
  deep(tensor({1.f}));
  expect_error(ErrorCode::unimplemented, {"\"deep\"", "depth of 64"}, [&] { bytes_of(step_of(deep)); });
  const auto less = function([](const Tensor& x) { return nested(x, 64); });
  less(tensor({1.f}));
  EXPECT_TRUE(survives(bytes_of(step_of(less))));
}

TEST(HostileControl, values_beyond_any_memory_are_refused) {
  StepFile step = small_step();
  auto saved = std::make_shared<SavedGraph>(*step.entries[0].graphs[0]);
  saved->graph.add_value({f32, {std::int64_t{1} << 58}});
  step.entries[0].graphs[0] = saved;
  expect_error(ErrorCode::data_loss, {"usual size"}, [&] { read_step(*memory_source(bytes_of(step))); });
}

// An op of the test's own.
struct Strange {};
Specs infer(const Strange&, Inputs in) { return {in[0]}; }
void run(const Strange&, Arrays in, Arrays out) { std::copy_n(in[0].as<float>(), in[0].size(), out[0].as<float>()); }

TEST(HostileControl, an_op_of_the_users_own_in_a_body_is_refused_by_name) {
  static const OpInfo info = detail::make_op_info<Strange>("strange");
  const auto f = function(
      [](const Tensor& x) {
        return scan([](const List& carry, const List&) { return List{apply(info, Strange{}, {carry[0]})[0]}; },
                    {zeros({2})}, {x})[0];
      },
      {.name = "odd"});
  f(ones({3, 1}));
  expect_error(ErrorCode::unimplemented, {"function \"odd\"", "node \"strange\"", "a body of scan"},
               [&] { bytes_of(step_of(f)); });
}

}  // namespace thalweg::testing
