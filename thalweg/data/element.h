#pragma once

#include <cstdint>
#include <initializer_list>
#include <tuple>
#include <utility>
#include <vector>

#include "thalweg/core/tensor.h"

namespace thalweg::data {

// What a dataset gives: one or more tensors that belong together, such as an image and its label.
class TW_API Element {
 public:
  Element() = default;
  Element(std::initializer_list<Tensor> parts) : parts_(parts) {}
  Element(const Tensor& part) : parts_{part} {}
  Element(Tensors parts) : parts_(std::move(parts)) {}
  Element(const std::vector<Tensor>& parts) : parts_(parts) {}
  template <class... T>
  Element(const std::tuple<T...>& parts) {
    std::apply([this](const auto&... part) { (push_back(part), ...); }, parts);
  }
  template <class A, class B>
  Element(const std::pair<A, B>& parts) : parts_{parts.first, parts.second} {}

  std::size_t size() const { return parts_.size(); }
  bool empty() const { return parts_.empty(); }
  const Tensor& operator[](std::size_t part) const {
    if (part >= parts_.size()) [[unlikely]]
      throw_no_part(part);
    return parts_[part];
  }
  const Tensor* begin() const { return parts_.begin(); }
  const Tensor* end() const { return parts_.end(); }
  void push_back(Tensor part) { parts_.push_back(std::move(part)); }
  std::int64_t bytes() const;

 private:
  [[noreturn]] void throw_no_part(std::size_t part) const;
  Tensors parts_;
};

}  // namespace thalweg::data
