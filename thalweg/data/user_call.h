#pragma once

#include <utility>

#include "thalweg/core/dispatch.h"
#include "thalweg/core/ordinal.h"
#include "thalweg/core/scopes.h"
#include "thalweg/core/tracer.h"

namespace thalweg::data {

// The surroundings in which a function of the user runs: the same on every thread and with any consumer. No tape
// records it, no trace sees it, it is not in training, and its random ops are numbered by `call`.
class UserCall {
 public:
  explicit UserCall(std::uint64_t call) : trace_(nullptr), numbers_(call), scopes_(std::exchange(scopes(), Scopes())) {}
  ~UserCall() { scopes() = scopes_; }
  UserCall(const UserCall&) = delete;

 private:
  PauseRecording recording_;
  TraceScope trace_;
  random::CallScope numbers_;
  Scopes scopes_;
};

// Where in a tree of datasets a stage is opened, so that those of different inputs of zip, concatenate and interleave
// draw different random numbers: 0 for what has one source alone. `lasting` is the same without the element that
// interleave opens a dataset for, which is what a cache that several of them share is made by.
struct Branch {
  std::uint64_t number = 0, lasting = 0;
};
Branch branch();  // that is being opened on this thread

class BranchScope {
 public:
  explicit BranchScope(Branch now);
  ~BranchScope();
  BranchScope(const BranchScope&) = delete;

 private:
  Branch before_;
};

// What numbers the calls of a stage, before the epoch and the element: the `earlier`-th of its kind, from 0.
std::uint64_t stage_number(std::uint64_t kind, int earlier);
// The same, made one of the branch that is being opened.
std::uint64_t in_branch(std::uint64_t stage);
// States of versions in which stages behind each other drew the same random numbers in different epochs do not fit.
inline const char* settings_of_stage(int earlier) { return earlier > 0 ? " mixed" : ""; }

// Throws what is being handled, as an Error that names the stage and the element. The hint is for exceptions of other
// kinds, which have none.
[[noreturn]] void throw_user_error(const char* stage, std::int64_t index, const char* hint);

inline constexpr const char* goes_on =
    "the iterator goes on behind this element; filter such elements out or change the function";

// f(), a call for element `index` of the stage.
template <class F>
auto call_user(const char* stage, std::uint64_t call, std::int64_t index, F&& f, const char* hint = goes_on) {
  const UserCall surroundings(call);
  try {
    return f();
  } catch (...) {
    throw_user_error(stage, index, hint);
  }
}

}  // namespace thalweg::data
