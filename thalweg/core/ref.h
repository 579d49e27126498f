#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace thalweg {

// An object that counts its references. T derives from Counted<T>.
template <class T>
class Counted {
 public:
  void retain() const { references_.fetch_add(1, std::memory_order_relaxed); }
  void release() const {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete static_cast<const T*>(this);
  }
  bool unique() const { return references_.load(std::memory_order_acquire) == 1; }

 protected:
  Counted() = default;
  ~Counted() = default;

 private:
  mutable std::atomic<std::int32_t> references_{0};
};

// A shared handle to a Counted object: one pointer wide, no separate control block.
template <class T>
class Ref {
 public:
  Ref() = default;
  explicit Ref(T* object) : object_(object) { retain(); }
  Ref(const Ref& other) : object_(other.object_) { retain(); }
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() {
    if (object_) object_->release();
  }

  T* get() const { return object_; }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }
  friend bool operator==(const Ref& a, const Ref& b) { return a.object_ == b.object_; }

 private:
  void retain() {
    if (object_) object_->retain();
  }
  T* object_ = nullptr;
};

}  // namespace thalweg
