#include "thalweg/data/node.h"

#include <algorithm>
#include <cstring>

#include "thalweg/core/check.h"

namespace thalweg::data {
namespace {

// FNV-1a: the same for the same text in every process.
std::uint64_t mixed(std::uint64_t hash, std::string_view text) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return (hash ^ 0xff) * 0x100000001b3ULL;
}

std::uint64_t fingerprint_of(const std::string& name, const std::string& settings, const std::vector<NodePtr>& inputs) {
  std::uint64_t hash = mixed(mixed(0xcbf29ce484222325ULL, name), settings);
  for (const auto& input : inputs) hash = mixed(hash, std::to_string(input->fingerprint()));
  return hash;
}

std::int64_t row_bytes(const Tensor& batch) { return batch.bytes() / batch.shape()[0]; }

}  // namespace

Node::Node(std::string name, const std::string& settings, std::vector<NodePtr> inputs)
    : name_(std::move(name)), inputs_(std::move(inputs)), fingerprint_(fingerprint_of(name_, settings, inputs_)) {}

void Cursor::seek(std::int64_t) { TW_CHECK_INTERNAL(false, "data", "this stage cannot be reached by number"); }

bool Cursor::skip_one() {
  Job job;
  job.dropped = true;
  return pull(job);
}

std::optional<Element> Cursor::next() {
  Job job;
  if (!pull(job)) return {};
  JobReader reader(job);
  return run(reader);
}

void replay(Cursor& cursor, std::int64_t count) {
  for (; count > 0; --count) {
    try {
      if (!cursor.skip_one()) return;
    } catch (const std::exception&) {
      continue;
    }
  }
}

Element Rows::gather(std::span<const std::int64_t> indices) const {
  BatchBuilder batch(static_cast<std::int64_t>(indices.size()));
  for (const auto index : indices) batch.add(at(index));
  return batch.take();
}

int stages_until(const Node& node, std::string_view name) {
  int count = node.name() == name;
  for (const auto& input : node.inputs()) count += stages_until(*input, name);
  return count;
}

int sources_of(const Node& node) {
  int count = node.inputs().empty();
  for (const auto& input : node.inputs()) count += sources_of(*input);
  return count;
}

std::int64_t smaller_cardinality(std::int64_t a, std::int64_t b) {
  if (a == infinite) return b;
  if (b == infinite) return a;
  return a == unknown || b == unknown ? unknown : std::min(a, b);
}

Element allocate_batch(const Element& first, std::int64_t rows) {
  static const memory::Owner owner = memory::owner("batch");
  Element batch;
  for (const auto& part : first)
    batch.push_back(allocate_tensor({part.dtype(), part.shape().inserted(0, rows)}, owner));
  return batch;
}

void BatchBuilder::begin(const Element& first) {
  for (const auto& part : first)
    TW_CHECK_USER(part.rank() < max_rank, "batch", "elements of a batch have at most 7 axes",
                  "a part of shape {} has no room for a batch axis", part.shape());
  batch_ = allocate_batch(first, rows_);
}

void BatchBuilder::add(const Element& element) {
  if (filled_ == 0) begin(element);
  TW_CHECK_USER(element.size() == batch_.size(), "batch", "give every element the same parts",
                "element {} of the batch has {} parts, the first has {}", filled_, element.size(), batch_.size());
  for (std::size_t i = 0; i < element.size(); ++i) {
    const Tensor& part = element[i];
    const Tensor& rows = batch_[i];
    TW_CHECK_USER(part.dtype() == rows.dtype() && std::equal(part.shape().begin(), part.shape().end(),
                                                             rows.shape().begin() + 1, rows.shape().end()),
                  "batch", "use padded_batch for parts of different lengths, or bring them to one shape with map",
                  "part {} of element {} of the batch is {} {}, that of the first is {} {}", i, filled_, part.dtype(),
                  part.shape(), rows.dtype(), rows.shape().suffix(1));
    const std::int64_t bytes = row_bytes(rows);
    std::memcpy(static_cast<char*>(mutable_data(rows)) + filled_ * bytes, part.impl().data,
                static_cast<std::size_t>(bytes));
  }
  ++filled_;
}

}  // namespace thalweg::data
