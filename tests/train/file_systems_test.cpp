// Checkpoints and tables on disks that are not what they should be.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "tests/train/folder.h"
#include "tests/train/rows.h"
#include "thalweg/checkpoint/manager.h"
#include "thalweg/core/file_writer.h"
#include "thalweg/thalweg.h"

namespace {
bool exchanges = true;  // else the file system cannot, as those of networks
}

extern "C" int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) noexcept {
  if (exchanges || flags == 0)
    return static_cast<int>(::syscall(SYS_renameat2, from_folder, from, to_folder, to, flags));
  errno = EINVAL;
  return -1;
}

namespace thalweg {
namespace {

using checkpoint::Manager;
using testing::Folder;
using testing::rows;

class WithoutExchange {
 public:
  WithoutExchange() { exchanges = false; }
  ~WithoutExchange() { exchanges = true; }
};

std::int64_t entries_of(const Folder& folder) {
  return std::distance(std::filesystem::directory_iterator(folder.path()), {});
}

TEST(file_systems, a_step_is_replaced_where_names_cannot_be_exchanged) {
  const WithoutExchange here;
  const Folder folder;
  Variable w(tensor(1.f));
  Manager manager(folder.path());
  manager.save(1, {{"w", &w}});
  w.assign(tensor(2.f));
  manager.save(1, {{"w", &w}});
  w.assign(tensor(0.f));
  EXPECT_EQ(manager.restore_latest({{"w", &w}}), 1);
  EXPECT_EQ(w.value().item<float>(), 2);
  EXPECT_EQ(entries_of(folder), 2);  // step-1, latest
}

TEST(file_systems, a_replacement_in_two_that_fails_leaves_the_old_state) {
  const WithoutExchange here;
  bool failed = true;
  for (int k = 0; failed && k < 100; ++k) {
    const Folder folder;
    Variable w(tensor(1.f));
    Manager manager(folder.path());
    manager.save(1, {{"w", &w}});
    w.assign(tensor(2.f));
    int calls = 0;
    set_file_fault([&](const char* call) {
      if (calls++ == k) throw Error(ErrorCode::unavailable, "checkpoint", std::string("no space: ") + call, "a test");
    });
    failed = false;
    try {
      manager.save(1, {{"w", &w}});
    } catch (const Error&) {
      failed = true;
    }
    set_file_fault({});
    w.assign(tensor(0.f));
    EXPECT_EQ(manager.restore_latest({{"w", &w}}), 1) << k;
    EXPECT_EQ(entries_of(folder), 2) << k;
    EXPECT_TRUE(failed || w.value().item<float>() == 2);
  }
  EXPECT_FALSE(failed);
}

// The last step of a run is saved by itself, and again with the end of its epoch.
TEST(file_systems, a_run_ends_where_names_cannot_be_exchanged) {
  const WithoutExchange here;
  const Folder folder;
  nn::Sequential model({nn::dense(1)});
  optim::SGD sgd;
  const auto history = train::fit(model, rows(16).batch(8),
                                  {.optimizer = &sgd,
                                   .loss = losses::mean_squared_error,
                                   .callbacks = {train::checkpoint_every(folder.path(), {.steps = 1})}});
  EXPECT_EQ(history.steps, 2);
}

TEST(file_systems, what_cannot_be_read_is_damaged) {
  const Folder folder;
  Variable w(tensor(1.f));
  Manager manager(folder.path());
  for (const char* name : {"step-2/manifest.json", "step-2/w.safetensors"}) {
    for (const int step : {1, 2}) manager.save(step, {{"w", &w}});
    std::filesystem::remove(folder.path(name));
    std::filesystem::create_directory(folder.path(name));  // to read it is an error of the system
    EXPECT_EQ(manager.restore_latest({{"w", &w}}), 1) << name;
  }
}

TEST(file_systems, a_model_that_was_saved_before_its_first_call_is_restored) {
  const Folder folder;
  nn::Sequential model({nn::dense(1)}), again({nn::dense(1)});
  optim::Adam adam, other;
  Manager(folder.path()).save(0, {{"model", &model}, {"optimizer", &adam}});
  Manager(folder.path()).restore_latest({{"model", &again}, {"optimizer", &other}});
  EXPECT_EQ(again(ones({1, 2})).shape(), (Shape{1, 1}));
  EXPECT_NO_THROW(other.build(again.trainable_variables()));
}

// The run, and the checkpoint of the epoch, are worth more than the table and the curves.
TEST(file_systems, a_table_that_cannot_be_written_costs_no_epoch) {
  const Folder folder;
  nn::Sequential model({nn::dense(1)});
  optim::SGD sgd;
  std::vector<std::string> warnings;
  set_log_handler([&](const std::string& text) { warnings.push_back(text); });
  const auto history =
      train::fit(model, rows(8).batch(8),
                 {.optimizer = &sgd,
                  .loss = losses::mean_squared_error,
                  .epochs = 2,
                  .callbacks = {train::csv("/dev/full"), train::checkpoint_every(folder.path("checkpoints"))}});
  set_log_handler({});
  EXPECT_EQ(history.steps, 2);
  EXPECT_TRUE(std::filesystem::exists(folder.path("checkpoints/step-2")));
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_TRUE(warnings[0].starts_with("csv: cannot write /dev/full: epochs from 0 on")) << warnings[0];
  EXPECT_THROW(
      train::fit(
          model, rows(8).batch(8),
          {.optimizer = &sgd, .loss = losses::mean_squared_error, .callbacks = {train::csv("/nowhere/log.csv")}}),
      Error);
}

// Files may not grow any more, as on a disk that is full.
class FullDisk {
 public:
  FullDisk() : handler_(::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit none{1, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &none);
  }
  ~FullDisk() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, handler_);
  }

 private:
  void (*handler_)(int);
  rlimit before_ = {};
};

TEST(file_systems, curves_that_cannot_be_written_cost_no_epoch) {
  const Folder folder;
  nn::Sequential model({nn::dense(1)});
  optim::SGD sgd;
  const auto curves = train::tensorboard(folder.path());
  std::vector<std::string> warnings;
  set_log_handler([&](const std::string& text) { warnings.push_back(text); });
  train::History history;
  {
    const FullDisk here;
    history = train::fit(model, rows(8).batch(8),
                         {.optimizer = &sgd, .loss = losses::mean_squared_error, .epochs = 3, .callbacks = {curves}});
  }
  set_log_handler({});
  EXPECT_EQ(history.steps, 3);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_TRUE(warnings[0].starts_with("the event file of the run ends here: [summary] cannot write")) << warnings[0];
}

}  // namespace
}  // namespace thalweg
