// The code of programs, made when it is asked for and kept.
#include "thalweg/backend/cpu/generated.h"

#include <bit>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "thalweg/backend/cpu/jit/code_memory.h"
#include "thalweg/backend/cpu/jit/emitter.h"

namespace thalweg::jit {
namespace {

constexpr std::size_t max_code_bytes = 64 * 1024;
constexpr std::size_t max_programs = 512;  // then all are dropped: what is in use is soon made again
// Code costs some 15 us. For fewer elements than this it is made when the program comes a second time.
constexpr std::int64_t worth_at_once = 16 * 1024;

struct MadeCode {
  std::shared_ptr<const Code> code;
  std::int64_t bytes = 0;  // whole pages
};

MadeCode make_code(const Program& program, const Binding& binding, Isa isa) {
  const auto recording = record(program, binding);
  if (!recording) return {};
  const std::unique_ptr<std::byte[]> buffer(new std::byte[max_code_bytes]);
  try {
    Emitter emitter(*recording, isa, buffer.get(), max_code_bytes);
    const std::shared_ptr<const CodeMemory> memory = CodeMemory::make(buffer.get(), emitter.emit());
    if (!memory) return {};
    const auto function = std::bit_cast<Code::Function>(memory->data());
    return {std::make_shared<const Code>(function, emitter.lanes(), memory),
            static_cast<std::int64_t>(memory->bytes())};
  } catch (const Xbyak::Error&) {  // longer than any program worth it
    return {};
  }
}

class Hash {
 public:
  void add(std::uint64_t value) { mixed_ = (mixed_ ^ value) * 0x9E3779B97F4A7C15U, mixed_ ^= mixed_ >> 29; }
  std::uint64_t value() const { return mixed_; }

 private:
  std::uint64_t mixed_ = 0;
};

std::uint64_t hash(const Program& program, const Binding& binding, Isa isa) {
  Hash hash;
  hash.add(static_cast<std::uint64_t>(isa) | static_cast<std::uint64_t>(binding.compute) << 8 |
           static_cast<std::uint64_t>(binding.streamed) << 16);
  for (const auto& [dtype, scalar] : binding.inputs) hash.add(static_cast<std::uint64_t>(dtype) << 1 | scalar);
  for (const DType dtype : binding.outputs) hash.add(static_cast<std::uint64_t>(dtype));
  for (const double constant : program.constants) hash.add(std::bit_cast<std::uint64_t>(constant));
  for (const auto& [row, operands] : program.instructions)
    hash.add(static_cast<std::uint64_t>(row) ^ static_cast<std::uint64_t>(operands[0] + 1) << 8 ^
             static_cast<std::uint64_t>(operands[1] + 1) << 24 ^ static_cast<std::uint64_t>(operands[2] + 1) << 40);
  for (const int output : program.outputs) hash.add(static_cast<std::uint64_t>(output));
  return hash.value();
}

struct Entry {
  Program program;
  Binding binding;
  Isa isa;
  bool tried = false;
  std::shared_ptr<const Code> code = nullptr;

  bool is_of(const Program& other, const Binding& bound, Isa wanted) const {
    const auto same_bits = [](double x, double z) {
      return std::bit_cast<std::uint64_t>(x) == std::bit_cast<std::uint64_t>(z);
    };
    return isa == wanted && program.inputs == other.inputs && program.instructions == other.instructions &&
           program.outputs == other.outputs && binding.compute == bound.compute && binding.streamed == bound.streamed &&
           std::ranges::equal(program.constants, other.constants, same_bits) &&
           std::ranges::equal(binding.inputs, bound.inputs) && std::ranges::equal(binding.outputs, bound.outputs);
  }
};

class Cache {
 public:
  // Null: neither code nor the knowledge that there is none.
  std::shared_ptr<const Entry> find(const Program& program, const Binding& binding, Isa isa, bool at_once) {
    const std::uint64_t key = hash(program, binding, isa);
    {
      const std::shared_lock lock(mutex_);
      if (auto entry = lookup(key, program, binding, isa); entry && entry->tried) return entry;
    }
    const std::lock_guard lock(mutex_);
    auto entry = lookup(key, program, binding, isa);
    if (entry && entry->tried) return entry;
    const bool again = entry != nullptr;
    if (!entry) entry = add(key, {program, binding, isa});
    if (!again && !at_once) return nullptr;
    make(*entry);
    return entry;
  }

  CodeCounts counts() {
    const std::shared_lock lock(mutex_);
    return counts_;
  }

 private:
  std::shared_ptr<Entry> lookup(std::uint64_t key, const Program& program, const Binding& binding, Isa isa) {
    const auto [first, last] = entries_.equal_range(key);
    for (auto at = first; at != last; ++at)
      if (at->second->is_of(program, binding, isa)) return at->second;
    return nullptr;
  }

  std::shared_ptr<Entry> add(std::uint64_t key, Entry entry) {
    if (entries_.size() >= max_programs) {
      entries_.clear();
      counts_.programs = counts_.bytes = 0;
    }
    return entries_.emplace(key, std::make_shared<Entry>(std::move(entry)))->second;
  }

  void make(Entry& entry) {
    entry.tried = true;
    const MadeCode made = make_code(entry.program, entry.binding, entry.isa);
    entry.code = made.code;
    if (made.code)
      ++counts_.programs, ++counts_.made, counts_.bytes += made.bytes;
    else
      ++counts_.without;
  }

  std::shared_mutex mutex_;
  std::unordered_multimap<std::uint64_t, std::shared_ptr<Entry>> entries_;
  CodeCounts counts_;
};

Cache& cache() {
  static auto* only = new Cache;  // outlives every thread that runs code
  return *only;
}

// What this thread found last for programs at such an address: no lock and no hash of the whole program. Keeps some
// code alive beyond the bound.
std::shared_ptr<const Entry>& recently_found(const Program& program, const Binding& binding) {
  constexpr std::size_t places = 64;
  static thread_local std::shared_ptr<const Entry> recent[places];
  std::size_t mixed = reinterpret_cast<std::uintptr_t>(&program) >> 4;
  for (const auto& input : binding.inputs) mixed = mixed * 2 + input.scalar;
  return recent[(mixed * 0x9E3779B97F4A7C15U >> 32) % places];
}

}  // namespace

std::shared_ptr<const Code> find_code(const Program& program, const Binding& binding, std::int64_t elements) {
  const auto isa = current_isa();
  if (!isa) return nullptr;
  auto& known = recently_found(program, binding);
  if (!known || !known->is_of(program, binding, *isa)) {
    auto found = cache().find(program, binding, *isa, mode() == Mode::generated || elements >= worth_at_once);
    if (!found) return nullptr;
    known = std::move(found);
  }
  return known->code;
}

CodeCounts code_counts() { return cache().counts(); }

}  // namespace thalweg::jit
