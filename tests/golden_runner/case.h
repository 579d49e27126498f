#pragma once

// The cases of a group, as its cases.json gives them; tests/golden/README.md describes the format.
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/golden_runner/attributes.h"

namespace thalweg::golden {

// A directory that is not of the format: the runner stops.
struct Malformed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Tolerance {
  double relative = 0, absolute = 0;
};

// follow: a choice to be matched. document: where the expected gradient is not finite, ours may be something else.
enum class Policy { follow, document };

using Key = std::optional<std::string>;  // of a tensor in the group's file; none: no gradient

struct SparseKeys {
  std::string values, indices;
  std::vector<std::int64_t> dense_shape;
};

// A whole training run: what it starts from, and what came of it in each precision. Texts are keys of tensors.
struct Training {
  struct Run {
    std::string loss, norm;                                // [steps]
    std::vector<std::string> parameters, first_gradients;  // after the last step, and before the first
    Tolerance of_loss, of_norm, of_parameters;
  };
  std::vector<std::string> parameters;  // their names, in the order of the inputs
  std::map<std::string, std::string> data;
  std::string order;  // [steps, batch]: the examples of each step
  Run f32, f64;
};

struct Case {
  std::string name, op;
  Attributes attributes;
  std::vector<std::string> inputs;
  std::vector<std::vector<Key>> updates;  // of a metric: its inputs, in the order of the roles
  std::vector<Key> outputs, output_gradients, input_gradients;
  std::vector<std::string> output_names;
  std::vector<std::string> roles;                    // of the inputs: "x", "weight:kernel", "y_true", …
  std::map<std::string, std::string> weights_after;  // a layer's weights that its call changes: name -> key
  std::map<std::size_t, SparseKeys> sparse_input_gradients;
  Tolerance f32, f64;
  Policy policy = Policy::follow;
  std::optional<Training> training;
};

struct Group {
  std::string name;
  std::filesystem::path tensors;
  std::vector<Case> cases;  // of a group that is not run: name and op only
};

inline bool is_run(const std::string& group) {
  static const std::set<std::string> groups{"layers",     "losses",    "metrics", "ops",
                                            "optimizers", "precision", "tape",    "trajectories"};
  return groups.contains(group);
}

// The op with its group: "ops/add", "tape/jacobian".
inline std::string full_name(const std::string& group, const std::string& op) {
  return op.starts_with(group + "/") ? op : group + "/" + op;
}

Group load_group(const std::filesystem::path& directory);

}  // namespace thalweg::golden
