// Checkpoints: training goes on with the same bits, and no crash or damage leaves anything but an old or a new state.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <limits>
#include <thread>

#include "tests/train/folder.h"
#include "thalweg/core/file_writer.h"
#include "thalweg/thalweg.h"

namespace thalweg {
namespace {

using checkpoint::Manager;
using testing::Folder;
using testing::read_file;
using testing::write_file;

// A small net with dropout and batch norm, so that random numbers and moving statistics matter.
struct Training {
  nn::Sequential model{{nn::dense(6, relu), nn::dropout(0.5), nn::batch_norm(), nn::dense(1)}};
  optim::Adam adam{{.learning_rate = 0.05, .ema_momentum = 0.9}};
  Function<std::function<Tensor(Tensor, Tensor)>> step{[this](const Tensor& x, const Tensor& y) {
                                                         const auto training = nn::training(true);
                                                         GradientTape tape;
                                                         const Tensor loss = losses::mean_squared_error(y, model(x));
                                                         const auto variables = model.trainable_variables();
                                                         adam.apply(tape.gradient(loss, variables), variables);
                                                         return loss;
                                                       },
                                                       {}};
  std::vector<checkpoint::NamedItem> items() { return {{"model", &model}, {"optimizer", &adam}}; }

  std::vector<float> train(int from, int to) {
    std::vector<float> losses;
    for (int i = from; i < to; ++i) {
      const auto seed = static_cast<std::uint64_t>(i + 1);
      const Tensor x = random::normal({16, 3}, {.seed = seed});
      losses.push_back(step(x, reduce_sum(x, {.axes = {1}, .keepdims = true})).item<float>());
    }
    return losses;
  }
};

ErrorCode code_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.code();
  }
  return ErrorCode::internal;
}

TEST(checkpoint, training_goes_on_with_the_same_bits) {
  const Folder folder;
  std::vector<float> wanted;
  {
    random::set_seed(3);
    Training run;
    run.train(0, 5);
    Manager(folder.path()).save(5, run.items());
    wanted = run.train(5, 12);
  }
  random::set_seed(99);
  Training run;  // nothing of it is built yet
  EXPECT_EQ(Manager(folder.path()).restore_latest(run.items()), 5);
  EXPECT_EQ(run.train(5, 12), wanted);
  EXPECT_EQ(Manager(folder.path()).restore_latest(run.items()), 5);  // and now all of it is
  EXPECT_EQ(run.train(5, 12), wanted);
  EXPECT_EQ(std::int64_t{run.adam.iterations()}, 12);
}

// Zeros of the first kernel after each step of a schedule that has its last change at step 8.
struct Pruned : Training {
  void prune() {
    model(zeros({16, 3}));
    pruning.emplace(nn::prune(model, {.sparsity = 0.8, .schedule = nn::PruneSchedule{.end = 8, .every = 2}}));
  }
  std::vector<double> sparsities(int from, int to) {
    std::vector<double> seen;
    for (int i = from; i < to; ++i) {
      if (pruning) pruning->update(i);
      train(i, i + 1);
      seen.push_back(reduce_mean(cast(model.variables()[0].value() == 0, f64)).item<double>());
    }
    return seen;
  }
  std::vector<float> kernel() const { return model.variables()[0].value().to_vector<float>(); }
  std::optional<nn::Pruning> pruning;
};

TEST(checkpoint, pruning_goes_on_with_its_masks_and_its_schedule) {
  const Folder folder;
  random::set_seed(3);
  Pruned whole;
  whole.prune();
  whole.sparsities(0, 5);
  Manager(folder.path()).save(5, whole.items());
  const auto wanted = whole.sparsities(5, 12);
  EXPECT_GT(wanted[0], 0.5);
  EXPECT_LT(wanted[0], wanted.back());
  EXPECT_NEAR(wanted.back(), 0.8, 0.05);
  for (const bool pruned_first : {false, true}) {
    SCOPED_TRACE(pruned_first);
    random::set_seed(99);
    Pruned again;
    if (pruned_first) again.prune();
    EXPECT_EQ(Manager(folder.path()).restore_latest(again.items()), 5);
    if (!pruned_first) again.prune();  // building the model does not change it
    EXPECT_EQ(again.sparsities(5, 12), wanted);
    EXPECT_EQ(again.kernel(), whole.kernel());
  }
  Pruned held;  // without a schedule the masks stay as they were
  Manager(folder.path()).restore_latest(held.items());
  EXPECT_EQ(held.sparsities(5, 9), std::vector<double>(4, wanted[0]));
}

TEST(checkpoint, one_from_before_pruning_brings_whole_weights_back) {
  const Folder folder;
  Pruned run;
  run.sparsities(0, 2);
  Manager(folder.path()).save(2, run.items());
  const auto wanted = run.kernel();
  nn::prune(run.model, {.sparsity = 0.5});
  EXPECT_NE(run.kernel(), wanted);
  Manager(folder.path()).restore_latest(run.items());
  EXPECT_EQ(run.kernel(), wanted);
  EXPECT_EQ(run.sparsities(2, 4), std::vector<double>(2, 0));
}

TEST(checkpoint, keeps_the_newest_and_names_the_last) {
  const Folder folder;
  Variable w(tensor({1.f, 2.f}), {.name = "w"});
  Manager manager(folder.path(), {.keep = 2});
  EXPECT_EQ(manager.restore_latest({{"w", &w}}), std::nullopt);
  for (int step : {1, 2, 3, 10}) {
    w.assign(full({2}, static_cast<float>(step)));
    manager.save(step, {{"w", &w}});
  }
  EXPECT_EQ(manager.steps(), (std::vector<std::int64_t>{3, 10}));
  EXPECT_EQ(read_file(folder.path("latest")), "step-10\n");
  w.assign(zeros({2}));
  manager.restore(3, {{"w", &w}});
  EXPECT_EQ(w.value().to_vector<float>(), (std::vector<float>{3, 3}));
  EXPECT_EQ(code_of([&] { manager.restore(2, {{"w", &w}}); }), ErrorCode::not_found);
}

// A run that went back to an earlier step must not lose what it saves beside the checkpoints of later ones.
TEST(checkpoint, what_was_saved_last_stays) {
  const Folder folder;
  Variable w(tensor(0.f), {.name = "w"});
  Manager manager(folder.path(), {.keep = 3});
  for (int step : {10, 20, 30, 40}) manager.save(step, {{"w", &w}});
  std::string warnings;
  set_log_handler([&](const std::string& text) { warnings += text; });
  w.assign(tensor(5.f));
  manager.save(15, {{"w", &w}});
  set_log_handler({});
  EXPECT_EQ(manager.steps(), (std::vector<std::int64_t>{15, 30, 40}));
  EXPECT_NE(warnings.find("later steps than 15, up to 40"), std::string::npos) << warnings;
  w.assign(tensor(0.f));
  manager.restore(15, {{"w", &w}});
  EXPECT_EQ(w.value().item<float>(), 5);
}

TEST(checkpoint, the_same_step_is_replaced) {
  const Folder folder;
  Variable w(tensor(1.f));
  Manager manager(folder.path());
  manager.save(1, {{"w", &w}});
  w.assign(tensor(2.f));
  manager.save(1, {{"w", &w}});
  w.assign(tensor(0.f));
  EXPECT_EQ(manager.restore_latest({{"w", &w}}), 1);
  EXPECT_EQ(w.value().item<float>(), 2);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 2);  // step-1, latest
}

// Programs that train and serve have one for each.
TEST(checkpoint, another_manager_leaves_a_save_under_way_alone) {
  const Folder folder;
  Variable w(tensor(1.f));
  Manager manager(folder.path());
  int calls = 0;
  set_file_fault([&](const char*) {
    ++calls;
    std::thread([&] { EXPECT_LE(Manager(folder.path()).steps().size(), 1u); }).join();
  });
  w.assign(tensor(2.f));
  EXPECT_NO_THROW(manager.save(1, {{"w", &w}}));
  set_file_fault({});
  EXPECT_GT(calls, 5);
  w.assign(tensor(0.f));
  EXPECT_EQ(manager.restore_latest({{"w", &w}}), 1);
  EXPECT_EQ(w.value().item<float>(), 2);
}

TEST(checkpoint, what_a_manager_did_not_make_stays) {
  const Folder folder;
  const auto away = [&](const std::string& name) { return !std::filesystem::exists(folder.path(name)); };
  for (const char* name :
       {"notes.tmp-1", "step-5.tmp-mine", "step-5.tmp-1", "step-5.tmp-999999999-0", "latest.tmp-999999999-1"})
    write_file(folder.path(name), "text");
  const Manager manager(folder.path());
  EXPECT_FALSE(away("notes.tmp-1") || away("step-5.tmp-mine") || away("step-5.tmp-1"));
  EXPECT_TRUE(away("step-5.tmp-999999999-0") && away("latest.tmp-999999999-1"));  // of a process that is gone
}

// Every byte of every file, one bit at a time: the damage is seen, and the checkpoint before it is taken.
TEST(checkpoint, any_damage_is_seen) {
  const Folder folder;
  Variable w(tensor({1.f, 2.f}), {.name = "w"});
  Manager manager(folder.path());
  manager.save(1, {{"w", &w}});
  w.assign(tensor({3.f, 4.f}));
  manager.save(2, {{"w", &w}});
  std::int64_t damaged = 0;
  for (const std::string name : {"w.safetensors", "manifest.json"}) {
    const std::string path = folder.path("step-2/" + name), whole = read_file(path);
    const auto expect_fallback = [&](const std::string& what) {
      EXPECT_EQ(manager.restore_latest({{"w", &w}}), 1) << what;
      EXPECT_EQ(w.value().to_vector<float>(), (std::vector<float>{1, 2})) << what;
      EXPECT_EQ(manager.damaged(), ++damaged);
    };
    for (std::size_t i = 0; i < whole.size(); ++i) {
      if (name == "manifest.json" && std::isspace(static_cast<unsigned char>(whole[i]))) continue;
      std::string bytes = whole;
      bytes[i] = static_cast<char>(bytes[i] ^ (1 << (i % 7)));
      write_file(path, bytes);
      expect_fallback(name + " byte " + std::to_string(i));
    }
    write_file(path, whole.substr(0, whole.size() / 2));
    expect_fallback(name + " cut");
    std::filesystem::remove(path);
    expect_fallback(name + " gone");
    write_file(path, whole);
    EXPECT_EQ(manager.restore_latest({{"w", &w}}), 2);
  }
}

TEST(checkpoint, all_damaged_is_an_error_that_names_the_tensor) {
  const Folder folder;
  Variable w(tensor({1.f, 2.f}), {.name = "w"});
  Manager manager(folder.path());
  manager.save(1, {{"w", &w}});
  std::string bytes = read_file(folder.path("step-1/w.safetensors"));
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_file(folder.path("step-1/w.safetensors"), bytes);
  try {
    manager.restore_latest({{"w", &w}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::data_loss);
    EXPECT_NE(std::string(error.what()).find("tensor \"value\""), std::string::npos) << error.what();
  }
}

// A process that is killed at its k-th call to the system leaves the old state or the new one, for every k.
TEST(checkpoint, survives_a_kill_at_every_call) {
  bool finished = false;
  int kills = 0;
  for (int k = 0; !finished; ++k) {
    const Folder folder;
    Variable w(tensor({1.f, 2.f}));
    Manager(folder.path(), {.keep = 1}).save(1, {{"w", &w}});
    w.assign(tensor({3.f, 4.f}));
    const pid_t child = ::fork();
    if (child == 0) {
      int calls = 0;
      set_file_fault([&](const char*) {
        if (calls++ == k) ::_exit(7);
      });
      Manager(folder.path(), {.keep = 1}).save(2, {{"w", &w}});
      ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    finished = WEXITSTATUS(status) == 0;
    kills += !finished;
    w.assign(zeros({2}));
    Manager again(folder.path(), {.keep = 1});
    const auto step = again.restore_latest({{"w", &w}});
    EXPECT_EQ(w.value().to_vector<float>(), step == 2 ? (std::vector<float>{3, 4}) : (std::vector<float>{1, 2})) << k;
    EXPECT_EQ(again.damaged(), 0) << k;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
      EXPECT_EQ(entry.path().string().find(".tmp-"), std::string::npos) << entry.path();
  }
  EXPECT_GT(kills, 10);
}

TEST(checkpoint, a_failing_disk_leaves_the_old_state) {
  for (int k = 0;; ++k) {
    const Folder folder;
    Variable w(tensor(1.f));
    Manager manager(folder.path());
    manager.save(1, {{"w", &w}});
    w.assign(tensor(2.f));
    int calls = 0;
    set_file_fault([&](const char* call) {
      if (calls++ == k) throw Error(ErrorCode::unavailable, "checkpoint", std::string("no space: ") + call, "a test");
    });
    bool failed = false;
    try {
      manager.save(2, {{"w", &w}});
    } catch (const Error& error) {
      failed = true;
    }
    set_file_fault({});
    if (!failed) break;
    w.assign(tensor(0.f));
    const auto step = manager.restore_latest({{"w", &w}});
    EXPECT_EQ(w.value().item<float>(), static_cast<float>(*step)) << k;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
      EXPECT_EQ(entry.path().string().find(".tmp-"), std::string::npos) << k << entry.path();
  }
}

TEST(checkpoint, what_does_not_fit_changes_nothing) {
  const Folder folder;
  random::set_seed(1);
  Training run;
  run.train(0, 2);
  Manager manager(folder.path());
  manager.save(2, run.items());
  nn::Sequential other({nn::dense(7, relu), nn::dropout(0.5), nn::batch_norm(), nn::dense(1)});
  other(zeros({1, 3}));
  const auto before = other.variables()[0].value().to_vector<float>();
  EXPECT_EQ(code_of([&] { manager.restore_latest({{"model", &other}}); }), ErrorCode::invalid_argument);
  EXPECT_EQ(other.variables()[0].value().to_vector<float>(), before);
  auto ten = data::range(10).iterator(), nine = data::range(9).iterator();
  Variable w(tensor(1.f), {.name = "w"});
  manager.save(3, {{"w", &w}, {"data", &ten}});
  w.assign(tensor(2.f));
  EXPECT_EQ(code_of([&] { manager.restore(3, {{"w", &w}, {"data", &nine}}); }), ErrorCode::invalid_argument);
  EXPECT_EQ(w.value().item<float>(), 2);
  nn::Dense named({.units = 1, .name = "named"}), unbuilt({.units = 1, .name = "unbuilt"});
  named(zeros({1, 3}));
  manager.save(3, {{"w", &w}, {"model", &named}});
  w.assign(tensor(4.f));
  EXPECT_EQ(code_of([&] { manager.restore(3, {{"w", &w}, {"model", &unbuilt}}); }), ErrorCode::invalid_argument);
  EXPECT_EQ(w.value().item<float>(), 4);
  manager.save(4, run.items());
  EXPECT_EQ(code_of([&] { manager.restore_latest({{"network", &run.model}}); }), ErrorCode::not_found);
  EXPECT_EQ(code_of([&] { manager.restore_latest({{"model", &run.adam}}); }), ErrorCode::not_found);
  EXPECT_EQ(code_of([&] { manager.save(1, {{"a/b", &run.model}}); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { manager.save(-1, run.items()); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([] { Manager("/proc/none"); }), ErrorCode::unavailable);
  std::filesystem::remove_all(folder.path());
  EXPECT_EQ(code_of([&] { manager.restore_latest(run.items()); }), ErrorCode::unavailable);
}

TEST(checkpoint, an_optimizer_with_other_options_is_refused_at_the_first_step) {
  const Folder folder;
  Training run;
  run.train(0, 1);
  Manager(folder.path()).save(1, run.items());
  Training fresh;
  optim::SGD sgd({.momentum = 0.9});
  EXPECT_EQ(code_of([&] {
              Manager(folder.path()).restore_latest({{"optimizer", &sgd}});
            }),
            ErrorCode::invalid_argument);
  optim::Adam adam;  // without an average
  Manager(folder.path()).restore_latest({{"model", &fresh.model}, {"optimizer", &adam}});
  fresh.model(zeros({1, 3}));
  EXPECT_EQ(code_of([&] { adam.build(fresh.model.trainable_variables()); }), ErrorCode::invalid_argument);
}

TEST(checkpoint, several_optimizers_of_one_kind) {
  const Folder folder;
  Variable a(tensor(1.f), {.name = "a"}), b(tensor(1.f), {.name = "b"});
  const std::vector<Variable> variables{a, b};
  const std::vector<Gradient> gradients{Gradient(tensor(1.f)), Gradient(tensor(2.f))};
  optim::Adam first, second({.learning_rate = 0.5});
  optim::Multi both({{"a", &first}}, second);
  both.apply(gradients, variables);
  Manager(folder.path()).save(1, {{"optimizer", &both}, {"a", &a}, {"b", &b}});
  both.apply(gradients, variables);
  const float wanted = b.value().item<float>();

  optim::Adam third, fourth;
  optim::Multi again({{"a", &third}}, fourth);
  Manager(folder.path()).restore_latest({{"optimizer", &again}, {"a", &a}, {"b", &b}});
  again.apply(gradients, variables);
  EXPECT_EQ(b.value().item<float>(), wanted);
}

TEST(checkpoint, iterators_and_loss_scales_go_on) {
  const Folder folder;
  const auto data = data::range(20).shuffle(20, {.seed = 3});
  auto it = data.iterator();
  for (int i = 0; i < 7; ++i) it.next();
  Variable w(tensor(1.f), {.name = "w"});
  optim::SGD sgd;
  LossScale scale({.initial = 64});
  const float infinite = std::numeric_limits<float>::infinity();
  sgd.apply({Gradient(tensor(infinite))}, std::vector{w}, {.loss_scale = &scale});
  Manager(folder.path()).save(1, {{"data", &it}, {"scale", &scale}});
  const auto next = it.next()->operator[](0).item<std::int64_t>();

  auto other = data.iterator();
  LossScale fresh({.initial = 64});
  EXPECT_EQ(Manager(folder.path()).restore_latest({{"data", &other}, {"scale", &fresh}}), 1);
  EXPECT_EQ(other.next()->operator[](0).item<std::int64_t>(), next);
  EXPECT_EQ(double{fresh.value()}, 32);
  EXPECT_EQ(std::int64_t{fresh.skipped()}, 1);
}

// The same of an optimizer between set_state() and its first update.
TEST(checkpoint, state_that_waits_for_variables_is_saved) {
  const Folder folder, copied;
  std::vector<float> wanted;
  {
    random::set_seed(3);
    Training run;
    run.train(0, 3);
    Manager(folder.path()).save(3, run.items());
    wanted = run.train(3, 6);
  }
  {
    Training between;
    Manager(folder.path()).restore_latest(between.items());
    Manager(copied.path()).save(3, between.items());
  }
  Training last;
  Manager(copied.path()).restore_latest(last.items());
  EXPECT_EQ(last.train(3, 6), wanted);
}

}  // namespace
}  // namespace thalweg
