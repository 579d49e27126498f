#include "thalweg/core/variable.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <unordered_set>

#include "thalweg/core/check.h"
#include "thalweg/core/dispatch.h"
#include "thalweg/core/thread_pool.h"
#include "thalweg/core/tracer.h"
#include "thalweg/core/variable_storage.h"

namespace thalweg {

struct VariableImpl {
  VariableImpl(const Tensor& initial, VariableOptions options);
  ~VariableImpl();

  const std::string name;
  const bool trainable;
  const std::uint64_t id;
  const Spec spec;
  std::shared_ptr<VariableGate> gate;              // set once, under the registry's mutex
  std::atomic<VariableGate*> known_gate{nullptr};  // the same, for readers
  mutable std::mutex mutex;                        // guards what follows
  Tensor storage;
  std::uint64_t version = 0;
};

namespace {

struct Registry {
  std::mutex mutex;
  std::unordered_set<const VariableImpl*> live;
  std::atomic<std::uint64_t> made{0};
};

Registry& registry() {
  static auto* state = new Registry;
  return *state;
}

Tensor copy_of(const Tensor& value) {
  Tensor copy = allocate_tensor(value.spec(), memory::by_variable);
  if (value.bytes() > 0) std::memcpy(mutable_data(copy), value.impl().data, static_cast<std::size_t>(value.bytes()));
  return copy;
}

// The tensor's bytes as a variable's own: shared when they are exactly its own, copied when they belong to the host or
// to a larger tensor.
Tensor adopt(const Tensor& value) {
  const auto& buffer = value.impl().buffer;
  const bool exact = buffer->writable() && value.impl().data == buffer->data() &&
                     buffer->bytes() <= std::max(memory::rounded(value.bytes()), memory::alignment);
  if (exact) {
    buffer->set_owner(memory::by_variable);
    return view_of(value, value.spec());
  }
  return copy_of(value);
}

// Gives the variable storage of its own, with the same bytes; whether that was a copy.
bool own(VariableImpl& impl) {
  if (impl.storage.impl().buffer->unique()) return false;
  impl.storage = copy_of(impl.storage);
  return true;
}

// Waits for a plan that is assigning the variable.
std::shared_lock<std::shared_mutex> shared_gate(const VariableImpl& impl) {
  auto* gate = impl.known_gate.load(std::memory_order_acquire);
  return gate ? std::shared_lock(gate->mutex) : std::shared_lock<std::shared_mutex>();
}

// into[i] = from[i] + sign * by[i]; into may be from.
template <class T>
void add_into(T* into, const T* from, const T* by, std::int64_t n, int sign) {
  const auto sum = [=](T a, T b) {
    if constexpr (std::is_same_v<T, bool>)
      return a || b;
    else if constexpr (std::is_integral_v<T>)  // unsigned: overflow wraps instead of being undefined
      return static_cast<T>(sign > 0 ? std::uint64_t(a) + std::uint64_t(b) : std::uint64_t(a) - std::uint64_t(b));
    else if constexpr (std::is_same_v<T, double>)
      return sign > 0 ? a + b : a - b;
    else
      return static_cast<T>(sign > 0 ? static_cast<float>(a) + static_cast<float>(b)
                                     : static_cast<float>(a) - static_cast<float>(b));
  };
  parallel_ranges(n, 32 * 1024, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) into[i] = sum(from[i], by[i]);
  });
}

}  // namespace

VariableImpl::VariableImpl(const Tensor& initial, VariableOptions options)
    : name(std::move(options.name)),
      trainable(options.trainable),
      id(++registry().made),
      spec(initial.spec()),
      storage(adopt(initial)) {
  std::lock_guard lock(registry().mutex);
  registry().live.insert(this);
}

VariableImpl::~VariableImpl() {
  std::lock_guard lock(registry().mutex);
  registry().live.erase(this);
}

Variable::Variable(const Tensor& initial, VariableOptions options) {
  TW_CHECK_USER(initial.defined(), "variable", "make it with an initial value: Variable w(tw::zeros({5, 10}))",
                "expected an initial value, got an undefined tensor");
  TW_CHECK(failed_precondition, !is_symbolic(initial), "variable",
           "make variables before the function, or from values that do not depend on its arguments",
           "expected an initial value known while function \"{}\" is traced, got a symbolic tensor of shape {}",
           initial.impl().buffer->function_name(), initial.shape());
  if (options.name.empty()) options.name = "variable_" + std::to_string(registry().made.load() + 1);
  impl_ = std::make_shared<VariableImpl>(initial, std::move(options));
}

VariableImpl& Variable::checked() const {
  TW_CHECK_USER(impl_ != nullptr, "variable", "make it with an initial value: Variable w(tw::zeros({5, 10}))",
                "expected a variable with a value, got an undefined one");
  return *impl_;
}

Tensor Variable::value() const {
  auto& impl = checked();
  Tensor value;
  if (Tracer* trace = tracer()) {
    value = trace->read(*this);
  } else {
    const auto at_rest = shared_gate(impl);
    std::lock_guard lock(impl.mutex);
    value = view_of(impl.storage, impl.spec);
  }
  for (auto* recorder : recorders()) recorder->read(*this, value);
  return value;
}

const Spec& Variable::spec() const { return checked().spec; }
const std::string& Variable::name() const { return checked().name; }
bool Variable::trainable() const { return checked().trainable; }
std::uint64_t Variable::id() const { return checked().id; }

std::uint64_t Variable::version() const {
  auto& impl = checked();
  std::lock_guard lock(impl.mutex);
  return impl.version;
}

void Variable::assign(const Tensor& value) { update("assign", value, 0); }
void Variable::assign_add(const Tensor& value) { update("assign_add", value, 1); }
void Variable::assign_sub(const Tensor& value) { update("assign_sub", value, -1); }

void Variable::update(const char* op, const Tensor& value, int sign) {
  auto& impl = checked();
  TW_CHECK_USER(value.defined(), op,
                "an unconnected gradient is undefined: ask .defined() first, or use Unconnected::zero",
                "variable \"{}\": expected a tensor with a value, got an undefined one", impl.name);
  TW_CHECK_USER(value.spec() == impl.spec, op,
                "cast, reshape or broadcast the value first; a variable keeps its shape and dtype",
                "variable \"{}\": expected {} {}, got {} {}", impl.name, impl.spec.shape, impl.spec.dtype,
                value.shape(), value.dtype());
  if (Tracer* trace = tracer()) return trace->assign(*this, value, sign);
  if (is_symbolic(value)) throw_symbolic(op, value);
  std::unique_lock<std::shared_mutex> alone;
  if (auto* gate = impl.known_gate.load(std::memory_order_acquire)) alone = std::unique_lock(gate->mutex);
  std::lock_guard lock(impl.mutex);
  if (sign == 0) {
    impl.storage = adopt(value);
  } else {
    const bool in_place = impl.storage.impl().buffer->unique();
    Tensor target = in_place ? impl.storage : allocate_tensor(impl.spec, memory::by_variable);
    with_type(impl.spec.dtype, [&]<class T>(TypeTag<T>) {
      add_into(static_cast<T*>(mutable_data(target)), static_cast<const T*>(impl.storage.impl().data),
               static_cast<const T*>(value.impl().data), value.size(), sign);
    });
    impl.storage = target;
  }
  ++impl.version;
}

std::vector<std::shared_ptr<VariableGate>> VariableStorage::gates(std::span<const Variable> variables) {
  std::vector<std::shared_ptr<VariableGate>> list;
  std::shared_ptr<VariableGate> fresh;
  std::lock_guard lock(registry().mutex);
  for (const auto& variable : variables) {
    auto& impl = variable.checked();
    if (!impl.gate) {
      if (!fresh) fresh = std::make_shared<VariableGate>();
      impl.gate = fresh;
      impl.known_gate.store(fresh.get(), std::memory_order_release);
    }
    list.push_back(impl.gate);
  }
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
  return list;
}

void* VariableStorage::read(const Variable& variable) { return variable.checked().storage.impl().data; }

void* VariableStorage::write(const Variable& variable, std::int64_t& copied) {
  auto& impl = variable.checked();
  std::lock_guard lock(impl.mutex);
  copied += own(impl);
  return mutable_data(impl.storage);
}

void VariableStorage::change(std::span<const Variable> variables, FunctionRef<void(std::span<void* const>)> change) {
  SmallVector<std::shared_mutex*, 4> gates;
  SmallVector<VariableImpl*, 4> order;
  for (const auto& variable : variables) {
    order.push_back(&variable.checked());
    if (auto* gate = order.back()->known_gate.load(std::memory_order_acquire)) gates.push_back(&gate->mutex);
  }
  std::sort(gates.begin(), gates.end());
  std::sort(order.begin(), order.end());
  std::vector<std::unique_lock<std::shared_mutex>> alone;
  std::vector<std::unique_lock<std::mutex>> locks;
  for (auto* gate : gates)
    if (alone.empty() || alone.back().mutex() != gate) alone.emplace_back(*gate);
  for (auto* impl : order) locks.emplace_back(impl->mutex), own(*impl);
  SmallVector<void*, 4> bytes;
  for (const auto& variable : variables) bytes.push_back(mutable_data(variable.checked().storage));
  change({bytes.data(), bytes.size()});
  for (auto* impl : order) ++impl->version;
}

void VariableStorage::count_assignment(const Variable& variable) {
  auto& impl = variable.checked();
  std::lock_guard lock(impl.mutex);
  ++impl.version;
}

std::pair<Tensor, std::uint64_t> VariableStorage::snapshot(const Variable& variable) {
  auto& impl = variable.checked();
  std::lock_guard lock(impl.mutex);
  return {view_of(impl.storage, impl.spec), impl.version};
}

void VariableStorage::replace(const Variable& variable, const Tensor& value) {
  auto& impl = variable.checked();
  std::lock_guard lock(impl.mutex);
  impl.storage = adopt(value);
  ++impl.version;
}

void VariableStorage::set_version(const Variable& variable, std::uint64_t version) {
  auto& impl = variable.checked();
  std::lock_guard lock(impl.mutex);
  impl.version = version;
}

std::vector<MemoryInfo::Share> live_variables() {
  std::vector<MemoryInfo::Share> list;
  {
    std::lock_guard lock(registry().mutex);
    for (const auto* variable : registry().live)
      list.push_back({variable->name, memory::rounded(variable->spec.bytes())});
  }
  std::sort(list.begin(), list.end(),
            [](auto& a, auto& b) { return a.bytes != b.bytes ? a.bytes > b.bytes : a.name < b.name; });
  return list;
}

}  // namespace thalweg
