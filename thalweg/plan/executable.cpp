#include "thalweg/plan/executable.h"

#include <algorithm>

#include "thalweg/core/check.h"
#include "thalweg/core/denormals.h"
#include "thalweg/ops/fused/fused_op.h"
#include "thalweg/ops/registry.h"
#include "thalweg/ops/row_ops.h"

namespace thalweg {
namespace {

// Programs of a few instructions each of which is a few of the processor's. Others are limited by what they compute,
// not by memory: a gelu after [2048, 384] [384, 384] loses 4 % as an epilogue.
bool is_light(const Program& program) {
  constexpr std::size_t most = 6;
  constexpr Row light[] = {Row::relu, Row::relu6, Row::leaky_relu, Row::divide, Row::round_to_bf16, Row::round_to_f16};
  return program.instructions.size() <= most && std::ranges::all_of(program.instructions, [&](const Instruction& i) {
           return row_info(i.row).kind != RowKind::real || std::ranges::find(light, i.row) != std::end(light);
         });
}

}  // namespace

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
    steps_.push_back({node.op, first, static_cast<std::uint32_t>(node.inputs.size()),
                      static_cast<std::uint32_t>(node.outputs.size()), memory.scratch[i], memory.workspace[i],
                      node.layer, node.info});
  }
  find_epilogues();
}

void Executable::find_epilogues() {
  for (std::size_t i = 0; i + 1 < steps_.size(); ++i)
    steps_[i].has_epilogue = (i == 0 || !steps_[i - 1].has_epilogue) && is_epilogue(steps_[i], steps_[i + 1]);
}

std::size_t Executable::epilogues() const {
  return static_cast<std::size_t>(
      std::count_if(steps_.begin(), steps_.end(), [](const Step& step) { return step.has_epilogue; }));
}

// Whether the next step is a program over all of what this one makes, and writes nothing that this one still reads.
bool Executable::is_epilogue(const Step& of, const Step& next) const {
  if (!of.info->run_by_regions || next.info != &fused_info()) return false;
  const FusedProgram& fused = fused_of(next.op.get());
  if (fused.branches || !is_light(*fused.program)) return false;
  const std::span all(entries_);
  const auto in = all.subspan(of.first, of.inputs), reads = all.subspan(next.first, next.inputs);
  const auto writes = all.subspan(next.first + next.inputs, next.outputs);
  const Entry &made = all[of.first + of.inputs], scratch{of.scratch, {u8, {of.scratch_bytes}}};
  if (made.spec.rank() == 0 || writes[0].spec.size() != made.spec.size()) return false;
  const auto is_made = [&](const Entry& entry) {
    return entry.place == made.place && entry.spec.size() == made.spec.size();
  };
  const bool reads_parts =
      std::ranges::any_of(reads, [&](const Entry& entry) { return overlap(entry, made) && !is_made(entry); });
  const bool disturbs = std::ranges::any_of(writes, [&](const Entry& output) {
    return overlap(output, scratch) ||
           std::ranges::any_of(in, [&](const Entry& input) { return overlap(output, input); });
  });
  return std::ranges::any_of(reads, is_made) && !reads_parts && !disturbs;
}

bool Executable::overlap(const Entry& a, const Entry& b) {
  return a.place.kind == b.place.kind && a.place.index == b.place.index &&
         a.place.offset < b.place.offset + b.spec.bytes() && b.place.offset < a.place.offset + a.spec.bytes();
}

// Calls f with what runs the program of this step over rows of its operands; false: it runs by itself only.
bool Executable::with_program(const Step& step, const Array* table, std::int64_t columns,
                              FunctionRef<void(OnRegion)> f) {
  const Array* first = table + step.first;
  return with_program_on_regions(program_of(step.op.get()), {first, step.inputs}, {first + step.inputs, step.outputs},
                                 columns, f);
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
  const auto run_step = [&](const Step& step, const OnRegion* done) {
    const LayerScope layer(step.layer);
    const Array* first = table + step.first;
    const Arrays in(first, step.inputs), out(first + step.inputs, step.outputs);
    Scratch scratch;
    if (step.scratch_bytes > 0) scratch = {address(step.scratch), static_cast<std::size_t>(step.scratch_bytes)};
    done ? step.info->run_by_regions(step.op.get(), in, out, scratch, *done)
         : step.info->run(step.op.get(), in, out, scratch);
  };
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    const auto run_with = [&](OnRegion done) { run_step(step, &done); };
    if (step.has_epilogue &&
        with_program(steps_[i + 1], table, entries_[step.first + step.inputs].spec.shape.last(), run_with))
      ++i;
    else
      run_step(step, nullptr);
  }
}

}  // namespace thalweg
