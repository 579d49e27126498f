// One program over many sets of operands, as an optimizer updates its variables: the code is looked up once, and what
// is too small for a task of its own shares one.
#include <algorithm>

#include "thalweg/backend/cpu/bound_code.h"
#include "thalweg/core/thread_pool.h"

namespace thalweg {
namespace {

constexpr std::int64_t task_size = 32 * 1024;  // elements
constexpr std::int64_t vector_elements = 16;   // sets begin at whole vectors of the task list

class OnEach {
 public:
  OnEach(const Program& program, Arrays in, Arrays out, std::int64_t sets)
      : in_(in),
        out_(out),
        inputs_(in.size() / static_cast<std::size_t>(sets)),
        outputs_(out.size() / static_cast<std::size_t>(sets)),
        sets_(static_cast<std::size_t>(sets)) {
    for (std::size_t set = 0; set < sets_; ++set) total_ += padded(set);
    if (inputs_ + outputs_ > static_cast<std::size_t>(max_operands)) return;
    jit::Binding binding{f32, {}, {}};
    bool has_forms = true;
    // Any set tells an input of a single element from one as long as the outputs, but those of one element.
    const std::size_t largest = largest_set();
    for (const auto& array : in_of(largest)) {
      const bool scalar = array.size() == 1 && size(largest) > 1;
      binding.inputs.push_back({array.dtype(), scalar});
      has_forms &= scalar ? array.dtype() == f32 : jit::has_form(array.dtype(), f32);
    }
    for (const auto& array : out_of(largest)) {
      binding.outputs.push_back(array.dtype());
      has_forms &= jit::has_form(array.dtype(), f32);
    }
    if (has_forms) code_ = BoundCode(program, std::move(binding), total_);
  }

  bool possible() const { return code_.possible(); }

  void run() const {
    if (total_ <= task_size) return run(0, total_);
    parallel_ranges(total_, task_size, [&](std::int64_t begin, std::int64_t end) { run(begin, end); });
  }

 private:
  Arrays in_of(std::size_t set) const { return in_.subspan(set * inputs_, inputs_); }
  Arrays out_of(std::size_t set) const { return out_.subspan(set * outputs_, outputs_); }
  std::int64_t size(std::size_t set) const { return out_[set * outputs_].size(); }
  std::int64_t padded(std::size_t set) const {
    return (size(set) + vector_elements - 1) / vector_elements * vector_elements;
  }
  std::size_t largest_set() const {
    std::size_t largest = 0;
    for (std::size_t set = 1; set < sets_; ++set)
      if (size(set) > size(largest)) largest = set;
    return largest;
  }

  // [begin, end) of all sets behind each other.
  void run(std::int64_t begin, std::int64_t end) const {
    std::int64_t first = 0;  // of the set
    for (std::size_t set = 0; set < sets_ && first < end; first += padded(set), ++set) {
      const std::int64_t from = std::max<std::int64_t>(begin - first, 0), to = std::min(end - first, size(set));
      if (from < to) run_part(set, from, to);
    }
  }

  void run_part(std::size_t set, std::int64_t from, std::int64_t to) const {
    const void* pointers[max_operands];
    std::size_t place = 0;
    for (const auto& array : in_of(set))
      pointers[place++] = array.as<std::byte>() + (array.size() == 1 ? 0 : from * size_of(array.dtype()));
    for (const auto& array : out_of(set)) pointers[place++] = array.as<std::byte>() + from * size_of(array.dtype());
    code_.run(pointers, to - from);
  }

  Arrays in_, out_;
  std::size_t inputs_, outputs_, sets_;
  std::int64_t total_ = 0;  // elements of all sets, each padded to whole vectors
  BoundCode code_;
};

}  // namespace

void run_program_on_each(const Program& program, Arrays in, Arrays out, std::int64_t sets) {
  if (jit::mode() != jit::Mode::interpreted) {
    const OnEach all(program, in, out, sets);
    if (all.possible()) return all.run();
  }
  const std::size_t inputs = in.size() / static_cast<std::size_t>(sets);
  const std::size_t outputs = out.size() / static_cast<std::size_t>(sets);
  for (std::size_t set = 0; set < static_cast<std::size_t>(sets); ++set)
    run_program(program, in.subspan(set * inputs, inputs), out.subspan(set * outputs, outputs));
}

}  // namespace thalweg
