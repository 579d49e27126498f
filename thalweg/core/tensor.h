#pragma once

#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "thalweg/core/device.h"
#include "thalweg/core/dtype.h"
#include "thalweg/core/memory.h"
#include "thalweg/core/shape.h"
#include "thalweg/core/small_vector.h"

namespace thalweg {

// What is known of a tensor before it is computed.
struct Spec {
  DType dtype = DType::f32;
  Shape shape;

  int rank() const { return shape.rank(); }
  std::int64_t size() const { return shape.size(); }
  std::int64_t bytes() const { return shape.size() * size_of(dtype); }
  friend bool operator==(const Spec&, const Spec&) = default;
};

class TW_API TensorImpl final : public Counted<TensorImpl> {
 public:
  TensorImpl(const Spec& spec, Ref<Buffer> buffer, std::int64_t offset);

  const Spec spec;
  const Ref<Buffer> buffer;
  void* const data;
  const std::uint64_t id;  // never used twice in a process; tapes know tensors by it

  static void* operator new(std::size_t size);
  static void operator delete(void* object, std::size_t size);
};

// A handle to dense row-major data that never changes. Copies share; a default-made one is undefined.
class TW_API Tensor {
 public:
  Tensor() = default;
  explicit Tensor(Ref<TensorImpl> impl) : impl_(std::move(impl)) {}

  // Copies the values; the dtype is that of T.
  template <class T>
  static Tensor from(std::span<const T> values, const Shape& shape) {
    return from_raw(values.data(), static_cast<std::int64_t>(values.size()), dtype_of<T>(), shape);
  }
  template <class T>
  static Tensor from(const std::vector<T>& values, const Shape& shape) {
    if constexpr (std::is_same_v<T, bool>) {
      const std::unique_ptr<bool[]> copy(new bool[values.size() + 1]);
      for (std::size_t i = 0; i < values.size(); ++i) copy[i] = values[i];
      return from(std::span<const bool>(copy.get(), values.size()), shape);
    } else {
      return from(std::span<const T>(values), shape);
    }
  }
  // Uses the host's memory without a copy; `owner` keeps it alive. The host must not change it meanwhile.
  static Tensor wrap(const void* data, const Shape& shape, DType dtype, std::shared_ptr<const void> owner);

  bool defined() const { return static_cast<bool>(impl_); }
  const Spec& spec() const { return checked().spec; }
  const Shape& shape() const { return checked().spec.shape; }
  DType dtype() const { return checked().spec.dtype; }
  int rank() const { return shape().rank(); }
  std::int64_t size() const { return shape().size(); }
  std::int64_t bytes() const { return spec().bytes(); }
  Device device() const { return checked(), Device(); }
  Tensor to(const Device& device) const;

  // Values, converted between float types and between integer types; any other conversion throws.
  template <class T>
  T item() const {
    T value;
    read("item", &value, 1, dtype_of<T>());
    return value;
  }
  template <class T>
  std::vector<T> to_vector() const {
    if constexpr (std::is_same_v<T, bool>) {
      const std::unique_ptr<bool[]> values(new bool[static_cast<std::size_t>(size()) + 1]);
      read("to_vector", values.get(), size(), DType::boolean);
      return std::vector<bool>(values.get(), values.get() + size());
    } else {
      std::vector<T> values(static_cast<std::size_t>(size()));
      read("to_vector", values.data(), size(), dtype_of<T>());
      return values;
    }
  }
  // The values in place; T must be the tensor's own type.
  template <class T>
  std::span<const T> data() const {
    return {static_cast<const T*>(raw(dtype_of<T>())), static_cast<std::size_t>(size())};
  }

  const TensorImpl& impl() const { return checked(); }
  std::uint64_t id() const { return checked().id; }

 private:
  static Tensor from_raw(const void* values, std::int64_t count, DType dtype, const Shape& shape);
  void read(const char* op, void* values, std::int64_t count, DType dtype) const;
  const void* raw(DType dtype) const;
  const TensorImpl& checked() const {
    if (!impl_) [[unlikely]]
      throw_undefined();
    return *impl_;
  }
  [[noreturn]] static void throw_undefined();

  Ref<TensorImpl> impl_;
};

using Tensors = SmallVector<Tensor, 4>;

// Shape, dtype and shortened values.
TW_API std::ostream& operator<<(std::ostream& out, const Tensor& tensor);
TW_API std::string to_string(const Tensor& tensor);

// A new tensor whose bytes the caller writes before anyone reads them.
Tensor allocate_tensor(const Spec& spec, memory::Owner owner);
inline void* mutable_data(const Tensor& tensor) { return tensor.impl().data; }
// Another tensor (with an id of its own) over the same bytes.
Tensor view_of(const Tensor& tensor, const Spec& spec, std::int64_t byte_offset = 0);

// A C++ number in an expression: it takes the dtype of the tensor it meets.
struct TW_API Number {
  double real = 0;
  std::int64_t integer = 0;
  bool is_integer = true;
  Number() = default;
  template <class T>
  requires std::is_arithmetic_v<T> Number(T value)
      : real(static_cast<double>(value)),
        integer(static_cast<std::int64_t>(value)),
        is_integer(std::is_integral_v<T>) {}
};

// A fraction is no value of an integer dtype: an error that names the op.
void require_whole(const char* op, Number value, DType dtype);

// A scalar of the given dtype. A fraction for an integer dtype is an error.
TW_API Tensor scalar(Number value, DType dtype);

}  // namespace thalweg
