#pragma once

// Reads elementwise arithmetic on attention scores: how a value follows from a product of queries and keys by scaling
// and by hiding keys, however that is written:
//   where(seen, s * 0.125, -1e9)    s / 8 + (1 - cast(seen, f32)) * -1e9    s + constant    s * 0.125 + band_part(…)
//   s * below - 1e10 * (1 - below)
#include <unordered_map>

#include "thalweg/graph/passes/matching.h"
#include "thalweg/ops/program.h"

namespace thalweg {

// A condition on pairs of a query and a key: a boolean value as it is, or inverted.
struct Literal {
  ValueId value;
  Shape shape;  // in which it meets the scores; as many elements as the value
  bool inverted = false;
  Tensor known =
      {};  // if the condition is the same in each call: its values, inverted if it is; boolean, of this shape

  bool is_same(const Literal& other) const;
};

struct Term {
  enum class Kind { unknown, number, choice, scores };
  Kind kind = Kind::unknown;
  double number = 0;
  double yes = 1, no = 0;              // choice: one if all literals hold, else the other
  std::vector<Literal> literals = {};  // of a choice; of scores: those that a key must meet to be seen
  double scale = 1;                    // of scores
  std::vector<double> fills = {};      // for each of them: what scores are set to, or lowered by, where it fails
  bool lowered = false;                // some are lowered, not set
  Shape masked = {};                   // the shape of the scores where keys are hidden
  std::vector<ValueId> path = {};      // the values from the product to here

  bool is(Kind other) const { return kind == other; }
};

// For each value whether it is the same in each call, as it follows from constants in few steps.
std::vector<bool> known_values(const Graph& graph);

class ScoreTerms {
 public:
  // Scores are values that follow from `base`; -1: from any product. `known` are the known_values of the graph.
  ScoreTerms(const GraphView& view, const std::vector<bool>& known, ValueId base = -1)
      : view_(view), known_values_(known), base_(base) {}
  const Term& of(ValueId value);  // unknown where too many steps lead to it

 private:
  Term read(ValueId value);
  Term read_program(const Program& program, const Node& node);
  Term read_reshape(const Node& node);
  Tensor evaluate(ValueId value);
  Term read_known(ValueId value);

  const GraphView& view_;
  const std::vector<bool>& known_values_;
  ValueId base_;
  std::unordered_map<ValueId, Term> terms_;
  int depth_ = 0;  // of the value that is read
  std::unordered_map<ValueId, Tensor> known_;
};

// A boolean [queries, keys], whatever axes of size 1 in front, by which query i sees keys 0 … i. One row for all
// queries is none.
bool is_causal(const Tensor& seen, std::int64_t queries);
// Some query sees no key, by those alone that are the same in each call.
bool leaves_rows_empty(const std::vector<Literal>& literals);

}  // namespace thalweg
