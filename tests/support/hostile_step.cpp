#include "tests/support/hostile_step.h"

#include <algorithm>
#include <cstring>
#include <random>

#include "thalweg/core/crc32c.h"
#include "thalweg/core/error.h"
#include "thalweg/core/scopes.h"
#include "thalweg/graph/control/control.h"
#include "thalweg/graph/rewrite.h"
#include "thalweg/ops/creation/creation.h"

namespace thalweg::testing {
namespace {

constexpr std::size_t header_bytes = 36;

void put_checksum(std::string& bytes, std::size_t at, std::string_view of) {
  const std::uint32_t checksum = crc32c(of.data(), of.size());
  std::memcpy(bytes.data() + at, &checksum, sizeof(checksum));
}

// Limits on what the tests run, not on what can be loaded: bytes, and nodes with those of all turns of a loop.
class Work {
 public:
  bool is_small(const Graph& graph, std::int64_t turns = 1) {
    std::int64_t bytes = 0;
    for (const auto& spec : graph.values) {
      if (spec.bytes() > 1 << 20) return false;
      bytes += spec.bytes();
    }
    nodes_ += turns * static_cast<std::int64_t>(graph.nodes.size() + 1);
    if (bytes >= 1 << 22 || nodes_ > 20'000) return false;
    return std::all_of(graph.nodes.begin(), graph.nodes.end(),
                       [&](const Node& node) { return !is_control(*node.info) || is_small(node, turns); });
  }

 private:
  bool is_small(const Node& node, std::int64_t turns) {
    if (node.info != &cond_info()) {
      const std::int64_t more = integer_field(node, node.info == &scan_info() ? "steps" : "maximum");
      if (more < 0 || more > 1000) return false;  // a loop of a stranger may never end
      turns *= more + 1;
    }
    const Bodies bodies = bodies_of(node);
    return std::all_of(bodies.begin(), bodies.end(), [&](const auto& body) { return is_small(body->graph(), turns); });
  }

  std::int64_t nodes_ = 0;
};

void run(const StepEntry& entry, const SavedGraph& saved, const std::shared_ptr<CallNumbers>& numbers) {
  if (!Work().is_small(saved.graph)) return;
  detail::FunctionCore core(entry.options, {std::make_shared<const SavedGraph>(saved)}, numbers);
  detail::Flat arguments{{}, saved.argument_sizes};
  for (ValueId argument : saved.graph.arguments)
    arguments.tensors.push_back(zeros(saved.graph.spec(argument).shape, saved.graph.spec(argument).dtype));
  const Scopes before = scopes();
  scopes() = saved.scopes;
  try {
    core.call(arguments, [](const detail::Flat&) -> detail::Flat { throw std::logic_error("there is a graph"); });
  } catch (const Error&) {
  }
  scopes() = before;
}

}  // namespace

StepFile step_of(const FunctionHandle& function) {
  return {{{function.core().options(), function.core().graphs()}}, {}, nullptr};
}

std::string bytes_of(const StepFile& step) {
  std::string bytes;
  write_step([&](const void* data, std::size_t count) { bytes.append(static_cast<const char*>(data), count); }, step);
  return bytes;
}

std::string with_right_checksums(std::string bytes) {
  if (bytes.size() < header_bytes) return bytes;
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data() + 16, sizeof(length));
  if (length <= bytes.size() - header_bytes)
    put_checksum(bytes, 12, std::string_view(bytes).substr(header_bytes, length));
  put_checksum(bytes, 32, std::string_view(bytes).substr(0, 32));
  return bytes;
}

bool survives(std::string_view bytes) {
  StepFile step;
  try {
    step = read_step(*memory_source(bytes));
  } catch (const Error& error) {
    if (error.code() == ErrorCode::data_loss || error.code() == ErrorCode::unimplemented) return false;
    throw;
  }
  for (const auto& entry : step.entries)
    for (const auto& saved : entry.graphs) run(entry, *saved, step.numbers);
  return true;
}

std::string mutated(const std::string& bytes, unsigned n) {
  std::mt19937 random(n);
  const auto below = [&](std::size_t limit) { return random() % limit; };
  std::string copy = bytes;
  for (std::size_t changes = 1 + below(3); changes > 0; --changes) {
    const std::size_t at = below(copy.size());
    constexpr unsigned char usual[] = {0, 1, 2, 3, 4, 7, 8, 127, 128, 255};
    switch (below(4)) {
      case 0: copy[at] = static_cast<char>(usual[below(std::size(usual))]); break;
      case 1: copy[at] = static_cast<char>(copy[at] + 1); break;
      case 2: copy[at] = static_cast<char>(copy[at] ^ (1 << below(8))); break;
      default: copy[at] = copy[below(copy.size())]; break;
    }
  }
  return copy;
}

}  // namespace thalweg::testing

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  using namespace thalweg::testing;
  survives(with_right_checksums(std::string(reinterpret_cast<const char*>(data), size)));
  return 0;
}
