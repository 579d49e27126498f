#pragma once

// What a step file holds: functions over one table of variables, and how their random numbers go on.
#include "thalweg/plan/file/container.h"
#include "thalweg/plan/function.h"
#include "thalweg/plan/saved_graph.h"

namespace thalweg {

struct StepEntry {
  FunctionOptions options;  // the name is that of the entry
  detail::FunctionCore::SavedGraphs graphs;
};

struct StepFile {
  std::vector<StepEntry> entries;             // the step itself comes first
  std::map<std::string, Variable> variables;  // filled by reading; writing takes those of the graphs
  std::shared_ptr<CallNumbers> numbers;       // null: those of the process
};

// Values, versions and random numbers as they are at one moment, when no plan assigns. Variables of equal names are
// told apart by a number, and a warning says so.
void write_step(const ByteSink& sink, const StepFile& step);
void write_step(const std::string& path, const StepFile& step);  // whole or not at all

// Makes new variables. Throws data_loss if anything is wrong with the bytes.
StepFile read_step(const ByteSource& source);
StepFile read_step(const std::string& path);

}  // namespace thalweg
