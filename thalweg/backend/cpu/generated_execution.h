#pragma once

// A program bound to arrays, run by the code made for it: as many elements at a time as lie one behind the other in
// every operand.
#include "thalweg/backend/cpu/generated.h"
#include "thalweg/backend/cpu/program_operands.h"

namespace thalweg {

template <class T>
class GeneratedExecution {
 public:
  GeneratedExecution(const Program& program, Arrays in, const Shape& shape, Arrays out) {
    jit::Binding binding{dtype_of<T>(), {}, {}};
    if (in.size() + out.size() > static_cast<std::size_t>(max_operands)) return;
    for (const auto& array : in) {
      operands_.emplace_back(array, shape);
      const Operand& operand = operands_.back();
      binding.inputs.push_back(
          {operand.way == Way::buffer || operand.is_scalar() ? dtype_of<T>() : array.dtype(), operand.is_scalar()});
      if (!jit::has_form(array.dtype(), dtype_of<T>())) return;
    }
    for (const auto& array : out) {
      binding.outputs.push_back(array.dtype());
      if (!jit::has_form(array.dtype(), dtype_of<T>())) return;
    }
    code_ = jit::find_code(program, binding, shape.size());
  }

  bool possible() const { return code_ != nullptr; }

  // Elements [begin, end) of the results, where element `origin` is the first of `out`.
  void run(std::int64_t begin, std::int64_t end, Arrays out, std::int64_t origin) const {
    alignas(64) T buffers[max_operands][chunk];
    const void* pointers[max_operands];
    for (std::int64_t start = begin; start < end;) {
      std::int64_t n = end - start;
      for (const Operand& operand : operands_) n = std::min(n, operand.run_length(start));
      for (std::size_t i = 0; i < operands_.size(); ++i)
        pointers[i] = operands_[i].at(start, n, buffers[i], start == begin);
      for (std::size_t i = 0; i < out.size(); ++i)
        pointers[operands_.size() + i] = out[i].template as<std::byte>() + (start - origin) * size_of(out[i].dtype());
      run_part(pointers, n, out);
      start += n;
    }
  }

 private:
  static constexpr std::int64_t chunk = 256;
  // Shorter runs go through a buffer.
  static constexpr std::int64_t shortest_run = 512, shortest_repetition = 128;

  enum class Way {
    whole,       // element by element in the order of the result
    scalar,      // one element
    run,         // pieces of the operand
    repetition,  // one element for a piece of the result
    buffer       // copied chunk by chunk
  };

  struct Operand {
    Source<T> source;
    Way way;

    Operand(const Array& array, const Shape& shape) : source(array, shape), way(way_of(source.walk)) {}

    static Way way_of(const BroadcastWalk& walk) {
      if (walk.whole) return Way::whole;
      if (walk.scalar) return Way::scalar;
      if (walk.strides[0] == 1 && walk.sizes[0] >= shortest_run) return Way::run;
      if (walk.strides[0] == 0 && walk.sizes[0] >= shortest_repetition) return Way::repetition;
      return Way::buffer;
    }

    bool is_scalar() const { return way == Way::scalar || way == Way::repetition; }

    // How many elements from there on are read the same way.
    std::int64_t run_length(std::int64_t start) const {
      if (way == Way::buffer) return chunk;
      if (way == Way::whole || way == Way::scalar) return std::numeric_limits<std::int64_t>::max();
      return source.walk.sizes[0] - start % source.walk.sizes[0];
    }

    // Where the code finds n elements from `start`; `buffer` keeps its content from one call of a run to the next.
    const void* at(std::int64_t start, std::int64_t n, T* buffer, bool first) const {
      switch (way) {
        case Way::whole: return element(start);
        case Way::run: {
          std::int64_t position[max_rank];
          return element(source.offset(start, position));
        }
        case Way::scalar:
          if (first) source.load(buffer, 0, 1);
          return buffer;
        case Way::repetition: source.load(buffer, start, 1); return buffer;
        case Way::buffer: break;
      }
      source.load(buffer, start, n);
      return buffer;
    }

    const void* element(std::int64_t number) const {
      return source.array.template as<const std::byte>() + number * size_of(source.array.dtype());
    }
  };

  // The code computes whole vectors; what is left goes through buffers of one vector.
  void run_part(const void** pointers, std::int64_t n, Arrays out) const {
    const std::int64_t whole = n - n % code_->lanes;
    if (whole > 0) code_->run(pointers, whole);
    if (whole < n) run_rest(pointers, whole, n - whole, out);
  }

  void run_rest(const void** pointers, std::int64_t done, std::int64_t n, Arrays out) const {
    constexpr std::size_t vector_bytes = 64;
    alignas(vector_bytes) std::byte rest[max_operands][vector_bytes];
    void* results[max_operands];
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      if (operands_[i].is_scalar()) continue;
      const std::int64_t bytes = operands_[i].way == Way::buffer ? static_cast<std::int64_t>(sizeof(T))
                                                                 : size_of(operands_[i].source.array.dtype());
      std::memset(rest[i], 0, vector_bytes);
      std::memcpy(rest[i], static_cast<const std::byte*>(pointers[i]) + done * bytes,
                  static_cast<std::size_t>(n * bytes));
      pointers[i] = rest[i];
    }
    for (std::size_t i = 0; i < out.size(); ++i) {
      const std::size_t at = operands_.size() + i;
      results[i] = static_cast<std::byte*>(const_cast<void*>(pointers[at])) + done * size_of(out[i].dtype());
      pointers[at] = rest[at];
    }
    code_->run(pointers, code_->lanes);
    for (std::size_t i = 0; i < out.size(); ++i)
      std::memcpy(results[i], rest[operands_.size() + i], static_cast<std::size_t>(n * size_of(out[i].dtype())));
  }

  SmallVector<Operand, 3> operands_;
  std::shared_ptr<const jit::Code> code_;
};

}  // namespace thalweg
