#pragma once

// What runs a case: a function of its attributes and inputs.
#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/golden_runner/attributes.h"
#include "thalweg/core/tensor.h"

namespace thalweg::golden {

class Inputs {
 public:
  Inputs(std::vector<Tensor> tensors, DType dtype, std::vector<std::string> roles = {})
      : tensors_(std::move(tensors)), dtype_(dtype), roles_(std::move(roles)) {}
  DType dtype() const { return dtype_; }  // of the floats in this run
  std::size_t size() const { return tensors_.size(); }
  const std::vector<Tensor>& all() const { return tensors_; }
  const Tensor& operator[](std::size_t i) const {
    if (i >= tensors_.size()) throw NotUnderstood("input " + std::to_string(i) + " is missing");
    return tensors_[i];
  }
  // The input with this meaning; undefined if there is none.
  Tensor role(const std::string& name) const {
    const auto at = std::find(roles_.begin(), roles_.end(), name);
    return at == roles_.end() ? Tensor() : (*this)[static_cast<std::size_t>(at - roles_.begin())];
  }

 private:
  std::vector<Tensor> tensors_;
  DType dtype_;
  std::vector<std::string> roles_;
};

// One tensor or a list of them; in tape programs undefined means that there is no gradient.
class Outputs {
 public:
  Outputs(Tensor tensor) : tensors_{std::move(tensor)} {}
  Outputs(std::vector<Tensor> tensors) : tensors_(std::move(tensors)) {}
  Outputs(std::initializer_list<Tensor> tensors) : tensors_(tensors) {}
  const std::vector<Tensor>& all() const { return tensors_; }

 private:
  std::vector<Tensor> tensors_;
};

using Program = std::function<Outputs(const Attributes&, const Inputs&)>;

// By TensorFlow's name of the op, by the name behind "tape/", by Keras' class.
const std::map<std::string, Program>& op_table();
const std::map<std::string, Program>& tape_programs();
const std::map<std::string, Program>& loss_table();
const std::map<std::string, Program>& optimizer_table(bool compiled);  // schedules too

}  // namespace thalweg::golden
