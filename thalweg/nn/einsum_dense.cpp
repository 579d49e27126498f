#include "thalweg/nn/einsum_dense.h"

#include <map>

#include "thalweg/core/check.h"
#include "thalweg/ops/einsum/einsum.h"

namespace thalweg::nn {
namespace {

constexpr auto op = "einsum_dense";

// "x,kernel->result" by its letters.
struct Equation {
  std::string x, kernel, result;
};

Equation parse(const std::string& text) {
  const auto comma = text.find(','), arrow = text.find("->");
  TW_CHECK_USER(comma != std::string::npos && arrow != std::string::npos && comma < arrow &&
                    text.find_first_of(". ") == std::string::npos,
                op, "write the letters of x, of the kernel and of the result: \"ab,bc->ac\"",
                "expected an equation of two operands, got \"{}\"", text);
  return {text.substr(0, comma), text.substr(comma + 1, arrow - comma - 1), text.substr(arrow + 2)};
}

// Sizes by letter: from x, and from the output_shape for what is new in the result.
std::map<char, std::int64_t> sizes_of(const Equation& equation, const Ints& output, const Shape& x) {
  TW_CHECK_USER(static_cast<int>(equation.x.size()) == x.rank(), op, "every axis of x has a letter",
                "expected an input of rank {} for \"{}\", got {}", equation.x.size(), equation.x, x);
  TW_CHECK_USER(static_cast<int>(equation.result.size()) == output.size() + 1, op,
                "output_shape has a size for every letter of the result but the first",
                "expected an output_shape of {} sizes for \"{}\", got {}", equation.result.size() - 1, equation.result,
                output);
  std::map<char, std::int64_t> sizes;
  for (int i = 0; i < x.rank(); ++i) sizes[equation.x[static_cast<std::size_t>(i)]] = x[i];
  for (int i = 0; i < output.size(); ++i) {
    const char letter = equation.result[static_cast<std::size_t>(i) + 1];
    if (output[i] < 0) continue;
    const auto size = sizes.emplace(letter, output[i]).first->second;
    TW_CHECK_USER(size == output[i], op, "-1 in output_shape takes the size of x",
                  "expected {} for \"{}\" in output_shape, as in x {}, got {}", size, letter, x, output[i]);
  }
  return sizes;
}

}  // namespace

void EinsumDense::build(const Spec& x) {
  const Equation equation = parse(options_.equation);
  const auto sizes = sizes_of(equation, options_.output_shape, x.shape);
  Ints shape, bias;
  std::int64_t in = 1, out = 1;
  for (const char letter : equation.kernel) {
    const auto size = sizes.find(letter);
    TW_CHECK_USER(size != sizes.end(), op, "letters of the kernel occur in x, or in the result with a size",
                  "expected a size of \"{}\" in \"{}\"", letter, options_.equation);
    shape.push_back(size->second);
    (equation.result.find(letter) == std::string::npos ? in : out) *= size->second;
  }
  const DType dtype = weight_dtype(x);
  kernel_ = add_variable("kernel", Shape(shape), options_.kernel_initializer,
                         {.dtype = dtype, .regularizer = options_.kernel_regularizer, .initial_shape = {in, out}});
  for (const char letter : options_.bias_axes) {
    const auto place = equation.result.find(letter);
    TW_CHECK_USER(place != std::string::npos && place > 0, op,
                  "name letters of the result behind the first, which is that of examples",
                  "expected .bias_axes with letters of \"{}\", got \"{}\"", equation.result, options_.bias_axes);
  }
  // Axes of the result behind the bias' first that it lacks have size 1.
  for (const char letter : equation.result) {
    const bool has = options_.bias_axes.find(letter) != std::string::npos;
    if (has || !bias.empty()) bias.push_back(has ? sizes.at(letter) : 1);
  }
  if (!bias.empty())
    bias_ = add_variable("bias", Shape(bias), options_.bias_initializer,
                         {.dtype = dtype, .regularizer = options_.bias_regularizer});
}

Tensor EinsumDense::call(const Tensor& x) {
  const Tensor y = einsum(options_.equation, {x, read(kernel_, x.dtype())});
  return options_.activation(bias_.defined() ? y + read(bias_, x.dtype()) : y);
}

}  // namespace thalweg::nn
