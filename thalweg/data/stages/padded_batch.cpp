#include <cstring>

#include "thalweg/core/check.h"
#include "thalweg/core/scalar.h"
#include "thalweg/data/stages/group.h"

namespace thalweg::data {
namespace {

constexpr auto op = "padded_batch";

// Copies x into the corner of the block of that shape, axis by axis; both are dense.
void copy_corner(const char* from, const Shape& x, char* to, const Shape& block, int axis, std::int64_t item) {
  if (axis == x.rank()) {
    std::memcpy(to, from, static_cast<std::size_t>(item));
    return;
  }
  const std::int64_t from_stride = x.product(axis + 1, x.rank()) * item;
  const std::int64_t to_stride = block.product(axis + 1, block.rank()) * item;
  if (from_stride == to_stride && x.suffix(axis + 1) == block.suffix(axis + 1)) {
    std::memcpy(to, from, static_cast<std::size_t>(x[axis] * from_stride));
    return;
  }
  for (std::int64_t i = 0; i < x[axis]; ++i)
    copy_corner(from + i * from_stride, x, to + i * to_stride, block, axis + 1, item);
}

class PaddedBatchCursor final : public GroupCursor {
 public:
  PaddedBatchCursor(CursorPtr input, std::int64_t size, const PaddedBatchOptions& options, StageCounters& counters)
      : GroupCursor(std::move(input), size, options.drop_remainder, counters), options_(options) {}

  Element run(JobReader& job) const override {
    std::vector<Element> elements;
    for (std::int64_t left = job.number(); left > 0; --left) elements.push_back(input_->run(job));
    Element batch;
    for (std::size_t part = 0; part < elements[0].size(); ++part) batch.push_back(padded(elements, part));
    return batch;
  }

 private:
  Tensor padded(const std::vector<Element>& elements, std::size_t part) const {
    static const memory::Owner owner = memory::owner(op);
    const Shape block = block_of(elements, part);
    const DType dtype = elements[0][part].dtype();
    Tensor batch = allocate_tensor({dtype, block.inserted(0, static_cast<std::int64_t>(elements.size()))}, owner);
    auto* to = static_cast<char*>(mutable_data(batch));
    fill(to, batch.size(), dtype, part);
    for (const auto& element : elements) {
      copy_corner(static_cast<const char*>(element[part].impl().data), element[part].shape(), to, block, 0,
                  size_of(dtype));
      to += block.size() * size_of(dtype);
    }
    return batch;
  }

  void fill(char* to, std::int64_t count, DType dtype, std::size_t part) const {
    const Number value = part < options_.values.size() ? options_.values[part] : Number(0);
    require_whole(op, value, dtype);
    const ScalarBytes bytes(value, dtype);
    const auto item = static_cast<std::size_t>(size_of(dtype));
    for (std::int64_t i = 0; i < count; ++i) std::memcpy(to + static_cast<std::size_t>(i) * item, bytes.data(), item);
  }

  // The shape that all parts are brought to: the given one, with the largest size where it says -1.
  Shape block_of(const std::vector<Element>& elements, std::size_t part) const {
    const Tensor& first = elements[0][part];
    TW_CHECK_USER(first.rank() < max_rank, op, "elements of a batch have at most 7 axes",
                  "a part of shape {} has no room for a batch axis", first.shape());
    const Ints given = part < options_.shapes.size() ? options_.shapes[part] : Ints(first.rank(), -1);
    Ints block = given;
    for (std::size_t i = 0; i < elements.size(); ++i) {
      TW_CHECK_USER(elements[i].size() == elements[0].size() && elements[i][part].dtype() == first.dtype() &&
                        elements[i][part].rank() == given.size(),
                    op, "elements of a batch need the same parts, dtypes and number of axes",
                    "part {} of element {} of the batch does not fit: expected {} with {} axes", part, i, first.dtype(),
                    given.size());
      const Shape& shape = elements[i][part].shape();
      for (int axis = 0; axis < given.size(); ++axis) {
        TW_CHECK_USER(given[axis] < 0 || shape[axis] <= given[axis], op, "raise the size in .shapes, or cut with map",
                      "part {} of element {} of the batch is {}, which is larger than {}", part, i, shape, given);
        block[axis] = std::max(block[axis], shape[axis]);
      }
    }
    return Shape(block);
  }

  const PaddedBatchOptions& options_;
};

std::string settings_of(const PaddedBatchOptions& options) {
  std::string text;
  for (const auto& shape : options.shapes) text += to_string(shape);
  for (const auto& value : options.values) text += fmt::format(" {}", value.real);
  return text;
}

class PaddedBatchNode final : public GroupNode {
 public:
  PaddedBatchNode(NodePtr input, std::int64_t size, const PaddedBatchOptions& options)
      : GroupNode(op, settings_of(options), std::move(input), size, options.drop_remainder), options_(options) {}
  CursorPtr open(Counters& counters) const override {
    return std::make_unique<PaddedBatchCursor>(input().open(counters), size_, options_, counters.of(*this));
  }

 private:
  PaddedBatchOptions options_;
};

}  // namespace

Dataset Dataset::padded_batch(std::int64_t size, const PaddedBatchOptions& options) const {
  check_batch_size(op, size);
  for (const auto& shape : options.shapes)
    TW_CHECK_USER(shape.size() < max_rank, op, "elements of a batch have at most 7 axes", "{} has too many axes",
                  shape);
  return Dataset(std::make_shared<PaddedBatchNode>(node_, size, options));
}

}  // namespace thalweg::data
