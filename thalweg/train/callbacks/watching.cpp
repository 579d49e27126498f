// Callbacks that watch a value and act when it ceases to improve.
#include <cctype>
#include <cmath>
#include <limits>
#include <sstream>

#include "thalweg/core/check.h"
#include "thalweg/core/log.h"
#include "thalweg/core/mask.h"
#include "thalweg/train/callbacks.h"

namespace thalweg::train {
namespace {

bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }

// Whether the name has the score in it; a short one as a word of its own, which "error2" and "accumulated" do not have.
bool names(const std::string& name, const std::string& score, bool is_short) {
  for (auto at = name.find(score); at != std::string::npos; at = name.find(score, at + 1)) {
    const auto end = at + score.size();
    if (!is_short || ((at == 0 || !is_letter(name[at - 1])) && (end == name.size() || !is_letter(name[end]))))
      return true;
  }
  return false;
}

bool higher_is_better(const std::string& monitor, Better better) {
  if (better != Better::automatic) return better == Better::higher;
  for (const char* score : {"accuracy", "auc", "precision", "recall", "fbeta", "iou", "top_k", "cosine_similarity",
                            "true_positives", "true_negatives"})
    if (names(monitor, score, false)) return true;
  for (const char* score : {"acc", "f1", "r2"})
    if (names(monitor, score, true)) return true;
  return false;
}

void check_patience(const char* name, int patience) {
  TW_CHECK_USER(patience >= 0, name, "so many epochs may pass without a better value",
                "expected .patience of 0 or more, got {}", patience);
}

// The best value so far, and for how many epochs there was none better.
class Watch {
 public:
  Watch(std::string monitor, Better better, double min_delta)
      : monitor_(std::move(monitor)), higher_(higher_is_better(monitor_, better)), min_delta_(std::abs(min_delta)) {
    forget();
  }

  // A run that follows another one, whether that came to its end or not, starts without its best value, unless that was
  // read from a checkpoint. True: so it does.
  bool begin(const Session& session) {
    const bool anew = over_ || session.step == 0;
    if (anew) forget();
    return anew;
  }
  void end() { over_ = true; }

  // Whether the value is there; then improved() and waited() tell of it.
  bool look(const Logs& logs) {
    const auto value = logs.find(monitor_);
    if (!value && !warned_) warn("fit: \"" + monitor_ + "\" is not measured, so that nothing is done about it");
    warned_ |= !value;
    if (!value) return false;
    improved_ = std::isfinite(*value) && (higher_ ? *value - min_delta_ > best_ : *value + min_delta_ < best_);
    if (improved_) best_ = *value;
    waited_ = improved_ ? 0 : waited_ + 1;
    return true;
  }

  bool improved() const { return improved_; }
  int waited() const { return waited_; }
  void wait_anew() { waited_ = 0; }
  double best() const { return best_; }
  const std::string& monitor() const { return monitor_; }

  std::string to_text() const { return fmt::format("{:a} {}", best_, waited_); }
  void from_text(std::istringstream& in) {
    std::string best;
    in >> best >> waited_;
    best_ = std::strtod(best.c_str(), nullptr);
    over_ = false;
  }

 private:
  void forget() {
    best_ = higher_ ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
    waited_ = 0;
    over_ = false;
  }

  const std::string monitor_;
  const bool higher_;
  const double min_delta_;
  double best_ = 0;
  int waited_ = 0;
  bool improved_ = false, warned_ = false, over_ = false;
};

class EarlyStopping : public Callback {
 public:
  explicit EarlyStopping(const EarlyStoppingOptions& options)
      : options_(options), watch_(options.monitor, options.better, options.min_delta) {
    check_patience("early_stopping", options.patience);
  }

  // Nothing is left to do in a run that was stopped at the end of the epoch whose checkpoint it is read from.
  void on_begin(Session& session) override {
    if (watch_.begin(session)) best_.clear();
    const bool at_end = static_cast<std::int64_t>(session.history.epochs.size()) > session.epoch;
    if (at_end && session.epoch > 0 && waited_enough()) stop(session);
  }

  void on_epoch_end(Session& session) override {
    if (session.epoch < options_.start_from_epoch || !watch_.look(session.logs)) return;
    if (watch_.improved() && options_.restore_best_weights) remember(session.model);
    if (waited_enough() && session.epoch > 0) stop(session);
  }

  void on_end(Session& session) override {
    if (!best_.empty()) session.model.set_weights(best_);
    watch_.end();
  }

  std::optional<checkpoint::Item> state() override {
    return checkpoint::Item(
        "early_stopping",
        [this] {
          return checkpoint::ItemState{best_, watch_.to_text()};
        },
        [this](const checkpoint::ItemState& state) {
          std::istringstream in(state.text);
          watch_.from_text(in);
          best_ = state.tensors;
        });
  }

 private:
  bool waited_enough() const { return watch_.waited() >= std::max(1, options_.patience); }
  void stop(Session& session) const {
    session.stop(std::isfinite(watch_.best())
                     ? fmt::format("{} did not improve on {:.6g} for {} epochs", watch_.monitor(), watch_.best(),
                                   watch_.waited())
                     : fmt::format("{} was not finite for {} epochs", watch_.monitor(), watch_.waited()));
  }

  // With the masks of the pruned ones, which may have fewer zeros now than in the end.
  void remember(const nn::Module& model) {
    best_.clear();
    for (const auto& variable : model.variables()) {
      best_.emplace(variable.name(), variable.value());
      if (const Variable mask = mask_of(variable); mask.defined()) best_.emplace(mask_name(variable), mask.value());
    }
  }

  const EarlyStoppingOptions options_;
  Watch watch_;
  std::map<std::string, Tensor> best_;
};

class ReduceOnPlateau : public Callback {
 public:
  explicit ReduceOnPlateau(const PlateauOptions& options)
      : options_(options), watch_(options.monitor, options.better, options.min_delta) {
    TW_CHECK_USER(options.factor > 0 && options.factor < 1, "reduce_on_plateau", "0.1 is usual",
                  "expected .factor between 0 and 1, got {}", options.factor);
    check_patience("reduce_on_plateau", options.patience);
  }

  void on_begin(Session& session) override {
    if (watch_.begin(session)) resting_ = 0;
    session.optimizer.lower_learning_rate(1);  // a schedule refuses it now
  }
  void on_end(Session&) override { watch_.end(); }

  void on_epoch_end(Session& session) override {
    if (resting_ > 0) watch_.wait_anew();
    if (!watch_.look(session.logs)) return;
    if (resting_ > 0 && --resting_ > 0) watch_.wait_anew();
    if (watch_.waited() < std::max(1, options_.patience)) return;
    session.optimizer.lower_learning_rate(options_.factor, options_.min_rate);
    resting_ = options_.cooldown;
    watch_.wait_anew();
  }

  std::optional<checkpoint::Item> state() override {
    return checkpoint::Item(
        "reduce_on_plateau",
        [this] {
          return checkpoint::ItemState{{}, fmt::format("{} {}", resting_, watch_.to_text())};
        },
        [this](const checkpoint::ItemState& state) {
          std::istringstream in(state.text);
          in >> resting_;
          watch_.from_text(in);
        });
  }

 private:
  const PlateauOptions options_;
  Watch watch_;
  int resting_ = 0;
};

class RateSchedule : public Callback {
 public:
  explicit RateSchedule(std::function<double(std::int64_t, double)> schedule) : schedule_(std::move(schedule)) {}
  void on_epoch_begin(Session& session) override {
    if (session.epoch_step > 0) return;  // a resumed run goes on inside of the epoch, with its rate
    session.optimizer.set_learning_rate(schedule_(session.epoch, session.optimizer.learning_rate().item<double>()));
  }

 private:
  const std::function<double(std::int64_t, double)> schedule_;
};

class StopOnNan : public Callback {
 public:
  void on_step_end(Session& session) override {
    if (std::isfinite(session.loss)) return;
    const std::string data = session.not_finite();
    session.stop(fmt::format("the loss of step {} is {}{}", session.step, session.loss,
                             data.empty() ? "" : ": the data have " + data));
  }
};

}  // namespace

CallbackPointer early_stopping(const EarlyStoppingOptions& options) { return std::make_shared<EarlyStopping>(options); }
CallbackPointer reduce_on_plateau(const PlateauOptions& options) { return std::make_shared<ReduceOnPlateau>(options); }
CallbackPointer learning_rate_schedule(std::function<double(std::int64_t, double)> schedule) {
  return std::make_shared<RateSchedule>(std::move(schedule));
}
CallbackPointer stop_on_nan() { return std::make_shared<StopOnNan>(); }

}  // namespace thalweg::train
