#include "thalweg/data/dataset.h"

#include "thalweg/core/check.h"
#include "thalweg/data/shared.h"

namespace thalweg::data {

std::int64_t Element::bytes() const {
  std::int64_t total = 0;
  for (const auto& part : parts_) total += part.bytes();
  return total;
}

void Element::throw_no_part(std::size_t part) const {
  TW_FAIL(out_of_range, "data", "parts are counted from 0", "asked for part {} of an element with {}", part, size());
}

namespace detail {

void throw_wrong_parts(const char* stage, std::size_t expected, std::size_t found) {
  TW_FAIL(invalid_argument, stage, "take one argument for each part, or the whole element: const tw::data::Element&",
          "the function takes {} tensors, the element has {} parts", expected, found);
}

}  // namespace detail

Dataset::Dataset(std::shared_ptr<const Node> node) : node_(std::move(node)), shared_(std::make_shared<Shared>()) {}

Iterator Dataset::iterator() const {
  return Iterator(std::make_unique<IteratorCore>(node_, shared_, shared_->epochs++));
}

DatasetIterator Dataset::begin() const { return DatasetIterator(iterator()); }

std::int64_t Dataset::cardinality() const { return node_->cardinality(); }

DatasetStats Dataset::stats() const { return shared_->counters.stats(*node_); }

}  // namespace thalweg::data
