#include "thalweg/ops/einsum/einsum.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <string>

#include "thalweg/core/check.h"
#include "thalweg/ops/axes.h"
#include "thalweg/ops/cast/cast.h"
#include "thalweg/ops/defined.h"
#include "thalweg/ops/einsum/contract.h"
#include "thalweg/ops/reshape/reshape.h"

namespace thalweg {
namespace {

// Axes under "..." are labelled from the last one: -1, -2, …; letters are their own labels.
constexpr int ellipsis = 0;

constexpr const char* form = "write it like \"bij,bjk->bik\" or \"...ij,jk->...ik\"";

// One side of the equation between commas; "..." is one entry.
Labels parse_term(std::string_view equation, std::string_view term) {
  Labels labels;
  for (std::size_t i = 0; i < term.size(); ++i) {
    if (term[i] == ' ') continue;
    const bool dots = term.substr(i, 3) == "...";
    TW_CHECK_USER(dots || std::isalpha(static_cast<unsigned char>(term[i])), "einsum", form,
                  "expected letters, commas, \"...\" and \"->\" in \"{}\", got '{}'", equation, term[i]);
    const int label = dots ? ellipsis : term[i];
    TW_CHECK_USER(std::find(labels.begin(), labels.end(), label) == labels.end(), "einsum",
                  "take the diagonal first: tw::diag_part(x)",
                  "expected every letter once in an operand, got '{}' twice in \"{}\" of \"{}\"",
                  dots ? "..." : std::string(1, term[i]), term, equation);
    labels.push_back(label);
    if (dots) i += 2;
  }
  return labels;
}

struct Equation {
  std::vector<Labels> inputs;
  Labels output;
};

std::vector<Labels> parse_inputs(std::string_view equation, std::string_view left) {
  std::vector<Labels> inputs;
  for (std::size_t begin = 0; begin <= left.size();) {
    const std::size_t end = std::min(left.find(',', begin), left.size());
    inputs.push_back(parse_term(equation, left.substr(begin, end - begin)));
    begin = end + 1;
  }
  return inputs;
}

// "..." first, then the letters that appear once.
Labels implicit_output(const std::vector<Labels>& inputs) {
  Labels all;
  for (const auto& labels : inputs) all.insert(all.end(), labels.begin(), labels.end());
  std::sort(all.begin(), all.end());
  Labels output;
  for (int label : all)
    if (std::count(all.begin(), all.end(), label) == 1 || (label == ellipsis && output.empty()))
      output.push_back(label);
  return output;
}

Equation parse(std::string_view equation) {
  const std::size_t arrow = equation.find("->");
  Equation result{parse_inputs(equation, equation.substr(0, arrow)), {}};
  result.output = arrow == std::string_view::npos ? implicit_output(result.inputs)
                                                  : parse_term(equation, equation.substr(arrow + 2));
  for (int label : result.output) {
    const bool known = std::any_of(result.inputs.begin(), result.inputs.end(), [label](const Labels& labels) {
      return std::find(labels.begin(), labels.end(), label) != labels.end();
    });
    TW_CHECK_USER(known, "einsum", "every letter of the output must name an axis of an operand",
                  "expected an output of the operands' letters in \"{}\", got '{}', which none has", equation,
                  label == ellipsis ? std::string("...") : std::string(1, static_cast<char>(label)));
  }
  return result;
}

// Replaces "..." by `count` labels of its own.
Labels expanded(const Labels& labels, int count) {
  Labels result;
  for (int label : labels) {
    if (label != ellipsis)
      result.push_back(label);
    else
      for (int i = count; i > 0; --i) result.push_back(-i);
  }
  return result;
}

// The operand with its axes named.
Labelled named(std::string_view equation, std::size_t number, const Tensor& x, const Labels& labels) {
  const bool dots = std::find(labels.begin(), labels.end(), ellipsis) != labels.end();
  const int letters = static_cast<int>(labels.size()) - (dots ? 1 : 0);
  TW_CHECK_USER(dots ? x.rank() >= letters : x.rank() == letters, "einsum",
                "name every axis by a letter, or the others by \"...\"",
                "expected operand {} of \"{}\" with {}{} axes, got {}", number, equation, dots ? "at least " : "",
                letters, x.shape());
  return {x, expanded(labels, x.rank() - letters)};
}

struct Size {
  int label;
  std::int64_t size;
};

// One size per label; under "..." 1 gives way to any other.
std::vector<Size> common_sizes(std::string_view equation, const std::vector<Labelled>& operands) {
  std::vector<Size> sizes;
  for (const auto& operand : operands)
    for (std::size_t i = 0; i < operand.labels.size(); ++i) {
      const int label = operand.labels[i];
      const std::int64_t size = operand.x.shape()[static_cast<int>(i)];
      const auto found = std::find_if(sizes.begin(), sizes.end(), [label](const Size& s) { return s.label == label; });
      if (found == sizes.end())
        sizes.push_back({label, size});
      else if (label < 0 && found->size == 1)
        found->size = size;
      else
        TW_CHECK_USER(found->size == size || (label < 0 && size == 1), "einsum", "axes of one letter have one size",
                      "expected one size for '{}' in \"{}\", got {} and {}",
                      label < 0 ? std::string("...") : std::string(1, static_cast<char>(label)), equation, found->size,
                      size);
    }
  return sizes;
}

// Without the axes of size 1 that stand for a larger one in another operand.
Labelled without_broadcast(const Labelled& operand, const std::vector<Size>& sizes) {
  Ints axes;
  Labels labels;
  for (std::size_t i = 0; i < operand.labels.size(); ++i) {
    const int label = operand.labels[i];
    const auto common = std::find_if(sizes.begin(), sizes.end(), [label](const Size& s) { return s.label == label; });
    if (common->size != operand.x.shape()[static_cast<int>(i)])
      axes.push_back(static_cast<std::int64_t>(i));
    else
      labels.push_back(label);
  }
  return axes.empty() ? operand : Labelled{squeeze(operand.x, axes), labels};
}

std::vector<Labelled> named_operands(std::string_view equation, const Equation& parsed,
                                     const std::vector<Tensor>& operands) {
  TW_CHECK_USER(parsed.inputs.size() == operands.size(), "einsum", form, "expected {} operands for \"{}\", got {}",
                parsed.inputs.size(), equation, operands.size());
  check_all_defined("einsum", operands);
  for (const auto& operand : operands) promote("einsum", operands[0].dtype(), operand.dtype());
  std::vector<Labelled> result;
  for (std::size_t i = 0; i < operands.size(); ++i) result.push_back(named(equation, i, operands[i], parsed.inputs[i]));
  const auto sizes = common_sizes(equation, result);
  for (auto& operand : result) operand = without_broadcast(operand, sizes);
  return result;
}

// The axes that "..." stands for in the output: as many as in the widest operand.
int widest_ellipsis(const Equation& parsed, const std::vector<Tensor>& operands) {
  int widest = 0;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const auto& labels = parsed.inputs[i];
    if (std::find(labels.begin(), labels.end(), ellipsis) != labels.end())
      widest = std::max(widest, operands[i].rank() - static_cast<int>(labels.size()) + 1);
  }
  return widest;
}

}  // namespace

Tensor einsum(std::string_view equation, const std::vector<Tensor>& operands) {
  const Equation parsed = parse(equation);
  const std::vector<Labelled> named = named_operands(equation, parsed, operands);
  const Labels output = expanded(parsed.output, widest_ellipsis(parsed, operands));
  Labelled result = named[0];
  for (std::size_t i = 1; i < named.size(); ++i) {
    Labels kept = output;  // and what later operands still need
    for (std::size_t j = i + 1; j < named.size(); ++j)
      kept.insert(kept.end(), named[j].labels.begin(), named[j].labels.end());
    result = contract(result, named[i], kept);
  }
  return arranged(sum_over_others(result, output), output);
}

Tensor tensordot(const Tensor& a, const Tensor& b, std::int64_t axes) {
  check_defined("tensordot", a, b);
  TW_CHECK_USER(axes >= 0 && axes <= std::min(a.rank(), b.rank()), "tensordot", "axes counts axes that both have",
                "expected 0 to {} axes for a {} and b {}, got {}", std::min(a.rank(), b.rank()), a.shape(), b.shape(),
                axes);
  std::pair<Ints, Ints> lists;
  for (std::int64_t i = 0; i < axes; ++i) lists.first.push_back(a.rank() - axes + i), lists.second.push_back(i);
  return tensordot(a, b, lists);
}

Tensor tensordot(const Tensor& a, const Tensor& b, const std::pair<Ints, Ints>& axes) {
  check_defined("tensordot", a, b);
  TW_CHECK_USER(axes.first.size() == axes.second.size(), "tensordot", "the lists pair axes of a with axes of b",
                "expected lists of one length, got {} and {}", axes.first, axes.second);
  Axes(axes.first).resolve("tensordot", a.rank()), Axes(axes.second).resolve("tensordot", b.rank());
  Labelled left{a, {}}, right{b, {}};
  for (int i = 0; i < a.rank(); ++i) left.labels.push_back(i);
  for (int i = 0; i < b.rank(); ++i) right.labels.push_back(max_rank + i);
  for (int i = 0; i < axes.first.size(); ++i) {
    const int first = resolve_axis("tensordot", axes.first[i], a.rank()),
              second = resolve_axis("tensordot", axes.second[i], b.rank());
    TW_CHECK_USER(a.shape()[first] == b.shape()[second], "tensordot", "paired axes have one size",
                  "sizes differ: axis {} of a {} has {}, axis {} of b {} has {}", first, a.shape(), a.shape()[first],
                  second, b.shape(), b.shape()[second]);
    right.labels[static_cast<std::size_t>(second)] = first;
  }
  Labels output;
  for (int label : left.labels)
    if (std::find(right.labels.begin(), right.labels.end(), label) == right.labels.end()) output.push_back(label);
  std::copy_if(right.labels.begin(), right.labels.end(), std::back_inserter(output),
               [](int label) { return label >= max_rank; });
  return contract(left, right, output).x;
}

}  // namespace thalweg
