#pragma once

// An element that is drawn but not made yet. Drawing (which row, which number) is cheap and happens one by one in
// order; making (reading, functions of the user, copying) may happen on any thread later.
#include <span>
#include <utility>
#include <vector>

#include "thalweg/core/small_vector.h"
#include "thalweg/data/element.h"

namespace thalweg::data {

// What the stages left behind when they drew: numbers, and elements that a stage had to make at once. Stages append in
// an order of their own and read in the same order.
struct Job {
  SmallVector<std::int64_t, 4> numbers;
  std::vector<Element> elements;
  bool dropped = false;  // nothing will be made of it

  struct Mark {
    std::size_t numbers, elements;
  };
  Mark mark() const { return {numbers.size(), elements.size()}; }
  void cut(const Mark& mark) {
    numbers.resize(mark.numbers);
    elements.resize(mark.elements);
  }
  void clear() { cut({0, 0}); }
  void append(Job& other) {
    numbers.append(other.numbers.begin(), other.numbers.end());
    for (auto& element : other.elements) elements.push_back(std::move(element));
  }
};

class JobReader {
 public:
  explicit JobReader(Job& job) : job_(job) {}
  std::int64_t number() { return job_.numbers[number_++]; }
  std::span<const std::int64_t> numbers(std::int64_t count) {
    const std::span<const std::int64_t> all(job_.numbers.data() + number_, static_cast<std::size_t>(count));
    number_ += all.size();
    return all;
  }
  Element element() { return std::move(job_.elements[element_++]); }

 private:
  Job& job_;
  std::size_t number_ = 0, element_ = 0;
};

}  // namespace thalweg::data
