#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "thalweg/core/tensor.h"

namespace thalweg {

struct VariableImpl;

struct VariableOptions {
  std::string name = {};
  bool trainable = true;
};

// The only thing that changes: a named, shared handle to a tensor's storage. Copies alias. Reading shares the storage;
// an assignment writes in place when nobody else holds it and otherwise takes new storage first, so that a tensor read
// earlier keeps its values. Gradients do not flow through assignments.
class TW_API Variable {
 public:
  Variable() = default;
  explicit Variable(const Tensor& initial, VariableOptions options = {});

  bool defined() const { return impl_ != nullptr; }
  Tensor value() const;  // a read: tapes on this thread watch it
  operator Tensor() const { return value(); }
  const Spec& spec() const;
  const Shape& shape() const { return spec().shape; }
  DType dtype() const { return spec().dtype; }
  const std::string& name() const;
  bool trainable() const;
  std::uint64_t version() const;  // counts assignments
  std::uint64_t id() const;       // the same for all copies of the handle

  void assign(const Tensor& value);
  void assign_add(const Tensor& value);
  void assign_sub(const Tensor& value);

  friend class VariableStorage;
  friend bool operator==(const Variable& a, const Variable& b) { return a.impl_ == b.impl_; }

 private:
  VariableImpl& checked() const;
  void update(const char* op, const Tensor& value, int sign);
  std::shared_ptr<VariableImpl> impl_;
};

// Live variables with their bytes, largest first.
std::vector<MemoryInfo::Share> live_variables();

}  // namespace thalweg
