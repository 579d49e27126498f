#include "thalweg/data/stages/group.h"

#include <exception>

#include "thalweg/core/check.h"

namespace thalweg::data {

// An element that fails takes its batch with it, but not a part of the next one: the rest is drawn first.
bool GroupCursor::pull(Job& job) {
  const Job::Mark mark = job.mark();
  job.numbers.push_back(0);
  std::int64_t count = 0, drawn = 0;
  std::exception_ptr error;
  for (bool more = true; more && drawn < size_;) {
    try {
      more = input_->pull(job);
      count += more, drawn += more;
    } catch (...) {
      if (!error) error = std::current_exception();
      ++drawn;
    }
  }
  if (error || drawn == 0 || (whole_ && drawn < size_)) job.cut(mark);
  if (error) std::rethrow_exception(error);
  if (drawn == 0 || (whole_ && drawn < size_)) return false;
  job.numbers[mark.numbers] = count;
  counters_.count();
  return true;
}

GroupNode::GroupNode(const char* name, const std::string& settings, NodePtr input, std::int64_t size, bool whole)
    : Node(name, fmt::format("{} {} {}", size, whole, settings), {std::move(input)}), size_(size), whole_(whole) {}

std::int64_t GroupNode::cardinality() const {
  const std::int64_t all = input().cardinality();
  return all < 0 ? all : (whole_ ? all / size_ : all / size_ + (all % size_ > 0));
}

void check_batch_size(const char* op, std::int64_t size) {
  TW_CHECK_USER(size >= 1 && size <= 1 << 30, op, "pass the number of elements of a batch",
                "expected a size from 1 to 2^30, got {}", size);
}

}  // namespace thalweg::data
