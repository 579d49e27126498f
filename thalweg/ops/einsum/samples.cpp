#include "tests/support/sample.h"
#include "thalweg/ops/einsum/einsum.h"

using namespace thalweg;
using namespace thalweg::testing;

namespace {

using In = const std::vector<Tensor>&;

// Every letter's index counts through its size; the operands' elements at these indices are multiplied and added to
// the output's. Sizes are given per letter, in the order of `letters`.
struct Oracle {
  std::string letters;
  std::vector<std::int64_t> sizes;
  std::vector<std::string> inputs;  // an axis of size 1 is named 1
  std::string output;

  Shape shape_of(const std::string& term) const {
    Ints shape;
    for (char letter : term) shape.push_back(letter == '1' ? 1 : sizes[letters.find(letter)]);
    return Shape(shape);
  }
  std::size_t offset(const std::string& term, const std::vector<std::int64_t>& index) const {
    std::int64_t at = 0;
    for (char letter : term)
      if (letter != '1') at = at * sizes[letters.find(letter)] + index[letters.find(letter)];
    return static_cast<std::size_t>(at);
  }
  std::vector<Tensor> operator()(In in) const {
    std::vector<double> y(static_cast<std::size_t>(shape_of(output).size()));
    std::int64_t total = 1;
    for (auto size : sizes) total *= size;
    for (std::int64_t at = 0; at < total; ++at) {
      std::vector<std::int64_t> index(sizes.size());
      std::int64_t rest = at;
      for (std::size_t i = 0; i < sizes.size(); ++i) index[i] = rest % sizes[i], rest /= sizes[i];
      double product = 1;
      for (std::size_t i = 0; i < inputs.size(); ++i) product *= in[i].data<double>()[offset(inputs[i], index)];
      y[offset(output, index)] += product;
    }
    return {Tensor::from(y, shape_of(output))};
  }
};

Sample sample(const std::string& equation, const Oracle& oracle) {
  Sample result{.op = "matmul",
                .label = "einsum " + equation,
                .inputs = {},
                .call = [equation](In in) { return std::vector{einsum(equation, in)}; },
                .oracle = oracle,
                .exact = true,
                .nonfinite = false};
  for (const auto& term : oracle.inputs) result.inputs.push_back({oracle.shape_of(term), Domain::integers});
  return result;
}

Tensor floats(const Shape& shape) {
  return Tensor::from(std::vector<float>(static_cast<std::size_t>(shape.size())), shape);
}

}  // namespace

TW_SAMPLES {
  Samples all;
  all.samples = {
      sample("bij,bjk->bik", {"bijk", {2, 3, 4, 5}, {"bij", "bjk"}, "bik"}),
      sample("ij , jk", {"ijk", {3, 4, 5}, {"ij", "jk"}, "ik"}),
      sample("ba", {"ab", {2, 3}, {"ba"}, "ab"}),
      sample("ij->", {"ij", {3, 4}, {"ij"}, ""}),
      sample("ijk->kj", {"ijk", {3, 4, 2}, {"ijk"}, "kj"}),
      sample("i,j->ij", {"ij", {3, 4}, {"i", "j"}, "ij"}),
      sample("i,i->", {"i", {5}, {"i", "i"}, ""}),
      sample("ij,ij->ij", {"ij", {3, 4}, {"ij", "ij"}, "ij"}),
      sample("bij,kj->bki", {"bijk", {2, 3, 4, 5}, {"bij", "kj"}, "bki"}),
      sample("bthd,bshd->bhts", {"bthds", {2, 3, 2, 4, 5}, {"bthd", "bshd"}, "bhts"}),
      sample("abc,cdx->abdx", {"abcdx", {2, 3, 4, 2, 3}, {"abc", "cdx"}, "abdx"}),
      sample("ij,jk,kl->li", {"ijkl", {2, 3, 4, 2}, {"ij", "jk", "kl"}, "li"}),
      sample("ij,k->j", {"ijk", {2, 3, 4}, {"ij", "k"}, "j"}),
      sample("...ij,jk->...ik", {"pqijk", {2, 3, 2, 4, 3}, {"pqij", "jk"}, "pqik"}),
      sample("...ij,...jk", {"pqijk", {2, 3, 2, 4, 3}, {"pqij", "1qjk"}, "pqik"}),
      sample("i...->...", {"ipq", {2, 3, 4}, {"ipq"}, "pq"}),
      sample("ij,jk->ik", {"ijk", {2, 0, 3}, {"ij", "jk"}, "ik"}),
  };
  const auto add_dot = [&](const char* label, const std::function<Tensor(In)>& call, const Oracle& oracle) {
    all.samples.push_back({.op = "matmul",
                           .label = label,
                           .inputs = {{oracle.shape_of(oracle.inputs[0]), Domain::integers},
                                      {oracle.shape_of(oracle.inputs[1]), Domain::integers}},
                           .call = [call](In in) { return std::vector{call(in)}; },
                           .oracle = oracle,
                           .exact = true,
                           .nonfinite = false});
  };
  add_dot("tensordot of two axes", [](In in) { return tensordot(in[0], in[1], 2); },
          {"abcd", {2, 3, 4, 5}, {"abc", "bcd"}, "ad"});
  add_dot("tensordot of none", [](In in) { return tensordot(in[0], in[1], 0); }, {"ab", {2, 3}, {"a", "b"}, "ab"});
  add_dot("tensordot of lists",
          [](In in) {
            return tensordot(in[0], in[1], {{0, -1}, {1, 0}});
          },
          {"abcd", {2, 3, 4, 5}, {"abc", "cad"}, "bd"});

  const auto mistake = [](const char* label, const char* equation, const std::vector<Shape>& shapes,
                          std::vector<std::string> words) {
    words.push_back("[einsum]");
    return Mistake{"matmul", label,
                   [=] {
                     std::vector<Tensor> operands;
                     for (const auto& shape : shapes) operands.push_back(floats(shape));
                     einsum(equation, operands);
                   },
                   ErrorCode::invalid_argument, words};
  };
  all.mistakes = {
      mistake("einsum with a diagonal", "ii->i", {{3, 3}}, {"'i' appears twice", "diag_part"}),
      mistake("einsum with an unknown letter", "ij->ik", {{3, 3}}, {"'k'", "no operand"}),
      mistake("einsum with different sizes", "ij,jk->ik", {{2, 3}, {4, 5}}, {"'j'", "size 3 and size 4"}),
      mistake("einsum with a wrong rank", "ij->i", {{3}}, {"operand 0", "2 axes", "[3]"}),
      mistake("einsum with an operand missing", "ij,jk->ik", {{3, 3}}, {"2 operands", "got 1"}),
      mistake("einsum with a digit", "i1->i", {{3, 3}}, {"'1'"}),
      {"matmul",
       "tensordot of different sizes",
       [] {
         tensordot(floats({2, 3}), floats({4, 5}), 1);
       },
       ErrorCode::invalid_argument,
       {"[tensordot]", "sizes differ", "has 3", "has 4"}},
      {"matmul",
       "tensordot of too many axes",
       [] {
         tensordot(floats({2, 3}), floats({3}), 2);
       },
       ErrorCode::invalid_argument,
       {"[tensordot]", "0 to 1", "got 2"}},
  };
  return all;
}
