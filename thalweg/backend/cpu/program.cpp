// Elementwise programs on the CPU: by code made for the program where there is any, else by an interpreter. There the
// output is walked in chunks of 256 elements that stay in the first-level cache; each instruction is one call of a row
// kernel on a chunk.
#include "thalweg/ops/program.h"

#include <algorithm>
#include <atomic>

#include "thalweg/backend/cpu/generated_execution.h"
#include "thalweg/backend/cpu/row_kernels.h"
#include "thalweg/core/scalar.h"
#include "thalweg/core/thread_pool.h"

namespace thalweg {
namespace {

constexpr std::int64_t chunk = 256;  // elements; 128 to 256 measured best
// Elements from which on sources are prefetched. Adam over 2^20 floats, one thread of a Zen 4: 1.66 ns an element
// without, 1.12 ns with it; what lies in the caches loses 4 % by it.
constexpr std::int64_t prefetch_size = 512 * 1024;

template <class T>
RowKernel<T> kernel_of(Row row) {
  if constexpr (std::is_same_v<T, float>)
    return row_kernel_f32(row);
  else if constexpr (std::is_same_v<T, double>)
    return row_kernel_f64(row);
  else
    return integer_row_kernel<T>(row);
}

// A program bound to arrays of one compute type.
template <class T>
class Execution {
 public:
  // out: what may stand in the memory of an input.
  Execution(const Program& program, Arrays in, const Shape& shape, Arrays out)
      : program_(program), out_(out), large_(shape.size() >= prefetch_size) {
    const int operands = program.first_result() + static_cast<int>(program.instructions.size());
    TW_CHECK_INTERNAL(operands <= max_operands, "program", "{} operands are more than {}", operands, max_operands);
    for (const auto& array : in) {
      Source<T> source(array, shape);
      source.direct &= !is_overwritten(static_cast<int>(sources_.size()), array.data);
      sources_.push_back(source);
    }
    for (const auto& instruction : program.instructions) {
      kernels_.push_back(kernel_of<T>(instruction.row));
      TW_CHECK_INTERNAL(kernels_.back() != nullptr, row_info(instruction.row).name, "no kernel for {}", dtype_of<T>());
    }
  }

  // Elements [begin, end) of the results, where element `origin` is the first of `out`.
  void run(std::int64_t begin, std::int64_t end, Arrays out, std::int64_t origin) const {
    const int operands = program_.first_result() + static_cast<int>(program_.instructions.size());
    alignas(64) T buffers[max_operands][chunk];
    prepare(buffers, end - begin);
    const T* pointers[max_operands];
    for (int i = 0; i < operands; ++i) pointers[i] = buffers[i];
    for (std::int64_t start = begin; start < end; start += chunk)
      run_chunk(buffers, pointers, start, std::min(chunk, end - start), {out, start - origin});
  }

 private:
  struct Targets {
    Arrays out;
    std::int64_t start;  // of the chunk in them
  };

  // Constants and scalars are spread over their buffers once.
  void prepare(T (*buffers)[chunk], std::int64_t n) const {
    const std::int64_t width = std::min(chunk, padded(n));
    for (std::size_t i = 0; i < sources_.size(); ++i)
      if (sources_[i].walk.scalar) sources_[i].load(buffers[i], 0, width);
    for (std::size_t i = 0; i < program_.constants.size(); ++i)
      std::fill_n(buffers[sources_.size() + i], width, element_of<T>(program_.constants[i]));
  }

  void run_chunk(T (*buffers)[chunk], const T** pointers, std::int64_t start, std::int64_t n, Targets targets) const {
    const std::int64_t width = padded(n);
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      const auto& source = sources_[i];
      if (source.walk.scalar) continue;
      if (source.direct && width == n) {
        pointers[i] = source.array.template as<const T>() + start;
        if (large_) prefetch(pointers[i] + chunk);
        continue;
      }
      source.load(buffers[i], start, n);
      std::fill(buffers[i] + n, buffers[i] + width, T(1));  // a harmless value for the lanes beyond the end
      pointers[i] = buffers[i];
    }
    const auto first = static_cast<std::size_t>(program_.first_result());
    for (std::size_t i = 0; i < kernels_.size(); ++i) {
      const auto& operands = program_.instructions[i].operands;
      const auto at = [&](int k) { return operands[k] < 0 ? nullptr : pointers[operands[k]]; };
      T* target = width == n ? target_of(i, targets) : nullptr;
      pointers[first + i] = target ? target : buffers[first + i];
      kernels_[i](at(0), at(1), at(2), target ? target : buffers[first + i], static_cast<std::size_t>(width));
    }
    for (std::size_t i = 0; i < targets.out.size(); ++i) {
      const T* value = pointers[program_.outputs[i]];
      if (value != targets.out[i].template as<T>() + targets.start) store(targets.out[i], targets.start, value, n);
    }
  }

  // Asks for the next chunk of a source while this one is computed: instructions come to the sources in bursts, which
  // the processor does not foresee.
  static void prefetch(const T* next) {
    for (std::int64_t i = 0; i < chunk; i += 64 / static_cast<std::int64_t>(sizeof(T))) __builtin_prefetch(next + i);
  }

  // An output may take the memory of an input. Whether that is still read once the output stands there: then it goes
  // through a buffer.
  bool is_overwritten(int input, const void* data) const {
    const auto& instructions = program_.instructions;
    for (std::size_t k = 0; k < out_.size(); ++k) {
      if (out_[k].data != data) continue;
      const int maker = program_.outputs[k] - program_.first_result();
      if (maker < 0) return true;
      for (auto later = instructions.begin() + maker + 1; later != instructions.end(); ++later)
        if (std::find(later->operands, later->operands + 3, input) != later->operands + 3) return true;
      if (std::find(program_.outputs.begin(), program_.outputs.end(), input) != program_.outputs.end()) return true;
    }
    return false;
  }

  // Where instruction i writes a whole chunk: straight into the output when it is one of this type.
  T* target_of(std::size_t i, const Targets& targets) const {
    const int number = program_.first_result() + static_cast<int>(i);
    for (std::size_t k = 0; k < targets.out.size(); ++k)
      if (program_.outputs[k] == number && targets.out[k].dtype() == dtype_of<T>())
        return targets.out[k].template as<T>() + targets.start;
    return nullptr;
  }

  static std::int64_t padded(std::int64_t n) {
    constexpr auto width = static_cast<std::int64_t>(lanes<T>);
    return (n + width - 1) / width * width;
  }

  const Program& program_;
  SmallVector<Source<T>, 3> sources_;
  SmallVector<RowKernel<T>, 4> kernels_;
  Arrays out_;
  bool large_;  // worth a prefetch
};

// A single row is a loop already: its own code pays where the operands come from memory. A longer program saves a
// call and a pass over the first-level cache with each instruction but one; to find its code takes some 50 ns.
constexpr std::int64_t single_row_size = 16 * 1024, saved_size = 256;

bool pays(const Program& program, std::int64_t n) {
  return n * (static_cast<std::int64_t>(program.instructions.size()) - 1) >= saved_size || n >= single_row_size;
}

std::atomic<jit::Mode> current_mode = jit::Mode::automatic;

// Calls f with what runs the program over arrays of this shape.
template <class T, class F>
void with_execution(const Program& program, Arrays in, const Shape& shape, Arrays out, F&& f) {
  if constexpr (std::is_floating_point_v<T>) {
    const jit::Mode mode = jit::mode();
    if (mode == jit::Mode::generated || (mode == jit::Mode::automatic && pays(program, shape.size()))) {
      const GeneratedExecution<T> generated(program, in, shape, out);
      if (generated.possible()) return f(generated);
    }
  }
  f(Execution<T>(program, in, shape, out));
}

// Elements of a task. Where there are few in all, tasks are small, so that no thread waits long for the last one.
std::int64_t task_size(const Program& program, std::int64_t n) {
  constexpr std::int64_t few = 512 * 1024, small = 8 * 1024, large = 32 * 1024;
  const bool light = std::ranges::all_of(program.instructions, [](const Instruction& i) { return is_light(i.row); });
  if (n <= (light ? large : 2 * small)) return n;  // nothing goes to the pool
  return n <= few ? small : large;
}

template <class T>
void execute(const Program& program, Arrays in, Arrays out) {
  const std::int64_t n = out[0].size(), task = task_size(program, n);
  with_execution<T>(program, in, out[0].shape(), out, [&](const auto& execution) {
    if (task == n)
      execution.run(0, n, out, 0);
    else
      parallel_ranges(n, task, [&](std::int64_t begin, std::int64_t end) { execution.run(begin, end, out, 0); });
  });
}

template <class T>
void read_from(const Program& program, Arrays in, const Spec& result, FunctionRef<void(ReadElements)> f) {
  const Array parts{nullptr, &result};  // stands for outputs in memory of their own
  with_execution<T>(program, in, result.shape, {&parts, 1}, [&](const auto& execution) {
    f([&](std::int64_t first, std::int64_t count, void* to) {
      const Spec part{dtype_of<T>(), {count}};
      const Array out{to, &part};
      execution.run(first, first + count, {&out, 1}, first);
    });
  });
}

// The type that computes: the widest float among operands and results, else the integer, else u8 for booleans.
DType compute_type(Arrays in, Arrays out) {
  DType type = DType::boolean;
  for (const Arrays arrays : {in, out})
    for (const auto& array : arrays) {
      const DType dtype = array.dtype() == f16 || array.dtype() == bf16 ? f32 : array.dtype();
      if (type == DType::boolean || dtype == f64 || (is_float(dtype) && !is_float(type))) type = dtype;
    }
  return type;
}

}  // namespace

void run_program(const Program& program, Arrays in, Arrays out) {
  switch (compute_type(in, out)) {
    case DType::f32: return execute<float>(program, in, out);
    case DType::f64: return execute<double>(program, in, out);
    case DType::i32: return execute<std::int32_t>(program, in, out);
    case DType::i64: return execute<std::int64_t>(program, in, out);
    default: return execute<std::uint8_t>(program, in, out);
  }
}

void with_program(const Program& program, Arrays in, const Spec& result, FunctionRef<void(ReadElements)> f) {
  if (result.dtype == f64)
    read_from<double>(program, in, result, f);
  else
    read_from<float>(program, in, result, f);
}

}  // namespace thalweg

namespace thalweg::jit {

Mode mode() { return current_mode.load(std::memory_order_relaxed); }
void set_mode(Mode mode) { current_mode = mode; }

}  // namespace thalweg::jit
