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
  return program.instructions.size() <= most &&
         std::ranges::all_of(program.instructions, [](const Instruction& i) { return is_light(i.row); });
}

}  // namespace

Executable::Executable(const Graph& graph, const MemoryPlan& memory) : arena_bytes_(memory.arena_bytes) {
  const Storages storages(graph);
  const std::vector<bool> checking = checking_nodes(graph);
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
                      node.layer, node.info, checking[i]});
  }
  find_epilogues();
}

// An update that stands between a product and the program over it, as updates of weights do, is passed by.
void Executable::find_epilogues() {
  constexpr std::size_t ahead = 3;  // steps
  for (std::size_t i = 0; i + 1 < steps_.size(); ++i) {
    for (std::size_t next = i + 1; next < std::min(i + 1 + ahead, steps_.size()) && !steps_[i].has_epilogue; ++next) {
      if (!is_epilogue(steps_[i], steps_[next]) || !can_move(next, i + 1)) continue;
      std::rotate(steps_.begin() + i + 1, steps_.begin() + next, steps_.begin() + next + 1);
      steps_[i].has_epilogue = true;
    }
    if (steps_[i].has_epilogue) ++i;
  }
}

std::size_t Executable::epilogues() const {
  return static_cast<std::size_t>(
      std::count_if(steps_.begin(), steps_.end(), [](const Step& step) { return step.has_epilogue; }));
}

// Whether a later step is a program over all of what this one makes, and writes nothing that this one still reads.
bool Executable::is_epilogue(const Step& of, const Step& next) const {
  if (!of.info->run_by_regions || next.info != &fused_info()) return false;
  const FusedProgram& fused = fused_of(next.op.get());
  if (fused.branches || !is_light(*fused.program)) return false;
  const Entry& made = outputs(of)[0];
  const Entries rest = outputs(of).subspan(1);  // which stand at the end only
  if (made.spec.rank() == 0 || outputs(next)[0].spec.size() != made.spec.size()) return false;
  const auto is_made = [&](const Entry& entry) {
    return entry.place == made.place && entry.spec.size() == made.spec.size();
  };
  const bool reads_parts =
      std::ranges::any_of(inputs(next), [&](const Entry& entry) { return overlap(entry, made) && !is_made(entry); });
  return std::ranges::any_of(inputs(next), is_made) && !reads_parts && !overlap(inputs(next), rest) &&
         !overlap(outputs(next), rest) && !overlap(outputs(next), inputs(of)) && !overlap(outputs(next), scratch(of));
}

// Whether a step could as well run there: those between neither touch what it writes nor write what it reads, and none
// of them may fail once it has written a variable.
bool Executable::can_move(std::size_t step, std::size_t to) const {
  const Step& moved = steps_[step];
  const bool writes_variables =
      std::ranges::any_of(outputs(moved), [](const Entry& entry) { return entry.place.kind == Place::Kind::input; });
  return std::all_of(steps_.begin() + to, steps_.begin() + step, [&](const Step& other) {
    return !(writes_variables && other.checks) && !overlap(outputs(moved), inputs(other)) &&
           !overlap(outputs(moved), outputs(other)) && !overlap(outputs(moved), scratch(other)) &&
           !overlap(inputs(moved), outputs(other)) && !overlap(inputs(moved), scratch(other));
  });
}

Executable::Entries Executable::inputs(const Step& step) const {
  return Entries(entries_).subspan(step.first, step.inputs);
}

Executable::Entries Executable::outputs(const Step& step) const {
  return Entries(entries_).subspan(step.first + step.inputs, step.outputs);
}

bool Executable::overlap(Entries a, Entries b) {
  return std::ranges::any_of(
      a, [&](const Entry& x) { return std::ranges::any_of(b, [&](const Entry& y) { return overlap(x, y); }); });
}

bool Executable::overlap(Entries a, const Entry& b) { return overlap(a, Entries(&b, 1)); }

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
