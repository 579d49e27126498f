#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace thalweg {

// A hash map from tensor ids (never 0) by open addressing: a recorded op costs a few nanoseconds here, not a node each.
template <class Value>
class IdMap {
 public:
  Value* find(std::uint64_t id) {
    if (slots_.empty()) return nullptr;
    for (std::size_t i = index(id);; i = (i + 1) & mask()) {
      if (slots_[i].first == id) return &slots_[i].second;
      if (slots_[i].first == 0) return nullptr;
    }
  }
  const Value* find(std::uint64_t id) const { return const_cast<IdMap*>(this)->find(id); }
  bool contains(std::uint64_t id) const { return find(id) != nullptr; }

  // The value of this id, made when it is not there.
  Value& operator[](std::uint64_t id) {
    if (2 * (size_ + 1) > slots_.size()) grow();
    for (std::size_t i = index(id);; i = (i + 1) & mask()) {
      if (slots_[i].first == id) return slots_[i].second;
      if (slots_[i].first != 0) continue;
      slots_[i].first = id;
      ++size_;
      return slots_[i].second;
    }
  }

  std::size_t size() const { return size_; }
  void clear() { slots_.clear(), size_ = 0; }

 private:
  using Slot = std::pair<std::uint64_t, Value>;
  std::size_t mask() const { return slots_.size() - 1; }
  std::size_t index(std::uint64_t id) const { return (id * 0x9e3779b97f4a7c15ULL >> 32) & mask(); }
  void grow() {
    std::vector<Slot> old(slots_.empty() ? 16 : slots_.size() * 2);
    old.swap(slots_);
    size_ = 0;
    for (auto& [id, value] : old)
      if (id != 0) (*this)[id] = std::move(value);
  }

  std::vector<Slot> slots_;
  std::size_t size_ = 0;
};

}  // namespace thalweg
