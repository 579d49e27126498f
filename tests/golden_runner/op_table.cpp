// TensorFlow's op names and attributes in our words: one row per op, a: attributes, x: inputs.
#include <limits>

#include "tests/golden_runner/program.h"
#include "thalweg/ops/argreduce/argreduce.h"
#include "thalweg/ops/attention/attention.h"
#include "thalweg/ops/batch_norm/batch_norm.h"
#include "thalweg/ops/clip/clip.h"
#include "thalweg/ops/concat/concat.h"
#include "thalweg/ops/convolution/convolution.h"
#include "thalweg/ops/cross_entropy/cross_entropy.h"
#include "thalweg/ops/cumulative/cumulative.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/gather/gather.h"
#include "thalweg/ops/gather_nd/gather_nd.h"
#include "thalweg/ops/layer_norm/layer_norm.h"
#include "thalweg/ops/matmul/matmul.h"
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
  return [f](const A&, const X& x) { return f(x[0]); };
}

Program binary(Tensor (*f)(const Operand&, const Operand&)) {
  return [f](const A&, const X& x) { return f(x[0], x[1]); };
}

Program labels_and_logits(Tensor (*f)(const Tensor&, const Tensor&)) {
  return [f](const A&, const X& x) { return f(x[0], x[1]); };
}

Program reduction(Tensor (*f)(const Tensor&, const Reduce&)) {
  return
      [f](const A& a, const X& x) { return f(x[0], {.axes = a.axes("axis"), .keepdims = a.flag("keepdims", false)}); };
}

Program along_axis(Tensor (*f)(const Tensor&, std::int64_t)) {
  return [f](const A& a, const X& x) { return f(x[0], a.integer("axis")); };
}

Padding padding_of(const A& a) {
  const auto text = a.text("padding");
  if (text != "same" && text != "valid") throw NotUnderstood("padding \"" + text + "\" is not understood");
  return text == "same" ? same : valid;
}

// Of one axis (ksize is a number) or of several (ksize is a list).
Program pool(Tensor (*f)(const Tensor&, const Pool&)) {
  return [f](const A& a, const X& x) {
    const auto sizes = [&](const char* name) {
      return a.is_list(name) ? a.integers(name) : std::vector{a.integer(name)};
    };
    return f(x[0], {.size = sizes("ksize"), .strides = sizes("strides"), .padding = padding_of(a)});
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
          .strides = a.integers("strides", {{}}),
          .begin_mask = a.integer("begin_mask", 0),
          .end_mask = a.integer("end_mask", 0),
          .ellipsis_mask = a.integer("ellipsis_mask", 0),
          .new_axis_mask = a.integer("new_axis_mask", 0),
          .shrink_axis_mask = a.integer("shrink_axis_mask", 0)};
}

// Our layer_norm works on the last axes, as many as scale has; a case must mean the same.
void require_last_axes(const A& a, const X& x) {
  const int rank = x[0].rank(), count = x[1].rank();
  const Ints axes = a.axes("axis").resolve("layer_norm", rank);
  if (axes.size() != count || axes[0] != rank - count)
    throw NotUnderstood("axis must name the last axes, those of gamma");
}

Parts parts_of(const A& a) {
  constexpr auto name = "num_or_size_splits";
  return a.is_list(name) ? Parts(a.integers(name)) : Parts(a.integer(name));
}

const std::map<std::string, Program> table = {
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
    {"leaky_relu", [](const A& a, const X& x) { return leaky_relu(x[0], a.number("alpha")); }},
    {"gelu", [](const A& a, const X& x) { return gelu(x[0], {.approximate = a.flag("approximate")}); }},
    {"where", [](const A&, const X& x) { return where(x[0], x[1], x[2]); }},
    {"clip_by_value", [](const A& a, const X& x) { return clip_by_value(x[0], a.number("min"), a.number("max")); }},

    {"reduce_sum", reduction(reduce_sum)},
    {"reduce_mean", reduction(reduce_mean)},
    {"reduce_max", reduction(reduce_max)},
    {"reduce_min", reduction(reduce_min)},
    {"reduce_prod", reduction(reduce_prod)},
    {"reduce_logsumexp", reduction(logsumexp)},
    {"reduce_std", reduction(reduce_std)},
    {"reduce_variance", reduction(reduce_variance)},
    {"global_avg_pool2d",
     [](const A&, const X& x) {
       return reduce_mean(x[0], {.axes = {1, 2}});
     }},
    {"global_max_pool2d",
     [](const A&, const X& x) {
       return reduce_max(x[0], {.axes = {1, 2}});
     }},
    {"norm",
     [](const A& a, const X& x) {
       return norm(x[0], {.axes = a.axes("axis"), .keepdims = a.flag("keepdims", false), .order = order_of(a)});
     }},
    {"cumsum",
     [](const A& a, const X& x) {
       return cumsum(
           x[0],
           {.axis = a.integer("axis"), .exclusive = a.flag("exclusive", false), .reverse = a.flag("reverse", false)});
     }},
    {"argmax", along_axis(argmax)},
    {"argmin", along_axis(argmin)},
    {"sort",
     [](const A& a, const X& x) { return sort(x[0], {.axis = a.integer("axis"), .descending = is_descending(a)}); }},
    {"argsort",
     [](const A& a, const X& x) { return argsort(x[0], {.axis = a.integer("axis"), .descending = is_descending(a)}); }},
    {"top_k",
     [](const A& a, const X& x) {
       const auto top = top_k(x[0], a.integer("k"));
       return Outputs{top.values, top.indices};
     }},
    {"matmul",
     [](const A& a, const X& x) {
       return matmul(x[0], x[1],
                     {.transpose_a = a.flag("transpose_a", false), .transpose_b = a.flag("transpose_b", false)});
     }},

    {"reshape", [](const A& a, const X& x) { return reshape(x[0], a.integers("shape")); }},
    {"transpose", [](const A& a, const X& x) { return transpose(x[0], a.integers("perm")); }},
    {"squeeze", [](const A& a, const X& x) { return squeeze(x[0], a.axes("axis")); }},
    {"expand_dims", along_axis(expand_dims)},
    {"concat", [](const A& a, const X& x) { return concat(x.all(), a.integer("axis")); }},
    {"stack", [](const A& a, const X& x) { return stack(x.all(), a.integer("axis")); }},
    {"unstack", [](const A& a, const X& x) { return unstack(x[0], a.integer("axis")); }},
    {"split", [](const A& a, const X& x) { return split(x[0], parts_of(a), a.integer("axis")); }},
    {"slice", [](const A& a, const X& x) { return slice(x[0], a.integers("begin"), a.integers("size")); }},
    {"strided_slice", [](const A& a, const X& x) { return strided_slice(x[0], strided_slice_of(a)); }},
    {"pad",
     [](const A& a, const X& x) {
       return pad(x[0], paddings_of(a), {.mode = pad_mode_of(a), .value = a.number("constant_values", 0)});
     }},
    {"tile", [](const A& a, const X& x) { return tile(x[0], a.integers("multiples")); }},
    {"broadcast_to", [](const A& a, const X& x) { return broadcast_to(x[0], Shape(a.integers("shape"))); }},
    {"reverse", [](const A& a, const X& x) { return reverse(x[0], a.axes("axis")); }},
    {"gather",
     [](const A& a, const X& x) {
       return gather(x[0], x[1], {.axis = a.integer("axis"), .batch_dims = a.integer("batch_dims", 0)});
     }},
    {"gather_nd",
     [](const A& a, const X& x) { return gather_nd(x[0], x[1], {.batch_dims = a.integer("batch_dims", 0)}); }},
    {"scatter_nd", [](const A& a, const X& x) { return scatter_nd(x[0], x[1], Shape(a.integers("shape"))); }},
    {"embedding_lookup", [](const A&, const X& x) { return embedding_lookup(x[0], x[1]); }},
    {"one_hot",
     [](const A& a, const X& x) {
       return one_hot(x[0], a.integer("depth"),
                      {.on_value = a.number("on_value", 1),
                       .off_value = a.number("off_value", 0),
                       .axis = a.integer("axis", -1),
                       .dtype = x.dtype()});
     }},

    {"softmax", along_axis(softmax)},
    {"log_softmax", along_axis(log_softmax)},
    {"softmax_cross_entropy", labels_and_logits(softmax_cross_entropy)},
    {"sparse_softmax_cross_entropy", labels_and_logits(sparse_softmax_cross_entropy)},
    {"conv1d",
     [](const A& a, const X& x) {
       return conv1d(x[0], x[1], {.strides = {a.integer("stride")}, .padding = padding_of(a)});
     }},
    {"conv2d",
     [](const A& a, const X& x) {
       return conv2d(x[0], x[1],
                     {.strides = a.integers("strides"),
                      .padding = padding_of(a),
                      .dilations = a.integers("dilations", {{1, 1}}),
                      .groups = a.integer("groups", 1)});
     }},
    {"depthwise_conv2d",
     [](const A& a, const X& x) {
       return depthwise_conv2d(x[0], x[1], {.strides = a.integers("strides"), .padding = padding_of(a)});
     }},
    {"conv2d_transpose",
     [](const A& a, const X& x) {
       return conv2d_transpose(x[0], x[1], Shape(a.integers("output_shape")),
                               {.strides = a.integers("strides"), .padding = padding_of(a)});
     }},
    {"max_pool1d", pool(max_pool)},
    {"max_pool2d", pool(max_pool)},
    {"avg_pool1d", pool(avg_pool)},
    {"avg_pool2d", pool(avg_pool)},
    {"resize_bilinear",
     [](const A& a, const X& x) {
       return resize_bilinear(x[0], a.integers("size"),
                              {.align_corners = a.flag("align_corners", false),
                               .half_pixel_centers = a.flag("half_pixel_centers", true)});
     }},
    {"layer_norm",
     [](const A& a, const X& x) {
       require_last_axes(a, x);
       return layer_norm(x[0], x[1], x[2], {.epsilon = a.number("epsilon")});
     }},
    {"rms_norm", [](const A& a, const X& x) { return rms_norm(x[0], x[1], {.epsilon = a.number("epsilon")}); }},
    {"batch_norm",
     [](const A& a, const X& x) {
       const auto [y, mean, variance] = batch_norm(x[0], x[1], x[2], {.epsilon = a.number("epsilon")});
       return Outputs{y, mean, variance};
     }},
    {"attention",
     [](const A& a, const X& x) {
       Attention options{.causal = a.flag("causal", false)};
       if (x.size() > 3) options.mask = x[3];
       if (a.has("scale")) options.scale = a.number("scale");
       return attention(x[0], x[1], x[2], options);
     }},
    {"lstm_cell",
     [](const A&, const X& x) {
       const auto [h, c] = lstm_cell(x[0], x[1], x[2], x[3], x[4], x[5]);
       return Outputs{h, c};
     }},
    {"lstm_sequence",
     [](const A& a, const X& x) {
       const auto [sequence, h, c] =
           lstm(x[0], x[1], x[2], x[3], x[4], x[5], {.go_backwards = a.flag("go_backwards", false)});
       return Outputs{sequence, h, c};
     }},
    {"gru_cell",
     [](const A& a, const X& x) {
       return gru_cell(x[0], x[1], x[2], x[3], x[4], {.reset_after = a.flag("reset_after")});
     }},
    {"gru_sequence",
     [](const A& a, const X& x) {
       const auto [sequence, h] =
           gru(x[0], x[1], x[2], x[3], x[4],
               {.reset_after = a.flag("reset_after"), .go_backwards = a.flag("go_backwards", false)});
       return Outputs{sequence, h};
     }},
    {"clip_by_norm",
     [](const A& a, const X& x) { return clip_by_norm(x[0], a.number("clip_norm"), {.axes = a.axes("axes")}); }},
    {"clip_by_global_norm",
     [](const A& a, const X& x) {
       const std::vector<Gradient> gradients(x.all().begin(), x.all().end());
       const auto [clipped, norm] = clip_by_global_norm(gradients, a.number("clip_norm"));
       std::vector<Tensor> outputs(clipped.begin(), clipped.end());
       outputs.push_back(norm);
       return outputs;
     }},
};

}  // namespace

const std::map<std::string, Program>& op_table() { return table; }

}  // namespace thalweg::golden
