#include "thalweg/data/user_call.h"

#include "thalweg/core/check.h"

namespace thalweg::data {

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
