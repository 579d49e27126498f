// Tensors in memory and ranges of numbers.
#include <cstring>
#include <numeric>

#include "thalweg/core/check.h"
#include "thalweg/core/tracer.h"
#include "thalweg/data/sources.h"
#include "thalweg/data/sources/rows.h"

namespace thalweg::data {
namespace {

void check_parts(const char* op, const Element& parts) {
  TW_CHECK_USER(!parts.empty(), op, "give at least one tensor", "expected one or more tensors, got none");
  for (std::size_t i = 0; i < parts.size(); ++i) {
    TW_CHECK_USER(parts[i].defined(), op, "give it a value first", "part {} is an undefined tensor", i);
    if (is_symbolic(parts[i])) throw_symbolic(op, parts[i]);
  }
}

std::string settings_of(const Element& parts) {
  std::string text;
  for (const auto& part : parts) text += fmt::format("{}{};", part.dtype(), part.shape());
  return text;
}

class Slices final : public Rows {
 public:
  explicit Slices(const Element& parts) : parts_(parts) {
    for (const auto& part : parts) {
      const Spec row{part.dtype(), part.shape().suffix(1)};
      rows_.push_back(row);
    }
  }
  std::int64_t size() const override { return parts_[0].shape()[0]; }
  Element at(std::int64_t index) const override {
    Element element;
    for (std::size_t i = 0; i < rows_.size(); ++i)
      element.push_back(view_of(parts_[i], rows_[i], index * rows_[i].bytes()));
    return element;
  }
  Element gather(std::span<const std::int64_t> indices) const override {
    static const memory::Owner owner = memory::owner("batch");
    Element batch;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const Shape shape = rows_[i].shape.inserted(0, static_cast<std::int64_t>(indices.size()));
      batch.push_back(allocate_tensor({rows_[i].dtype, shape}, owner));
      copy_rows(static_cast<const char*>(parts_[i].impl().data), indices, rows_[i].bytes(),
                static_cast<char*>(mutable_data(batch[i])));
    }
    return batch;
  }

 private:
  // Neighbours in one piece.
  static void copy_rows(const char* from, std::span<const std::int64_t> indices, std::int64_t bytes, char* to) {
    for (std::size_t i = 0; i < indices.size();) {
      std::size_t end = i + 1;
      while (end < indices.size() && indices[end] == indices[end - 1] + 1) ++end;
      const auto count = static_cast<std::size_t>(bytes) * (end - i);
      std::memcpy(to, from + indices[i] * bytes, count);
      to += count;
      i = end;
    }
  }

  Element parts_;
  std::vector<Spec> rows_;
};

class Same final : public Rows {
 public:
  explicit Same(const Element& parts) : parts_(parts) {}
  std::int64_t size() const override { return 1; }
  Element at(std::int64_t) const override { return parts_; }

 private:
  Element parts_;
};

class Numbers final : public Rows {
 public:
  Numbers(std::int64_t start, std::int64_t step, std::int64_t count) : start_(start), step_(step), count_(count) {}
  std::int64_t size() const override { return count_; }
  Element at(std::int64_t index) const override { return scalar(start_ + index * step_, DType::i64); }

 private:
  std::int64_t start_, step_, count_;
};

}  // namespace

Dataset from_tensor_slices(const Element& parts) {
  check_parts("from_tensor_slices", parts);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    TW_CHECK_USER(parts[i].rank() >= 1, "from_tensor_slices", "give a tensor with examples along its first axis",
                  "part {} is a scalar and has no rows", i);
    TW_CHECK_USER(parts[i].shape()[0] == parts[0].shape()[0], "from_tensor_slices",
                  "every part needs one row for each example", "part {} {} has {} rows, part 0 {} has {}", i,
                  parts[i].shape(), parts[i].shape()[0], parts[0].shape(), parts[0].shape()[0]);
  }
  return from_rows("slices", settings_of(parts), std::make_shared<Slices>(parts));
}

Dataset from_tensors(const Element& parts) {
  check_parts("from_tensors", parts);
  return from_rows("tensors", settings_of(parts), std::make_shared<Same>(parts));
}

Dataset range(std::int64_t stop) { return range(0, stop); }

Dataset range(std::int64_t start, std::int64_t stop, std::int64_t step) {
  TW_CHECK_USER(step != 0, "range", "a negative step counts down", "the step must not be 0");
  __extension__ using Wide = __int128;
  const Wide span = step > 0 ? Wide{stop} - start : Wide{start} - stop, stride = step > 0 ? Wide{step} : -Wide{step};
  const Wide count = span > 0 ? (span + stride - 1) / stride : 0;
  TW_CHECK_USER(count < Wide{1} << 62, "range", "use a shorter range", "the range has more than 2^62 numbers");
  const auto numbers = static_cast<std::int64_t>(count);
  return from_rows("range", fmt::format("{} {} {}", start, step, numbers),
                   std::make_shared<Numbers>(start, step, numbers));
}

}  // namespace thalweg::data
