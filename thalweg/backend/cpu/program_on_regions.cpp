// A program over regions of what another op makes, told of one by one: the code is looked up once for all of them.
#include <algorithm>
#include <cstring>

#include "thalweg/backend/cpu/bound_code.h"
#include "thalweg/ops/program.h"

namespace thalweg {
namespace {

class OnRegions {
 public:
  OnRegions(const Program& program, Arrays in, Arrays out, std::int64_t columns)
      : columns_(columns), size_(out[0].size()) {
    if (jit::mode() == jit::Mode::interpreted || in.size() + out.size() > static_cast<std::size_t>(max_operands))
      return;
    const bool has_f64 = std::any_of(in.begin(), in.end(), [](const Array& array) { return array.dtype() == f64; });
    jit::Binding binding{has_f64 ? f64 : f32, {}, {}};
    bool possible = true;
    for (const auto& array : in) {
      const bool scalar = array.size() == 1 && size_ > 1;
      binding.inputs.push_back({array.dtype(), scalar});
      possible &= add(array) && (!scalar || array.dtype() == binding.compute);
      possible &= jit::has_form(array.dtype(), binding.compute);
    }
    for (const auto& array : out) {
      binding.outputs.push_back(array.dtype());
      possible &= add(array) && jit::has_form(array.dtype(), binding.compute);
    }
    if (possible) code_ = BoundCode(program, std::move(binding), size_);
  }

  bool possible() const { return code_.possible(); }

  // Whole rows lie behind each other: several are one.
  void run(const Region& region) const {
    const std::int64_t end = region.row + region.rows, at_once = region.columns == columns_ ? rows_at_once_ : 1;
    const void* pointers[max_operands];
    for (std::int64_t row = region.row; row < end; row += at_once) {
      for (std::size_t i = 0; i < operands_.size(); ++i)
        pointers[i] = operands_[i].at + row * operands_[i].row_bytes + region.column * operands_[i].column_bytes;
      code_.run(pointers, std::min(at_once, end - row) * region.columns);
    }
  }

 private:
  struct Operand {
    const std::byte* at;
    std::int64_t row_bytes, column_bytes;  // from row to row and column to column; 0: the same for all
  };

  static constexpr std::size_t kRepeated = 8192;  // bytes of a row, again and again

  // False: its elements come in another order.
  bool add(const Array& array) {
    const std::int64_t bytes = size_of(array.dtype());
    if (const bool whole = array.size() == size_; whole || array.size() == 1) {
      operands_.push_back({array.as<const std::byte>(), whole ? columns_ * bytes : 0, whole ? bytes : 0});
      return true;
    }
    if (array.size() != columns_ || array.shape().last() != columns_) return false;
    operands_.push_back({repeated(array), 0, bytes});
    return true;
  }

  // A row that all rows read: copied until it serves several of them at once, if there is room for it.
  const std::byte* repeated(const Array& array) {
    const auto bytes = static_cast<std::size_t>(columns_ * size_of(array.dtype()));
    const std::size_t times = std::min(kRepeated / bytes, static_cast<std::size_t>(size_ / columns_));
    if (times < 2 || copied_ == std::size(copies_)) {
      rows_at_once_ = 1;
      return array.as<const std::byte>();
    }
    std::byte* copy = copies_[copied_++];
    std::memcpy(copy, array.data, bytes);
    for (std::size_t i = 1; i < times; i *= 2)  // twice as many each time: a few calls for many short rows
      std::memcpy(copy + i * bytes, copy, std::min(i, times - i) * bytes);
    rows_at_once_ = std::min(rows_at_once_, static_cast<std::int64_t>(times));
    return copy;
  }

  std::int64_t columns_, size_, rows_at_once_ = size_;
  SmallVector<Operand, 8> operands_;
  std::size_t copied_ = 0;
  alignas(64) std::byte copies_[2][kRepeated];
  BoundCode code_;
};

}  // namespace

bool with_program_on_regions(const Program& program, Arrays in, Arrays out, std::int64_t columns,
                             FunctionRef<void(OnRegion)> f) {
  const OnRegions regions(program, in, out, columns);
  if (!regions.possible()) return false;
  f([&](const Region& region) { regions.run(region); });
  return true;
}

}  // namespace thalweg
