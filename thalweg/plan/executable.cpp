#include "thalweg/plan/executable.h"

#include "thalweg/core/check.h"
#include "thalweg/core/denormals.h"

namespace thalweg {

Executable::Executable(const Graph& graph, const MemoryPlan& memory) : arena_bytes_(memory.arena_bytes) {
  const Storages storages(graph);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (storages.is_view(node)) continue;
    const auto first = static_cast<std::uint32_t>(entries_.size());
    for (const auto* list : {&node.inputs, &node.outputs})
      for (ValueId value : *list) {
        const Place& place = memory.places[static_cast<std::size_t>(value)];
        TW_CHECK_INTERNAL(place.kind != Place::Kind::none, node.info->name, "%{} has no place", value);
        entries_.push_back({place, graph.spec(value)});
      }
    steps_.push_back({node.info->run, node.op, first, static_cast<std::uint32_t>(node.inputs.size()),
                      static_cast<std::uint32_t>(node.outputs.size()), memory.scratch[i], memory.workspace[i],
                      node.layer});
  }
}

void Executable::run(std::span<void* const> inputs, std::span<void* const> outputs, std::byte* workspace) const {
  const auto address = [&](const Place& place) -> std::byte* {
    std::byte* base = workspace;
    if (place.kind == Place::Kind::input) base = static_cast<std::byte*>(inputs[static_cast<std::size_t>(place.index)]);
    if (place.kind == Place::Kind::output)
      base = static_cast<std::byte*>(outputs[static_cast<std::size_t>(place.index)]);
    return base + place.offset;
  };
  auto* table = reinterpret_cast<Array*>(workspace + arena_bytes_);
  for (std::size_t i = 0; i < entries_.size(); ++i)
    std::construct_at(table + i, Array{address(entries_[i].place), &entries_[i].spec});
  const Denormals denormals(Denormals::Mode::flushed);
  for (const auto& step : steps_) {
    const LayerScope layer(step.layer);
    const Array* first = table + step.first;
    Scratch scratch;
    if (step.scratch_bytes > 0) scratch = {address(step.scratch), static_cast<std::size_t>(step.scratch_bytes)};
    step.run(step.op.get(), {first, step.inputs}, {first + step.inputs, step.outputs}, scratch);
  }
}

}  // namespace thalweg
