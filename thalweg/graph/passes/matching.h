#pragma once

// What passes that look for patterns share: who makes and who reads a value, and edits collected until all are known.
#include "thalweg/graph/graph.h"
#include "thalweg/graph/rewrite.h"

namespace thalweg {

// A node that reads a value, and as which of its inputs.
struct Reader {
  int node;
  int input;
};

class GraphView {
 public:
  explicit GraphView(const Graph& graph);

  const Graph& graph() const { return graph_; }
  const Node& node(int index) const { return graph_.nodes[static_cast<std::size_t>(index)]; }
  int maker_index(ValueId value) const { return makers_[static_cast<std::size_t>(value)]; }  // -1: none
  const Node* maker(ValueId value) const;                                                    // null: none
  // The value that this one is a reshape of, through several.
  ValueId behind_reshapes(ValueId value) const;
  // The readers of the value and of all its reshapes; none also if one of those is a result.
  std::vector<Reader> readers(ValueId value) const;
  bool has_one_reader(ValueId value) const;      // and is no result
  const Node* only_reader(ValueId value) const;  // null: there are none or several, or the value is a result

 private:
  bool collect(ValueId value, std::vector<Reader>& found) const;

  const Graph& graph_;
  std::vector<int> makers_;
  std::vector<std::vector<Reader>> readers_;
  std::vector<bool> kept_;
};

// Whether it is where(y > 0, dy, 0), of y and dy.
bool is_relu_gradient(const Node& node);

// One operand of a product, as a matrix or, if it is stored so, its transpose.
struct Matrix {
  ValueId value = -1;
  bool transposed = false;
};

// A matmul node, seen from one of its operands.
struct Product {
  bool is_left;     // the operand stands on the left
  bool transposed;  // and is transposed
  Matrix other;

  Product(const Node& node, int input);
};

// New nodes and replacements, put into the graph together.
class Edits {
 public:
  explicit Edits(const Graph& graph) : graph_(graph) {}

  // A node that runs right before node `before` of the graph as it was. Gives its outputs.
  ValueIds insert(int before, const OpInfo& info, std::shared_ptr<const void> op, ValueIds inputs);
  ValueId reshape(int before, ValueId value, const Shape& shape);  // the value itself if it has the shape
  ValueId swap_last_two(int before, ValueId value);
  // Replaces the matrix by the value, turned and reshaped as need be; nothing if there is none.
  void replace(int before, const Matrix& old, ValueId by);
  ValueId add_constant(const Tensor& tensor) { return graph_.add_constant(tensor); }
  void replace(ValueId value, ValueId by) { replaced_.emplace_back(value, by); }
  const Spec& spec(ValueId value) const { return graph_.spec(value); }
  bool empty() const { return replaced_.empty(); }
  Graph apply() &&;

 private:
  struct Insertion {
    int before;
    Node node;
  };
  Graph graph_;
  std::vector<Insertion> insertions_;
  std::vector<std::pair<ValueId, ValueId>> replaced_;
};

}  // namespace thalweg
