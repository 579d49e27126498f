#include "thalweg/core/tensor.h"

#include <atomic>
#include <cstring>

#include "thalweg/core/block_cache.h"
#include "thalweg/core/check.h"
#include "thalweg/core/convert.h"
#include "thalweg/core/denormals.h"
#include "thalweg/core/scalar.h"
#include "thalweg/core/tracer.h"

namespace thalweg {
namespace {

// Ids are handed out in blocks, so that threads do not share a counter's cache line.
std::uint64_t next_id() {
  constexpr std::uint64_t block = 1024;
  static std::atomic<std::uint64_t> blocks{1};
  thread_local std::uint64_t next = 0, end = 0;
  if (next == end) next = blocks.fetch_add(1, std::memory_order_relaxed) * block, end = next + block;
  return next++;
}

bool convertible(DType from, DType to) {
  return from == to || (is_float(from) && is_float(to)) || (is_integer(from) && is_integer(to));
}

}  // namespace

TensorImpl::TensorImpl(const Spec& s, Ref<Buffer> b, std::int64_t offset)
    : spec(s), buffer(std::move(b)), data(static_cast<std::byte*>(buffer->data()) + offset), id(next_id()) {}

void* TensorImpl::operator new(std::size_t size) { return memory::take_object(static_cast<std::int64_t>(size)); }
void TensorImpl::operator delete(void* object, std::size_t size) {
  memory::give_object(object, static_cast<std::int64_t>(size));
}

void Tensor::throw_undefined() {
  TW_FAIL(invalid_argument, "tensor",
          "an unconnected gradient is undefined: ask .defined() first, or use Unconnected::zero",
          "expected a tensor with a value, got an undefined one");
}

Tensor Tensor::from_raw(const void* values, std::int64_t count, DType dtype, const Shape& shape) {
  TW_CHECK_USER(count == shape.size(), "from", "the shape's sizes must multiply to the number of values",
                "expected {} values for shape {}, got {}", shape.size(), shape, count);
  Tensor tensor = allocate_tensor({dtype, shape}, memory::by_user);
  if (count > 0) std::memcpy(mutable_data(tensor), values, static_cast<std::size_t>(tensor.bytes()));
  return tensor;
}

Tensor Tensor::wrap(const void* data, const Shape& shape, DType dtype, std::shared_ptr<const void> owner) {
  const Spec spec{dtype, shape};
  TW_CHECK_USER(data != nullptr || shape.size() == 0, "wrap", "pass the address of the first element",
                "expected memory for {} elements, got a null pointer", shape.size());
  TW_CHECK_USER(reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(size_of(dtype)) == 0, "wrap",
                "align the memory to the element's size, or copy it with Tensor::from",
                "expected an address that is a multiple of {} bytes, the size of {}, got {}", size_of(dtype), dtype,
                data);
  if (!owner) owner = std::shared_ptr<const void>(data, [](const void*) {});
  auto buffer = Buffer::wrap(const_cast<void*>(data), spec.bytes(), std::move(owner));
  return Tensor(Ref<TensorImpl>(new TensorImpl(spec, std::move(buffer), 0)));
}

Tensor Tensor::to(const Device&) const { return checked(), *this; }

void Tensor::read(const char* op, void* values, std::int64_t count, DType to) const {
  if (is_symbolic(*this)) [[unlikely]]
    throw_symbolic(op, *this);
  TW_CHECK_USER(size() == count, op, "reduce the tensor first, or use to_vector<T>()",
                "expected a tensor of one element, got shape {}", shape());
  TW_CHECK_USER(convertible(dtype(), to), op, "use the tensor's own type, or tw::cast it first",
                "expected a type that {} converts to, got {}", dtype(), to);
  with_type(dtype(), [&]<class From>(TypeTag<From>) {
    with_type(to, [&]<class To>(TypeTag<To>) {
      const auto* source = static_cast<const From*>(impl_->data);
      for (std::int64_t i = 0; i < count; ++i) static_cast<To*>(values)[i] = convert<To>(source[i]);
    });
  });
}

const void* Tensor::raw(DType as) const {
  if (is_symbolic(*this)) [[unlikely]]
    throw_symbolic("data", *this);
  TW_CHECK_USER(dtype() == as, "data", "use data<T>() with the tensor's own type, or to_vector<T>() to convert",
                "expected the tensor's dtype {}, got {}", dtype(), as);
  return impl_->data;
}

Tensor allocate_tensor(const Spec& spec, memory::Owner owner) {
  return Tensor(Ref<TensorImpl>(new TensorImpl(spec, Buffer::allocate(spec.bytes(), owner), 0)));
}

Tensor view_of(const Tensor& tensor, const Spec& spec, std::int64_t byte_offset) {
  const auto& impl = tensor.impl();
  const auto start = static_cast<std::byte*>(impl.data) - static_cast<std::byte*>(impl.buffer->data());
  return Tensor(Ref<TensorImpl>(new TensorImpl(spec, impl.buffer, start + byte_offset)));
}

void require_whole(const char* op, Number value, DType dtype) {
  const bool whole = value.is_integer || static_cast<double>(value.integer) == value.real;
  TW_CHECK_USER(is_float(dtype) || whole, op, "use a float dtype, for a tensor tw::cast(x, tw::f32)",
                "expected a whole number for a tensor of {}, got {}", dtype, value.real);
}

ScalarBytes::ScalarBytes(Number value, DType dtype) {
  const Denormals denormals(Denormals::Mode::kept);  // the same element inside of ops and outside
  with_type(dtype, [&]<class T>(TypeTag<T>) {
    T element;
    if constexpr (std::is_same_v<T, bool>)
      element = value.real != 0;
    else if constexpr (std::is_integral_v<T>)
      element = static_cast<T>(value.integer);
    else if constexpr (std::is_same_v<T, double>)
      element = value.real;
    else
      element = static_cast<T>(static_cast<float>(value.real));
    std::memcpy(bytes.data(), &element, sizeof(T));
  });
}

Tensor scalar(Number value, DType dtype) {
  require_whole("scalar", value, dtype);
  Tensor tensor = allocate_tensor({dtype, {}}, memory::by_user);
  const ScalarBytes element(value, dtype);
  std::memcpy(mutable_data(tensor), element.data(), static_cast<std::size_t>(size_of(dtype)));
  return tensor;
}

}  // namespace thalweg
