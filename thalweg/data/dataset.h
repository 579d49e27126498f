#pragma once

// Pipelines that feed training: a source, then stages; each call returns a new dataset, nothing runs until one
// iterates.
//   auto ds = tw::data::from_tensor_slices({x, y}).shuffle(1000).batch(64).prefetch(tw::data::autotune);
//   for (const tw::data::Element& e : ds) step(e[0], e[1]);
// The order of elements, and what random ops inside of map draw, do not depend on the number of workers.
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "thalweg/data/element.h"
#include "thalweg/data/iterator.h"
#include "thalweg/data/statistics.h"

namespace thalweg {
template <class F>
class Function;
}

namespace thalweg::data {

inline constexpr int autotune = -1;                         // measured while running
inline constexpr std::int64_t infinite = -1, unknown = -2;  // cardinalities

struct ShuffleOptions {
  std::optional<std::uint64_t> seed = {};  // unset: by tw::random::set_seed
  bool reshuffle = true;                   // a new order each epoch
};
struct MapOptions {
  int parallel = 0;  // threads of the pipeline that run it; 0: none of its own
};
struct BatchOptions {
  bool drop_remainder = false;  // a last batch that is not full
};
struct PaddedBatchOptions {
  std::vector<Ints> shapes = {};    // of each part, -1: as long as the longest of the batch; empty: -1 everywhere
  std::vector<Number> values = {};  // of each part; empty: 0
  bool drop_remainder = false;
};
struct InterleaveOptions {
  int cycle = 4;  // datasets open at a time
  int block = 1;  // elements of one before the next one's turn
};

class Node;
class DatasetIterator;
struct Shared;

class TW_API Dataset {
 public:
  using Map = std::function<Element(const Element&)>;
  using Predicate = std::function<bool(const Element&)>;
  using Expand = std::function<Dataset(const Element&)>;

  explicit Dataset(std::shared_ptr<const Node> node);

  // f makes an element of an element: Element f(const Element&), or a callable over the parts, as tw::function is, that
  // returns a tensor, a pair, a tuple or a list. Random ops inside are numbered by epoch and element.
  template <class F>
  Dataset map(F f, const MapOptions& options = {}) const;
  // Elements for which the predicate (over an element or its parts; a bool or a boolean scalar) holds.
  template <class F>
  Dataset filter(F predicate) const;

  // Draws each element from a buffer of that many, as TensorFlow does; uniformly if the buffer holds the whole set, and
  // then without a buffer where elements can be reached by number.
  Dataset shuffle(std::int64_t buffer, const ShuffleOptions& options = {}) const;
  Dataset repeat(std::int64_t count = infinite) const;
  Dataset batch(std::int64_t size, const BatchOptions& options = {}) const;
  Dataset padded_batch(std::int64_t size, const PaddedBatchOptions& options = {}) const;
  Dataset unbatch() const;
  Dataset take(std::int64_t count) const;                       // -1: all
  Dataset skip(std::int64_t count) const;                       // -1: all
  Dataset shard(std::int64_t count, std::int64_t index) const;  // elements whose number leaves `index`; before shuffle
  Dataset zip(const Dataset& beside) const;                     // the parts of both; ends with the shorter one
  Dataset concatenate(const Dataset& after) const;
  Dataset enumerate(std::int64_t start = 0) const;  // the number (i64) as a first part
  // f gives a dataset for each element; takes `block` elements of each of `cycle` open ones in turn.
  Dataset interleave(Expand f, const InterleaveOptions& options = {}) const;
  Dataset cache() const;                         // in memory, once one pass was whole
  Dataset cache(const std::string& file) const;  // in a file, which later programs read too
  // Works ahead in threads of its own, at most that many elements.
  Dataset prefetch(int buffer = autotune) const;

  Iterator iterator() const;  // through the next epoch
  DatasetIterator begin() const;
  std::default_sentinel_t end() const { return {}; }

  std::int64_t cardinality() const;  // elements of an epoch, `infinite` or `unknown`
  DatasetStats stats() const;
  const std::shared_ptr<const Node>& node() const { return node_; }

 private:
  Dataset map_elements(Map f, const MapOptions& options) const;
  Dataset filter_elements(Predicate f) const;

  std::shared_ptr<const Node> node_;
  std::shared_ptr<Shared> shared_;  // the count of epochs and the statistics; copies have them in common
};

// Elements of all at once, side by side; ends with the shortest.
TW_API Dataset zip(const std::vector<Dataset>& datasets);

// For range-based loops.
class DatasetIterator {
 public:
  using value_type = Element;
  using difference_type = std::ptrdiff_t;
  using iterator_category = std::input_iterator_tag;
  explicit DatasetIterator(Iterator iterator)
      : iterator_(std::make_shared<Iterator>(std::move(iterator))), element_(iterator_->next()) {}
  const Element& operator*() const { return *element_; }
  const Element* operator->() const { return &*element_; }
  DatasetIterator& operator++() {
    element_.reset();  // its memory is free for the next one
    element_ = iterator_->next();
    return *this;
  }
  void operator++(int) { ++*this; }
  friend bool operator==(const DatasetIterator& it, std::default_sentinel_t) { return !it.element_; }

 private:
  std::shared_ptr<Iterator> iterator_;
  std::optional<Element> element_;
};

namespace detail {

[[noreturn]] TW_API void throw_wrong_parts(const char* stage, std::size_t expected, std::size_t found);

template <class F, std::size_t... i>
auto call_with_parts(F& f, const char* stage, const Element& e, std::index_sequence<i...>) {
  if (e.size() != sizeof...(i)) throw_wrong_parts(stage, sizeof...(i), e.size());
  return f(e[i]...);
}

// Whether F takes n tensors. What a compiled function takes is what its callable takes.
template <class F, class... Parts>
struct Takes : std::is_invocable<F&, Parts...> {};
template <class F, class... Parts>
struct Takes<Function<F>, Parts...> : std::is_invocable<F&, Parts...> {};

template <class F>
constexpr int parts_taken() {
  if constexpr (Takes<F, Tensor>::value)
    return 1;
  else if constexpr (Takes<F, Tensor, Tensor>::value)
    return 2;
  else if constexpr (Takes<F, Tensor, Tensor, Tensor>::value)
    return 3;
  else if constexpr (Takes<F, Tensor, Tensor, Tensor, Tensor>::value)
    return 4;
  else
    return 0;
}

// A callable over an element, from one over an element or over its parts.
template <class F>
auto over_element(const char* stage, F f) {
  if constexpr (Takes<F, const Element&>::value) {
    return f;
  } else {
    static_assert(parts_taken<F>() > 0, "expected a callable over an Element, or over one to four tensors");
    return [f = std::move(f), stage](const Element& e) mutable {
      return call_with_parts(f, stage, e, std::make_index_sequence<parts_taken<F>()>());
    };
  }
}

}  // namespace detail

template <class F>
Dataset Dataset::map(F f, const MapOptions& options) const {
  return map_elements(
      [call = detail::over_element("map", std::move(f))](const Element& e) mutable -> Element { return call(e); },
      options);
}

template <class F>
Dataset Dataset::filter(F predicate) const {
  return filter_elements(
      [call = detail::over_element("filter", std::move(predicate))](const Element& e) mutable -> bool {
        if constexpr (std::is_convertible_v<decltype(call(e)), bool>)
          return call(e);
        else
          return Tensor(call(e)).template item<bool>();
      });
}

}  // namespace thalweg::data
