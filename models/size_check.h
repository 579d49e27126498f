#pragma once

#include <cstdint>
#include <string>

namespace thalweg::models {

// What a model takes at least, told by its settings before anything is built: a model that the free memory cannot hold
// is refused at once, with the bytes.
class SizeCheck {
 public:
  // `times` parts of so many weights each; `what` is the setting to lower.
  SizeCheck& add(double weights, const char* what, std::int64_t times = 1);
  // Throws resource_exhausted.
  void done(const std::string& model) const;

 private:
  double bytes_ = 0;
  double most_ = 0;  // that one call has added
  const char* what_ = "";
};

}  // namespace thalweg::models
