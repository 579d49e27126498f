// What a branch or loop demands of its bodies, attributes and inputs: each demand has a node that breaks it alone.
#include <gtest/gtest.h>

#include <map>

#include "thalweg/core/error.h"
#include "thalweg/graph/control/control.h"
#include "thalweg/graph/rewrite.h"

namespace thalweg {
namespace {

const Spec x{f32, {2}}, y{f32, {3}}, k{f64, {}}, predicate{boolean, {}}, state{i64, {4}};

// A body as nodes see it from outside.
BodyPointer body(const std::vector<Spec>& arguments, const std::vector<Spec>& results, std::size_t sums = 0) {
  Graph graph;
  for (const auto& spec : arguments) graph.arguments.push_back(graph.add_value(spec));
  for (const auto& spec : results) graph.results.push_back(graph.add_value(spec));
  return std::make_shared<const Body>(std::move(graph), sums, false);
}

struct Sketch {
  const OpInfo* info;
  Bodies bodies;
  std::vector<Spec> inputs;
  std::map<std::string, std::int64_t> fields = {};

  bool fits() const {
    Node node{info, info->make(), {}, {}, 0};
    for (const auto& [name, value] : fields) node.op = with_field(node, name, value);
    node.op = with_bodies(node, bodies);
    SmallVector<const Spec*, 4> specs;
    for (const auto& spec : inputs) specs.push_back(&spec);
    try {
      info->infer(node.op.get(), Inputs({specs.data(), specs.size()}));
      return true;
    } catch (const Error&) {
      return false;
    }
  }
  Sketch with(const std::string& field, std::int64_t value) const {
    Sketch copy = *this;
    copy.fields[field] = value;
    return copy;
  }
  Sketch with_body(std::size_t i, const BodyPointer& other) const {
    Sketch copy = *this;
    copy.bodies[i] = other;
    return copy;
  }
  Sketch with_inputs(const std::vector<Spec>& others) const {
    Sketch copy = *this;
    copy.inputs = others;
    return copy;
  }
};

}  // namespace

TEST(ControlChecks, cond) {
  const Sketch good{&cond_info(), {body({x, k}, {y, x}), body({k}, {y, x})}, {predicate, x, k, k}};
  EXPECT_TRUE(good.fits());
  EXPECT_FALSE(good.with_inputs({predicate, x, k}).fits());
  EXPECT_FALSE(good.with_inputs({predicate, x, k, k, k}).fits());
  EXPECT_FALSE(good.with_inputs({{boolean, {1}}, x, k, k}).fits());
  EXPECT_FALSE(good.with_inputs({{u8, {}}, x, k, k}).fits());
  EXPECT_FALSE(good.with_inputs({predicate, y, k, k}).fits());  // not what the first branch captured
  EXPECT_FALSE(good.with_inputs({predicate, x, k, x}).fits());  // nor the second
  EXPECT_FALSE(good.with_body(0, body({x, k}, {y, x, k}, 1)).fits());
  EXPECT_FALSE(good.with_body(1, body({k}, {y, x, k}, 1)).fits());
  EXPECT_FALSE(good.with_body(1, body({k}, {y})).fits());
  EXPECT_FALSE(good.with_body(1, body({k}, {y, y})).fits());
}

TEST(ControlChecks, while_loop) {
  const Sketch good{&while_loop_info(),
                    {body({x, k}, {predicate}), body({x, state}, {x})},
                    {x, k, state},
                    {{"maximum", 4}, {"body_random", 2}, {"stored", 1}}};
  EXPECT_TRUE(good.fits());
  EXPECT_TRUE(good.with("maximum", -1).with("stored", 0).fits());
  EXPECT_FALSE(good.with("maximum", -1).fits());
  EXPECT_FALSE(good.with("maximum", -2).with("stored", 0).fits());
  for (std::int64_t input : {-2, 0, 1, 3}) EXPECT_FALSE(good.with("body_random", input).fits()) << input;
  for (std::int64_t input : {-2, 0, 1, 2}) EXPECT_FALSE(good.with("condition_random", input).fits()) << input;
  EXPECT_FALSE(good.with_inputs({x, k}).fits());
  EXPECT_FALSE(good.with_inputs({x, k, state, state}).fits());
  EXPECT_FALSE(good.with_inputs({x, x, state}).fits());
  EXPECT_FALSE(good.with_inputs({x, k, k}).with("body_random", -1).fits());
  for (const auto& results : std::vector<std::vector<Spec>>{{}, {x}, {{boolean, {1}}}, {predicate, predicate}})
    EXPECT_FALSE(good.with_body(0, body({x, k}, results)).fits()) << results.size();
  EXPECT_FALSE(good.with_body(0, body({x, k}, {predicate, x}, 1)).fits());
  EXPECT_FALSE(good.with_body(0, body({y, k}, {predicate})).fits());
  EXPECT_FALSE(good.with_body(1, body({x, state}, {x, x}, 1)).fits());
  EXPECT_FALSE(good.with_body(1, body({x, state}, {y})).fits());  // the variable changes
  EXPECT_FALSE(good.with_body(1, body({y, state}, {x})).fits());  // the body was made for another
  const Sketch none{&while_loop_info(), {body({}, {predicate}), body({}, {})}, {}, {}};
  EXPECT_FALSE(none.fits());
  // More variables than the condition, or the body, takes.
  EXPECT_FALSE((Sketch{&while_loop_info(), {body({}, {predicate}), body({x, x}, {x})}, {x}, {}}.fits()));
  EXPECT_FALSE((Sketch{&while_loop_info(), {body({x, x}, {predicate}), body({}, {x})}, {x}, {}}.fits()));
}

TEST(ControlChecks, scan) {
  const Spec stacked{f32, {5, 3}};
  const Sketch good{
      &scan_info(),
      {body({x, y, k, state}, {x, x, y, k}, 1)},
      {x, stacked, k, state},
      {{"carries", 1}, {"xs", 1}, {"ys", 2}, {"sums", 1}, {"steps", 5}, {"random", 3}, {"ys_begin_with_carry", 1}}};
  EXPECT_TRUE(good.fits());
  EXPECT_TRUE(good.with("ys_begin_with_carry", 0).fits());
  for (const char* field : {"carries", "xs", "ys", "sums", "steps"})
    for (std::int64_t value : {-1, 0, 3, 6}) EXPECT_FALSE(good.with(field, value).fits()) << field << " " << value;
  EXPECT_FALSE(good.with("carries", -1).with("xs", 2).fits());
  EXPECT_FALSE(good.with("ys", -1).with("sums", 4).fits());
  for (std::int64_t input : {-2, 0, 1, 2, 4}) EXPECT_FALSE(good.with("random", input).fits()) << input;
  EXPECT_FALSE(good.with_inputs({x, stacked, k}).with("random", -1).fits());
  EXPECT_FALSE(good.with_inputs({x, stacked, k, state, k}).fits());
  EXPECT_FALSE(good.with_inputs({y, stacked, k, state}).fits());
  EXPECT_FALSE(good.with_inputs({x, {f32, {4, 3}}, k, state}).fits());
  EXPECT_FALSE(good.with_inputs({x, {f32, {}}, k, state}).fits());
  EXPECT_FALSE(good.with_inputs({x, {f32, {5, 2}}, k, state}).fits());
  const auto makes = [&](const std::vector<Spec>& results, std::size_t sums) {
    return good.with_body(0, body({x, y, k, state}, results, sums));
  };
  EXPECT_FALSE(makes({x, x, y, k}, 0).fits());
  EXPECT_FALSE(makes({x, y, y, k}, 1).fits());                                 // the first ys are not the carries
  EXPECT_FALSE(makes({x, x, y, state}, 1).fits());                             // numbers that are not added up
  EXPECT_FALSE(makes({x, x}, 1).with("ys", 0).fits());                         // no ys to begin with the carry
  EXPECT_FALSE(makes({y, x, y, k}, 1).with("ys_begin_with_carry", 0).fits());  // the carry changes
  // Without xs only the number of steps would say when it ends.
  const Sketch endless{&scan_info(), {body({x}, {x})}, {x}, {{"carries", 1}, {"steps", std::int64_t{1} << 60}}};
  EXPECT_FALSE(endless.fits());
}

TEST(ControlChecks, bodies_can_be_taken_out_and_put_in) {
  const BodyPointer condition = body({x, k}, {predicate}), turn = body({x, state}, {x});
  Node node{&while_loop_info(), while_loop_info().make(), {7, 8, 9}, {}, 0};
  EXPECT_EQ(bodies_of(node)[0], nullptr);
  node.op = with_bodies(node, {condition, turn});
  EXPECT_EQ(bodies_of(node)[0], condition);
  EXPECT_EQ(bodies_of(node)[1], turn);
  EXPECT_EQ(integer_field(node, "body"), turn->number());
  EXPECT_EQ(body_inputs(node, 0), (ValueIds{7, 8}));
  EXPECT_EQ(body_inputs(node, 1), (ValueIds{7, 9}));
  Node branch{&cond_info(), cond_info().make(), {5, 6, 7, 8}, {}, 0};
  branch.op = with_bodies(branch, {condition, body({x}, {x})});
  EXPECT_EQ(body_inputs(branch, 0), (ValueIds{6, 7}));
  EXPECT_EQ(body_inputs(branch, 1), (ValueIds{8}));
  EXPECT_THROW(with_bodies(branch, {condition}), Error);
  EXPECT_EQ(find_control("scan"), &scan_info());
  EXPECT_EQ(find_control("add"), nullptr);
}

}  // namespace thalweg
