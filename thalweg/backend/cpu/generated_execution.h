#pragma once

// A program bound to arrays, run by the code made for it: as many elements at a time as lie one behind the other in
// every operand.
#include <limits>

#include "thalweg/backend/cpu/bound_code.h"
#include "thalweg/backend/cpu/program_operands.h"

namespace thalweg {

// How code comes to the elements of an input that is broadcast to the result's shape.
template <class T>
class GeneratedOperand {
 public:
  static constexpr std::int64_t buffer_size = 256;  // elements
  // Of a few elements that come again and again. A call of the code costs as much as some 300 elements of a short
  // program: bias and relu of [1000, 10] take 0.7 us, with a buffer of 256 elements 1.3.
  static constexpr std::int64_t period_buffer_size = 2048;

  GeneratedOperand(const Array& array, const Shape& shape)
      : source_(array, shape), way_(way_of(source_.walk)), size_(shape.size()) {}

  jit::InputForm form() const { return {is_copied() ? dtype_of<T>() : source_.array.dtype(), is_scalar()}; }
  bool is_scalar() const { return way_ == Way::scalar || way_ == Way::repetition; }
  const void* data() const { return source_.array.data; }

  // How many elements from there on lie one behind the other.
  std::int64_t run_length(std::int64_t start) const {
    switch (way_) {
      case Way::buffer: return buffer_size;
      case Way::period: return (buffer_elements_ - start % period()) / 16 * 16;  // whole vectors of any type
      case Way::run:
      case Way::repetition: return period() - start % period();
      default: return std::numeric_limits<std::int64_t>::max();
    }
  }
  // Every run is a number of whole vectors if the first element is at the beginning of one.
  bool keeps_vectors_whole() const {
    const bool in_pieces = way_ == Way::run || way_ == Way::repetition;
    return !in_pieces || period() % 16 == 0;
  }

  // How many elements of memory it wants, of so many that are free; `at` gets them.
  std::int64_t take_buffer(std::int64_t free) {
    if (way_ == Way::period) buffer_elements_ = std::min(period_buffer_size, free);
    return is_copied() ? buffer_elements_ : 0;
  }

  // Where n elements from `start` are. The buffer keeps its content from the first call on, which is to say that and
  // for how many elements it will be called.
  const void* at(std::int64_t start, std::int64_t n, T* buffer, std::int64_t first_of) const {
    switch (way_) {
      case Way::whole: return element(start);
      case Way::run: {
        std::int64_t position[max_rank];
        return element(source_.offset(start, position));
      }
      case Way::scalar:
        if (first_of > 0) source_.load(buffer, 0, 1);
        return buffer;
      case Way::repetition: source_.load(buffer, start, 1); return buffer;
      case Way::period:
        if (first_of > 0) repeat(buffer, std::min({buffer_elements_, first_of + period(), size_}));
        return buffer + start % period();
      case Way::buffer: break;
    }
    source_.load(buffer, start, n);
    return buffer;
  }

 private:
  // Runs that are worth a call of the code for each; shorter ones go through the buffer.
  static constexpr std::int64_t shortest_run = 128, shortest_repetition = 128;
  static constexpr std::int64_t longest_period = period_buffer_size / 4;

  enum class Way {
    whole,       // element by element in the order of the result
    scalar,      // one element
    run,         // pieces of the operand
    repetition,  // one element for a piece of the result
    period,      // the same few elements again and again: repeated in the buffer, once
    buffer       // copied as it comes
  };

  static Way way_of(const BroadcastWalk& walk) {
    if (walk.whole) return Way::whole;
    if (walk.scalar) return Way::scalar;
    if (walk.strides[0] == 0) return walk.sizes[0] >= shortest_repetition ? Way::repetition : Way::buffer;
    const bool repeats = walk.rank == 2 && walk.strides[1] == 0;
    if (repeats && walk.sizes[0] <= longest_period) return Way::period;
    return walk.sizes[0] >= shortest_run ? Way::run : Way::buffer;
  }

  std::int64_t period() const { return source_.walk.sizes[0]; }
  // n elements, the first period of them again and again.
  void repeat(T* to, std::int64_t n) const {
    source_.load(to, 0, std::min(period(), n));
    for (std::int64_t have = period(); have < n; have *= 2) std::copy_n(to, std::min(have, n - have), to + have);
  }
  bool is_copied() const { return way_ != Way::whole && way_ != Way::run; }
  const void* element(std::int64_t number) const {
    return source_.array.template as<const std::byte>() + number * size_of(source_.array.dtype());
  }

  Source<T> source_;
  Way way_;
  std::int64_t size_;  // of the result
  std::int64_t buffer_elements_ = buffer_size;
};

template <class T>
class GeneratedExecution {
 public:
  // out: where the results will be; one without data: in memory that is not known yet.
  GeneratedExecution(const Program& program, Arrays in, const Shape& shape, Arrays out) {
    if (in.size() + out.size() > static_cast<std::size_t>(max_operands)) return;
    jit::Binding binding{dtype_of<T>(), {}, {}};
    bool has_forms = true;
    for (const auto& array : in) {
      operands_.emplace_back(array, shape);
      binding.inputs.push_back(operands_.back().form());
      has_forms &= jit::has_input_form(array.dtype(), dtype_of<T>());
    }
    for (const auto& array : out) {
      binding.outputs.push_back(array.dtype());
      has_forms &= jit::has_form(array.dtype(), dtype_of<T>());
    }
    take_buffers();
    binding.streamed = can_stream(shape.size(), out);
    if (has_forms) code_ = BoundCode(program, std::move(binding), shape.size());
  }

  bool possible() const { return code_.possible(); }

  // Elements [begin, end) of the results, where element `origin` is the first of `out`.
  void run(std::int64_t begin, std::int64_t end, Arrays out, std::int64_t origin) const {
    alignas(64) T buffers[all_buffers];
    const void* pointers[max_operands];
    for (std::int64_t start = begin; start < end;) {
      std::int64_t n = end - start;
      for (const auto& operand : operands_) n = std::min(n, operand.run_length(start));
      for (std::size_t i = 0; i < operands_.size(); ++i)
        pointers[i] = operands_[i].at(start, n, buffers + buffer_of_[i], start == begin ? end - begin : 0);
      for (std::size_t i = 0; i < out.size(); ++i)
        pointers[operands_.size() + i] = out[i].template as<std::byte>() + (start - origin) * size_of(out[i].dtype());
      code_.run(pointers, n);
      start += n;
    }
  }

 private:
  static constexpr std::int64_t all_buffers = max_operands * GeneratedOperand<T>::buffer_size;  // elements

  void take_buffers() {
    std::int64_t taken = 0, left = static_cast<std::int64_t>(operands_.size());
    for (auto& operand : operands_) {  // none takes what the next ones need at the least
      buffer_of_.push_back(taken);
      taken += operand.take_buffer(all_buffers - taken - --left * GeneratedOperand<T>::buffer_size);
    }
  }

  // Results larger than the caches are written past them: sums of 10 million floats take 2.2 instead of 3.3 ms on two
  // cores of a Zen 4, as the memory is not read first. In place that would be a loss: it has been read.
  static constexpr std::int64_t streamed_bytes = 32 * 1024 * 1024;

  bool can_stream(std::int64_t size, Arrays out) const {
    for (const auto& array : out) {
      if (!array.data || size * size_of(array.dtype()) < streamed_bytes) return false;
      if (reinterpret_cast<std::uintptr_t>(array.data) % 64 != 0) return false;
      for (const auto& operand : operands_)
        if (operand.data() == array.data) return false;
    }
    return std::all_of(operands_.begin(), operands_.end(),
                       [](const auto& operand) { return operand.keeps_vectors_whole(); });
  }

  SmallVector<GeneratedOperand<T>, 8> operands_;
  SmallVector<std::int64_t, 8> buffer_of_;  // its first element
  BoundCode code_;
};

}  // namespace thalweg
