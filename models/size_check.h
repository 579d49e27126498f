#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "models/optimizers.h"

namespace thalweg::models {

// What is known of a training before anything is built.
struct TrainingSize {
  std::string optimizer = {};  // empty: the model's own
  int accumulate_steps = 1;
  bool eager = false;
  // The data decide on sizes that are not set: as far as they have, these are here, by the names of the settings.
  bool from_data = false;
  std::map<std::string, std::int64_t> sizes = {};
  std::int64_t examples = 0;  // of a batch; 0: none is made
  double batch_bytes = 0;     // of its inputs
};

// What the training of a model takes at least, told by its settings before anything is built: one that the free memory
// cannot hold is refused at once, with the bytes. Counted is only what no plan can do without, so that nothing that
// would fit is refused: the weights, the optimizer's state for each, gradients where all of them are held (steps that
// are not compiled, or that accumulate), the inputs of a batch. Activations depend on the plan.
class SizeCheck {
 public:
  explicit SizeCheck(const TrainingSize& training) : training_(training) {}

  void trains_with(const OptimizerChoice& own);  // first: the model's own optimizer
  // `times` parts of so many weights each; `what` is the setting to lower.
  SizeCheck& add(double weights, const char* what, std::int64_t times = 1);
  SizeCheck& add_blocks(double weights, const char* what, std::int64_t times);  // of many layers each
  SizeCheck& add_tables(double weights, const char* what, std::int64_t times);  // whose gradients are rows
  SizeCheck& add_batch();
  // A size that the data may decide on: as long as they have not, it is only known to be 1 or more.
  double known(const char* name, std::int64_t setting, bool is_set) const;
  bool from_data() const { return training_.from_data; }
  // Throws resource_exhausted.
  void done(const std::string& model) const;

 private:
  SizeCheck& add(double weights, const char* what, std::int64_t times, double beside, bool gradients);
  double bytes() const { return weights_ + beside_ + slots_ + gradients_ + batch_; }
  void blame(double bytes, const char* what);
  std::string counted() const;

  TrainingSize training_;
  std::string rule_;
  double copies_ = 0;                                                        // of the weights, in the optimizer's state
  double weights_ = 0, beside_ = 0, slots_ = 0, gradients_ = 0, batch_ = 0;  // bytes
  double most_ = 0;                                                          // that one call has added
  const char* what_ = "";
};

}  // namespace thalweg::models
