#pragma once

// The public function that a loss or a metric is, while its ops run on this thread: errors of the ops name it.

namespace thalweg {

const char* current_caller();  // null: none

// While it lives, this thread works for the function. One called by another leaves the name of the outer one. The text
// must outlive it.
class CallerScope {
 public:
  explicit CallerScope(const char* name);
  ~CallerScope();
  CallerScope(const CallerScope&) = delete;

 private:
  const char* outer_;
};

}  // namespace thalweg
