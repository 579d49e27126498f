#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

namespace thalweg {

// A vector whose first N elements live inside it, so that the usual op (one to four tensors) allocates nothing.
template <class T, int N>
class SmallVector {
 public:
  using value_type = T;
  using iterator = T*;
  using const_iterator = const T*;

  SmallVector() = default;
  SmallVector(std::initializer_list<T> list) { append(list.begin(), list.end()); }
  explicit SmallVector(std::size_t n, const T& value = T()) {
    for (std::size_t i = 0; i < n; ++i) push_back(value);
  }
  template <std::input_iterator It>
  SmallVector(It first, It last) {
    append(first, last);
  }
  SmallVector(const SmallVector& other) { append(other.begin(), other.end()); }
  SmallVector(SmallVector&& other) noexcept { take(std::move(other)); }
  SmallVector(const std::vector<T>& other) { append(other.begin(), other.end()); }
  SmallVector& operator=(SmallVector other) noexcept {
    clear();
    take(std::move(other));
    return *this;
  }
  ~SmallVector() { clear(); }

  template <class It>
  void append(It first, It last) {
    for (; first != last; ++first) push_back(*first);
  }
  void push_back(T value) {
    if (size_ < N && heap_.empty()) {
      std::construct_at(inline_data() + size_, std::move(value));
    } else {
      if (heap_.empty()) spill();
      heap_.push_back(std::move(value));
    }
    ++size_;
  }
  template <class... Args>
  T& emplace_back(Args&&... args) {
    push_back(T(std::forward<Args>(args)...));
    return back();
  }
  void pop_back() {
    if (heap_.empty())
      std::destroy_at(inline_data() + size_ - 1);
    else
      heap_.pop_back();
    --size_;
  }
  void clear() {
    if (heap_.empty()) std::destroy_n(inline_data(), size_);
    heap_.clear();
    size_ = 0;
  }
  void resize(std::size_t n) {
    while (size() > n) pop_back();
    while (size() < n) push_back(T());
  }

  T* data() { return heap_.empty() ? inline_data() : heap_.data(); }
  const T* data() const { return heap_.empty() ? inline_data() : heap_.data(); }
  std::size_t size() const { return static_cast<std::size_t>(size_); }
  bool empty() const { return size_ == 0; }
  T& operator[](std::size_t i) { return assert(i < size()), data()[i]; }
  const T& operator[](std::size_t i) const { return assert(i < size()), data()[i]; }
  T& front() { return *data(); }
  T& back() { return data()[size_ - 1]; }
  const T& front() const { return *data(); }
  const T& back() const { return data()[size_ - 1]; }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }

  operator std::vector<T>() const { return std::vector<T>(begin(), end()); }
  friend bool operator==(const SmallVector& a, const SmallVector& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  // Room for elements that are made and destroyed one by one.
  union Room {
    Room() {}
    ~Room() {}
    T elements[N];
  };

  T* inline_data() { return room_.elements; }
  const T* inline_data() const { return room_.elements; }
  void spill() {
    heap_.reserve(2 * N);
    for (int i = 0; i < size_; ++i) heap_.push_back(std::move(inline_data()[i]));
    std::destroy_n(inline_data(), size_);
  }
  void take(SmallVector&& other) {
    if (!other.heap_.empty()) {
      heap_ = std::move(other.heap_);
      other.heap_.clear();
    } else {
      for (int i = 0; i < other.size_; ++i) std::construct_at(inline_data() + i, std::move(other.inline_data()[i]));
      std::destroy_n(other.inline_data(), other.size_);
    }
    size_ = std::exchange(other.size_, 0);
  }

  std::vector<T> heap_;
  int size_ = 0;
  Room room_;
};

}  // namespace thalweg
