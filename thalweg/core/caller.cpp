#include "thalweg/core/caller.h"

namespace thalweg {
namespace {

thread_local const char* current = nullptr;

}  // namespace

const char* current_caller() { return current; }

CallerScope::CallerScope(const char* name) : outer_(current) {
  if (!outer_) current = name;
}
CallerScope::~CallerScope() { current = outer_; }

}  // namespace thalweg
