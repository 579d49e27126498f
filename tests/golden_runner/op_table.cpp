// TensorFlow's op names and attributes in our words: one row per op, a: attributes, x: inputs.
#include <limits>

#include "tests/golden_runner/program.h"
#include "thalweg/ops/attention/attention.h"
#include "thalweg/ops/clip/clip.h"
#include "thalweg/ops/concat/concat.h"
#include "thalweg/ops/convolution/convolution.h"
#include "thalweg/ops/cross_entropy/cross_entropy.h"
#include "thalweg/ops/cumulative/cumulative.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/gather/gather.h"
#include "thalweg/ops/gather_nd/gather_nd.h"
#include "thalweg/ops/matmul/matmul.h"
#include "thalweg/ops/norm/norm.h"
#include "thalweg/ops/one_hot/one_hot.h"
#include "thalweg/ops/pad/pad.h"
#include "thalweg/ops/pool/pool.h"
#include "thalweg/ops/recurrent/recurrent.h"
#include "thalweg/ops/reduce/reduce.h"
#include "thalweg/ops/reshape/reshape.h"
#include "thalweg/ops/resize/resize.h"
#include "thalweg/ops/slice/slice.h"
#include "thalweg/ops/softmax/softmax.h"
#include "thalweg/ops/sort/sort.h"
#include "thalweg/ops/tile/tile.h"
#include "thalweg/ops/transpose/transpose.h"

namespace thalweg::golden {
namespace {

using A = Attributes;
using X = Inputs;

Program unary(Tensor (*f)(const Tensor&)) {
  return [f](const A&, const X& x) { return Outputs{f(x[0])}; };
}

Program binary(Tensor (*f)(const Operand&, const Operand&)) {
  return [f](const A&, const X& x) { return Outputs{f(x[0], x[1])}; };
}

Program labels_and_logits(Tensor (*f)(const Tensor&, const Tensor&)) {
  return [f](const A&, const X& x) { return Outputs{f(x[0], x[1])}; };
}

Program reduction(Tensor (*f)(const Tensor&, const Reduce&)) {
  return [f](const A& a, const X& x) {
    return Outputs{f(x[0], {.axes = a.axes("axis"), .keepdims = a.flag("keepdims", false)})};
  };
}

Program along_axis(Tensor (*f)(const Tensor&, std::int64_t)) {
  return [f](const A& a, const X& x) { return Outputs{f(x[0], a.integer("axis"))}; };
}

Padding padding_of(const A& a) {
  const auto text = a.text("padding");
  if (text != "same" && text != "valid") throw NotUnderstood("padding \"" + text + "\" is not understood");
  return text == "same" ? same : valid;
}

// Of one axis (ksize is a number) or of several (ksize is a list).
Program pool(Tensor (*f)(const Tensor&, const Pool&)) {
  return [f](const A& a, const X& x) {
    const auto sizes = [&](const char* name) { return a.is_list(name) ? a.integers(name) : std::vector{a.integer(name)}; };
    return Outputs{f(x[0], {.size = sizes("ksize"), .strides = sizes("strides"), .padding = padding_of(a)})};
  };
}

bool is_descending(const A& a) {
  const auto text = a.text("direction");
  if (text != "ASCENDING" && text != "DESCENDING") throw NotUnderstood("direction \"" + text + "\" is not understood");
  return text == "DESCENDING";
}

double order_of(const A& a) {
  if (!a.has("ord")) return 2;
  if (!a.is_text("ord")) return a.number("ord");
  if (a.text("ord") == "euclidean") return 2;
  if (a.text("ord") == "inf") return std::numeric_limits<double>::infinity();
  throw NotUnderstood("ord \"" + a.text("ord") + "\" is not understood");
}

PadMode pad_mode_of(const A& a) {
  const auto text = a.text("mode");
  if (text == "CONSTANT") return PadMode::constant;
  if (text == "REFLECT") return PadMode::reflect;
  if (text == "SYMMETRIC") return PadMode::symmetric;
  throw NotUnderstood("mode \"" + text + "\" is not understood");
}

Paddings paddings_of(const A& a) {
  Paddings paddings;
  for (const auto& row : a.rows("paddings")) {
    if (row.size() != 2) throw NotUnderstood("paddings are not pairs");
    paddings.emplace_back(row[0], row[1]);
  }
  return paddings;
}

StridedSlice strided_slice_of(const A& a) {
  return {.begin = a.integers("begin"),
          .end = a.integers("end"),
          .strides = a.integers("strides"),
          .begin_mask = a.integer("begin_mask", 0),
          .end_mask = a.integer("end_mask", 0),
          .ellipsis_mask = a.integer("ellipsis_mask", 0),
          .new_axis_mask = a.integer("new_axis_mask", 0),
          .shrink_axis_mask = a.integer("shrink_axis_mask", 0)};
}

Parts parts_of(const A& a) {
  constexpr auto name = "num_or_size_splits";
  return a.is_list(name) ? Parts(a.integers(name)) : Parts(a.integer(name));
}

using Table = std::map<std::string, Program>;

const Table elementwise_ops = {
    {"add", binary(add)},
    {"sub", binary(subtract)},
    {"mul", binary(multiply)},
    {"div", binary(divide)},
    {"pow", binary(pow)},
    {"maximum", binary(maximum)},
    {"minimum", binary(minimum)},
    {"squared_difference", binary(squared_difference)},
    {"neg", unary(neg)},
    {"abs", unary(abs)},
    {"sign", unary(sign)},
    {"exp", unary(exp)},
    {"log", unary(log)},
    {"log1p", unary(log1p)},
    {"expm1", unary(expm1)},
    {"sqrt", unary(sqrt)},
    {"rsqrt", unary(rsqrt)},
    {"square", unary(square)},
    {"reciprocal", unary(reciprocal)},
    {"sin", unary(sin)},
    {"cos", unary(cos)},
    {"tan", unary(tan)},
    {"asin", unary(asin)},
    {"acos", unary(acos)},
    {"atan", unary(atan)},
    {"sinh", unary(sinh)},
    {"cosh", unary(cosh)},
    {"tanh", unary(tanh)},
    {"sigmoid", unary(sigmoid)},
    {"softplus", unary(softplus)},
    {"relu", unary(relu)},
    {"relu6", unary(relu6)},
    {"elu", unary(elu)},
    {"selu", unary(selu)},
    {"silu", unary(silu)},
    {"erf", unary(erf)},
    {"floor", unary(floor)},
    {"ceil", unary(ceil)},
    {"round", unary(round)},
    {"sigmoid_cross_entropy", binary(sigmoid_cross_entropy)},
    {"leaky_relu", [](const A& a, const X& x) { return Outputs{leaky_relu(x[0], a.number("alpha"))}; }},
    {"gelu", [](const A& a, const X& x) { return Outputs{gelu(x[0], {.approximate = a.flag("approximate")})}; }},
    {"where", [](const A&, const X& x) { return Outputs{where(x[0], x[1], x[2])}; }},
    {"clip_by_value", [](const A& a, const X& x) { return Outputs{clip_by_value(x[0], a.number("min"), a.number("max"))}; }},
};

}  // namespace
}  // namespace thalweg::golden
