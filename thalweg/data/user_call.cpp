#include "thalweg/data/user_call.h"

#include "thalweg/core/check.h"

namespace thalweg::data {

void throw_user_error(const char* stage, std::int64_t index) {
  constexpr auto hint = "the iterator goes on behind this element; filter such elements out or change the function";
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
