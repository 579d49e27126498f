#include "thalweg/data/user_call.h"

#include "thalweg/core/check.h"

namespace thalweg::data {
namespace {

thread_local Branch open_branch;

}  // namespace

Branch branch() { return open_branch; }
BranchScope::BranchScope(Branch now) : before_(std::exchange(open_branch, now)) {}
BranchScope::~BranchScope() { open_branch = before_; }

// The epoch is joined by exclusive or, so that numbers close to each other would meet in other epochs. The first stage
// of a kind keeps the number that it always had.
std::uint64_t stage_number(std::uint64_t kind, int earlier) {
  return earlier == 0 ? kind : random::in_call(kind, random::in_call(static_cast<std::uint64_t>(earlier), 0x7374));
}

std::uint64_t in_branch(std::uint64_t stage) {
  return open_branch.number == 0 ? stage : random::in_call(stage, random::in_call(open_branch.number, 0x6272));
}

void throw_user_error(const char* stage, std::int64_t index, const char* hint) {
  try {
    throw;
  } catch (const Error& error) {
    throw error.at(fmt::format("element {} of {}", index, stage));
  } catch (const std::exception& error) {
    TW_FAIL(failed_precondition, stage, hint, "the function failed at element {}: {}", index, error.what());
  } catch (...) {
    TW_FAIL(failed_precondition, stage, hint, "the function failed at element {} with an exception of unknown type",
            index);
  }
}

}  // namespace thalweg::data
