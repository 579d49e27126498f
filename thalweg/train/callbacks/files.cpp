// Callbacks that write files: checkpoints, event files, tables.
#include <algorithm>
#include <filesystem>
#include <fstream>

#include "thalweg/checkpoint/manager.h"
#include "thalweg/core/atomic_file.h"
#include "thalweg/core/check.h"
#include "thalweg/core/log.h"
#include "thalweg/ops/ops.h"
#include "thalweg/summary/writer.h"
#include "thalweg/train/callbacks.h"

namespace thalweg::train {
namespace {

// The first variable that no run could go on with; empty: there is none. A mask may be infinite, and moments of some
// rules: NaNs never are meant.
std::string first_lost(const Session& session) {
  std::vector<Variable> all = session.model.variables();
  const auto weights = static_cast<std::ptrdiff_t>(all.size());
  const auto others = session.optimizer.variables();
  all.insert(all.end(), others.begin(), others.end());
  const auto lost = std::find_if(all.begin(), all.end(), [&](const Variable& variable) {
    if (!is_float(variable.dtype())) return false;
    const Tensor value = variable.value();
    const bool is_weight = &variable - all.data() < weights && variable.trainable();
    return !reduce_all(is_weight ? isfinite(value) : equal(value, value)).item<bool>();
  });
  return lost == all.end() ? "" : lost->name();
}

class CheckpointEvery : public Callback {
 public:
  CheckpointEvery(const std::string& folder, const CheckpointEveryOptions& options)
      : options_(options), manager_(folder, {.keep = options.keep}) {
    TW_CHECK_USER(options.epochs >= 0 && options.steps >= 0, "checkpoint_every", "0 switches one of them off",
                  "expected .epochs and .steps of 0 or more, got {} and {}", options.epochs, options.steps);
  }

  void on_resume(Session& session) override {
    TW_CHECK(failed_precondition, options_.resume || manager_.steps().empty(), "checkpoint_every",
             "go on with it by {.resume = true}, or choose another folder",
             "expected a folder without checkpoints, got {} with those of another run", manager_.folder());
    if (options_.resume) manager_.restore_latest(session.items);
  }

  void on_settled(Session& session, bool epoch) override {
    const bool by_steps = !epoch && options_.steps > 0 && session.step % options_.steps == 0;
    const bool by_epochs = epoch && options_.epochs > 0 && (session.epoch + 1) % options_.epochs == 0;
    const bool last = session.over() || (epoch && session.epoch + 1 >= session.epochs);
    if ((by_steps || by_epochs || last) && is_sound(session)) manager_.save(session.step, session.items);
  }

 private:
  // Weights that are lost would take the place of the last good ones, and of those before with time.
  bool is_sound(const Session& session) {
    const std::string name = first_lost(session);
    if (name.empty() || std::exchange(warned_, true)) return name.empty();
    const auto steps = manager_.steps();
    warn(fmt::format("checkpoint_every: {} is not finite after step {}, which is not saved; {}", name, session.step,
                     steps.empty()
                         ? "there is no checkpoint before it"
                         : fmt::format("{}/step-{} has the last good weights", manager_.folder(), steps.back())));
    return false;
  }

  const CheckpointEveryOptions options_;
  checkpoint::Manager manager_;
  bool warned_ = false;  // that the run is lost
};

class Tensorboard : public Callback {
 public:
  Tensorboard(const std::string& folder, const TensorboardOptions& options) : options_(options), writer_(folder) {
    TW_CHECK_USER(options.gradient_norms_every >= 0, "tensorboard", "0 switches them off",
                  "expected .gradient_norms_every of 0 or more, got {}", options.gradient_norms_every);
  }

  bool wants_gradient_norms() const override { return options_.gradient_norms_every > 0; }

  void on_step_end(Session& session) override {
    try_to([&] { write_step(session); });
  }
  void on_epoch_end(Session& session) override {
    try_to([&] { write_epoch(session); });
  }
  void on_end(Session&) override {
    try_to([&] { writer_.flush(); });
  }

 private:
  // A disk that is full by now is no reason to lose the steps since the last checkpoint.
  template <class Write>
  void try_to(Write write) {
    if (lost_) return;
    try {
      write();
    } catch (const Error& error) {
      lost_ = true;
      warn("the event file of the run ends here: " + std::string(error.what()));
    }
  }
  void write_step(const Session& session) {
    writer_.scalar("train/loss", session.loss, session.step);
    writer_.scalar("train/learning_rate", session.optimizer.learning_rate().item<double>(), session.step);
    if (!session.gradient_norms.empty()) writer_.scalar("train/gradient_norm", session.gradient_norm(), session.step);
    if (options_.gradient_norms_every == 0 || session.step % options_.gradient_norms_every != 0) return;
    for (std::size_t i = 0; i < session.gradient_norms.size(); ++i)
      writer_.scalar("gradients/" + session.gradient_names[i], session.gradient_norms[i], session.step);
  }
  void write_epoch(const Session& session) {
    for (const auto& [name, value] : session.logs) {
      const bool validation = name.starts_with("val_");
      writer_.scalar(validation ? "validation/" + name.substr(4) : "epoch/" + name, value, session.step);
    }
    writer_.flush();
  }

  const TensorboardOptions options_;
  summary::Writer writer_;
  bool lost_ = false;  // part of an event was written: what follows could not be read
};

class Csv : public Callback {
 public:
  explicit Csv(std::string path) : path_(std::move(path)) {}

  void on_begin(Session& session) override {
    headed_ = session.step > 0 && std::filesystem::is_regular_file(path_) && has_head();
    if (headed_) cut_back(session);
    file_ = std::ofstream(path_, headed_ ? std::ios::app : std::ios::trunc);
    warned_ = false;
    check();
  }
  void on_epoch_end(Session& session) override {
    if (!headed_) {
      file_ << "epoch,step";
      for (const auto& entry : session.logs) file_ << ',' << entry.first;
      file_ << '\n';
      headed_ = true;
    }
    file_ << session.epoch << ',' << session.step;
    for (const auto& entry : session.logs) file_ << ',' << fmt::format("{}", entry.second);
    file_ << '\n';
    file_.flush();
    if (file_.good() || std::exchange(warned_, true)) return;
    warn("csv: cannot write " + path_ + ": epochs from " + std::to_string(session.epoch) + " on are missing in it");
  }

 private:
  // A run that died in its first epoch left none.
  bool has_head() const {
    std::ifstream before(path_);
    std::string line;
    return std::getline(before, line) && !before.eof();
  }
  // To the head and the epochs before the checkpoint that the run goes on from: later ones come again. The table need
  // not begin with the first one.
  void cut_back(const Session& session) const {
    const auto epochs = static_cast<std::int64_t>(session.history.epochs.size());
    std::ifstream before(path_);
    AtomicFile file("csv", path_);
    std::string line;
    for (bool head = true; std::getline(before, line); head = false) {
      if (!head && std::strtoll(line.c_str(), nullptr, 10) >= epochs) continue;
      line += '\n';
      file.write(line.data(), line.size());
    }
    file.commit();
  }
  void check() const {
    TW_CHECK(unavailable, file_.good(), "csv", "choose a file in a folder that exists and may be written to",
             "cannot write {}", path_);
  }
  const std::string path_;
  std::ofstream file_;
  bool headed_ = false;
  bool warned_ = false;  // that the table cannot be written
};

class Keep : public Callback {
 public:
  explicit Keep(History& into) : into_(into) {}
  void on_epoch_end(Session& session) override { into_ = session.history; }
  void on_end(Session& session) override { into_ = session.history; }

 private:
  History& into_;
};

}  // namespace

CallbackPointer checkpoint_every(const std::string& folder, const CheckpointEveryOptions& options) {
  return std::make_shared<CheckpointEvery>(folder, options);
}
CallbackPointer tensorboard(const std::string& folder, const TensorboardOptions& options) {
  return std::make_shared<Tensorboard>(folder, options);
}
CallbackPointer csv(const std::string& path) { return std::make_shared<Csv>(path); }
CallbackPointer history(History& into) { return std::make_shared<Keep>(into); }

}  // namespace thalweg::train
