#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/support/hostile_step.h"
#include "tests/support/step_place.h"
#include "thalweg/core/crc32c.h"
#include "thalweg/thalweg.h"

namespace tw = thalweg;

namespace {

struct Net : tw::nn::Module {
  tw::nn::Dense hidden{*this, "hidden", {.units = 6, .activation = tw::relu}};
  tw::nn::Dropout dropout{*this, "dropout", {.rate = 0.4}};
  tw::nn::Dense out{*this, "out", {.units = 2}};
  tw::Tensor operator()(const tw::Tensor& x) { return out(dropout(hidden(x))); }
};

// A training step with dropout, Adam and a schedule, and a forward pass beside it.
struct Training {
  Net net;
  tw::optim::Adam adam{{.learning_rate = tw::schedules::cosine(1e-2, 20)}};
  tw::Tensor loss(const tw::Tensor& x, const tw::Tensor& y) {
    const auto training = tw::nn::training(true);
    tw::GradientTape tape;
    auto loss = tw::losses::mean_squared_error(y, net(x));
    adam.apply(tape.gradient(loss, net.trainable_variables()), net.trainable_variables());
    return loss;
  }
};

using thalweg::testing::Place;

std::vector<float> values(const tw::Tensor& tensor) { return tensor.to_vector<float>(); }

template <class F>
std::string message_of(tw::ErrorCode code, F f) {
  try {
    f();
  } catch (const tw::Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

}  // namespace

TEST(StepFile, checksum_is_the_usual_one) {
  EXPECT_EQ(thalweg::crc32c("123456789", 9), 0xe3069283U);
  const std::string zeros(32, '\0');
  EXPECT_EQ(thalweg::crc32c(zeros.data(), 32), 0x8a9136aaU);
  EXPECT_EQ(thalweg::crc32c(zeros.data() + 5, 27, thalweg::crc32c(zeros.data(), 5)), 0x8a9136aaU);
}

TEST(StepFile, goes_on_as_the_step_in_process_bit_for_bit) {
  const Place place;
  tw::random::set_seed(5);
  const auto x = tw::random::normal({16, 4}), y = tw::random::normal({16, 2});
  Training training;
  const auto step = tw::function([&](const tw::Tensor& a, const tw::Tensor& b) { return training.loss(a, b); },
                                 {.name = "train_step"});
  for (int i = 0; i < 3; ++i) step(x, y);
  step.save(place.path);
  const auto again = tw::load_function(place.path);
  EXPECT_EQ(again.name(), "train_step");
  std::vector<float> here, there;
  for (int i = 0; i < 3; ++i) here.push_back(step(x, y).item<float>());
  tw::random::set_seed(77);  // of no concern to a step with a position of its own
  for (int i = 0; i < 3; ++i) there.push_back(again(x, y).item<float>());
  EXPECT_EQ(here, there);
  EXPECT_NE(here[0], here[1]);
  const auto loaded = again.variables();
  for (const auto& variable : training.net.variables()) {
    const auto& other = loaded.at(variable.name());
    EXPECT_EQ(values(variable), values(other)) << variable.name();
    EXPECT_EQ(variable.version(), other.version()) << variable.name();
    EXPECT_EQ(variable.trainable(), other.trainable()) << variable.name();
  }
  EXPECT_EQ(again.stats().traces, 1);
  EXPECT_EQ(again.stats().hits, 2);
  EXPECT_EQ(again.plan(x, y).peak_bytes(), step.plan(x, y).peak_bytes());
}

TEST(StepFile, is_the_same_under_a_budget) {
  const Place place;
  tw::random::set_seed(6);
  const auto x = tw::random::normal({512, 4}), y = tw::random::normal({512, 2});
  Training training;
  const auto body = [&](const tw::Tensor& a, const tw::Tensor& b) { return training.loss(a, b); };
  const auto free_peak = tw::function(body).plan(x, y).peak_bytes();
  const auto step = tw::function(body, {.memory_budget = free_peak / 2, .batch = {0, 1}});
  step(x, y);
  step.save(place.path);
  const auto again = tw::load_function(place.path);
  EXPECT_EQ(again.plan(x, y).micro_batches(), step.plan(x, y).micro_batches());
  EXPECT_EQ(again.plan(x, y).peak_bytes(), step.plan(x, y).peak_bytes());
  EXPECT_EQ(again(x, y).item<float>(), step(x, y).item<float>());
}

TEST(StepFile, entries_share_the_weights) {
  const Place place;
  tw::random::set_seed(7);
  const auto x = tw::random::normal({16, 4}), y = tw::random::normal({16, 2});
  Training training;
  const auto step = tw::function([&](const tw::Tensor& a, const tw::Tensor& b) { return training.loss(a, b); });
  const auto predict = tw::function([&](const tw::Tensor& a) { return training.net(a); });
  step(x, y), predict(x);
  step.save(place.path, {.entries = {{"predict", predict}}});
  const auto again = tw::load_function(place.path);
  EXPECT_EQ(again.entries(), (std::vector<std::string>{"function", "predict"}));
  const auto forward = again.entry("predict");
  const tw::Tensor before = forward(x);
  EXPECT_EQ(values(before), values(predict(x)));
  again(x, y), step(x, y);
  EXPECT_EQ(values(forward(x)), values(predict(x)));
  EXPECT_NE(values(forward(x)), values(before));
  again.variables().at("out/kernel").assign(tw::zeros({6, 2}));
  again.variables().at("out/bias").assign(tw::tensor({3.f, 4.f}));
  EXPECT_EQ(values(forward(x)), values(tw::broadcast_to(tw::tensor({3.f, 4.f}), {16, 2})));
  EXPECT_NE(message_of(tw::ErrorCode::not_found, [&] { again.entry("evaluate"); }).find("\"predict\""),
            std::string::npos);
}

TEST(StepFile, a_loaded_step_can_be_saved_again) {
  const Place place;
  tw::random::set_seed(8);
  const auto x = tw::random::normal({8, 4}), y = tw::random::normal({8, 2});
  Training training;
  const auto step = tw::function([&](const tw::Tensor& a, const tw::Tensor& b) { return training.loss(a, b); });
  step(x, y);
  step.save(place.path);
  const auto second = tw::load_function(place.path);
  second(x, y), step(x, y);
  second.save(place.path);
  const auto third = tw::load_function(place.path);
  EXPECT_EQ(third(x, y).item<float>(), step(x, y).item<float>());
}

TEST(StepFile, several_signatures_and_results_are_kept) {
  const Place place;
  const tw::Variable w(tw::tensor({2.f, 3.f}), {.name = "w"});
  const auto f = tw::function([&](const std::vector<tw::Tensor>& list) {
    return std::pair(list[0] * w, std::vector<tw::Tensor>{list[0] + 1, list.back() - 1});
  });
  const auto x = tw::tensor({1.f, 5.f}), m = tw::tensor({{1.f, 2.f}, {3.f, 4.f}});
  f(std::vector{x}), f(std::vector{m, x});
  f.save(place.path);
  const auto again = tw::load_function(place.path);
  const auto out = again(std::vector{m, x});
  ASSERT_EQ(out.size(), 3U);
  EXPECT_EQ(values(out[0]), (std::vector<float>{2, 6, 6, 12}));
  EXPECT_EQ(values(out[2]), (std::vector<float>{0, 4}));
  EXPECT_EQ(again.signatures(), (std::vector<std::string>{"(f32 [2])", "(f32 [2, 2], f32 [2])"}));
  message_of(tw::ErrorCode::failed_precondition, [&] { return tw::Tensor(out); });
  message_of(tw::ErrorCode::out_of_range, [&] { return out[3]; });
  const auto text = message_of(tw::ErrorCode::not_found, [&] { again(m); });
  EXPECT_NE(text.find("arguments (f32 [2, 2]); it was for\n  (f32 [2])\n  (f32 [2, 2], f32 [2])"), std::string::npos)
      << text;
}

TEST(StepFile, a_loaded_step_is_part_of_another_function) {
  const Place place;
  tw::Variable w(tw::tensor({2.f}), {.name = "w"});
  const auto f = tw::function([&](const tw::Tensor& x) {
    w.assign_add(x);
    return tw::dropout(x * w, 0.5);
  });
  f(tw::tensor({1.f}));
  f.save(place.path);
  const auto again = tw::load_function(place.path);
  const auto outer = tw::function([&](const tw::Tensor& x) { return again(again(x))[0] + 1; });
  outer(tw::tensor({1.f}));
  EXPECT_EQ(again.variables().at("w").version(), 2U);
}

TEST(StepFile, holds_the_state_between_two_steps_of_another_thread) {
  const Place place;
  tw::Variable a(tw::zeros({4096}), {.name = "a"}), b(tw::zeros({4096}), {.name = "b"});
  const auto step = tw::function([&](const tw::Tensor& x) {
    a.assign_add(x);
    b.assign_add(x);
  });
  const auto x = tw::ones({4096});
  step(x);
  std::atomic<bool> done{false};
  std::thread trainer([&] {
    while (!done) step(x);
  });
  for (int i = 0; i < 20; ++i) {
    step.save(place.path);
    const auto loaded = tw::load_function(place.path).variables();
    EXPECT_EQ(values(loaded.at("a")), values(loaded.at("b")));
    EXPECT_EQ(values(loaded.at("a"))[7], static_cast<float>(loaded.at("b").version()));
  }
  done = true;
  trainer.join();
}

TEST(StepFile, lengths_are_padded_as_before_it_was_saved) {
  const Place place;
  const auto mean = tw::function(
      [](const tw::Tensor& x, const tw::Tensor& mask) {
        const tw::Tensor real = tw::cast(mask, tw::f32);
        return tw::reduce_sum(x * real) / tw::reduce_sum(real);
      },
      {.name = "mean", .buckets = {.axis = 1, .sizes = {8, 64}}});
  const auto total =
      tw::function([](const tw::Tensor& x) { return tw::reduce_sum(x); },
                   {.name = "total", .buckets = {.axis = 1, .sizes = {8}, .value = 0.5, .arguments = {0}}});
  const auto twos = [](std::int64_t length) { return tw::full({1, length}, 2.f); };
  EXPECT_EQ(mean(twos(5)).item<float>(), 2);
  EXPECT_EQ(total(twos(5)).item<float>(), 11.5f);
  mean.save(place.path, {.entries = {{"total", total}}});
  const auto again = tw::load_function(place.path);
  for (const std::int64_t length : {1, 5, 8}) EXPECT_EQ(again(twos(length)).item<float>(), 2);
  EXPECT_EQ(again(twos(8), tw::arange(8) < 5).item<float>(), 2);
  EXPECT_EQ(again.plan(twos(5)).peak_bytes(), mean.plan(twos(5)).peak_bytes());
  EXPECT_EQ(again.entry("total")(twos(5)).item<float>(), 11.5f);
  EXPECT_NE(message_of(tw::ErrorCode::not_found, [&] { again(twos(9)); }).find("f32 [1, 9]"), std::string::npos);
  EXPECT_NE(message_of(tw::ErrorCode::out_of_range, [&] { again(twos(65)); }).find("65 entries"), std::string::npos);
  const auto outer = tw::function([&](const tw::Tensor& x) { return static_cast<const tw::Tensor&>(again(x)) * 3; });
  EXPECT_EQ(outer(twos(5)).item<float>(), 6);
}

// The first call brings a mask of its own, the others leave it to the buckets: one plan serves both.
TEST(StepFile, masks_may_be_given_or_left_to_the_buckets) {
  const Place place;
  const auto total = tw::function(
      [](const tw::Tensor& x, const tw::Tensor& mask) { return tw::reduce_sum(x * tw::cast(mask, tw::f32)); },
      {.name = "total", .buckets = {.axis = 0, .sizes = {8}}});
  total(tw::ones({8}), tw::ones({8}, tw::boolean));
  EXPECT_EQ(total(tw::ones({5})).item<float>(), 5);
  EXPECT_EQ(total.stats().traces, 1);
  total.save(place.path);
  const auto again = tw::load_function(place.path);
  EXPECT_EQ(again(tw::ones({5})).item<float>(), 5);
  EXPECT_EQ(again(tw::ones({3}), tw::arange(3) < 2).item<float>(), 2);
}

// A bucket that no trace was made for is not filled before that is known.
TEST(StepFile, arguments_are_padded_for_a_trace_alone) {
  const Place place;
  const auto total = tw::function([](const tw::Tensor& x) { return tw::reduce_sum(x); },
                                  {.name = "total", .buckets = {.axis = 0, .sizes = {8, std::int64_t{1} << 40}}});
  EXPECT_EQ(total(tw::ones({5})).item<float>(), 5);
  total.save(place.path);
  const auto again = tw::load_function(place.path);
  EXPECT_NE(message_of(tw::ErrorCode::not_found, [&] { again(tw::ones({9})); }).find("f32 [9]"), std::string::npos);
}

TEST(StepFile, equal_names_are_told_apart) {
  const Place place;
  const tw::Variable a(tw::tensor({1.f}), {.name = "w"}), b(tw::tensor({2.f}), {.name = "w"}),
      c(tw::tensor({3.f}), {.name = "w_2"});
  const auto f = tw::function([&](const tw::Tensor& x) { return x * c + b * a; });
  f(tw::tensor({1.f}));
  std::string warning;
  tw::set_log_handler([&](const std::string& message) { warning = message; });
  f.save(place.path);
  tw::set_log_handler({});
  const auto loaded = tw::load_function(place.path).variables();
  EXPECT_EQ(values(loaded.at("w")), std::vector<float>{1});
  EXPECT_EQ(values(loaded.at("w_3")), std::vector<float>{2});
  EXPECT_EQ(values(loaded.at("w_2")), std::vector<float>{3});
  EXPECT_NE(warning.find("\"w_3\""), std::string::npos) << warning;
}

TEST(StepFile, what_a_file_cannot_hold_is_refused_by_name) {
  const Place place;
  const auto idle = tw::function([](const tw::Tensor& x) { return x; }, {.name = "idle"});
  EXPECT_NE(message_of(tw::ErrorCode::failed_precondition, [&] { idle.save(place.path); }).find("\"idle\""),
            std::string::npos);
  double rate = 1;
  const auto host = tw::function(
      [&](const tw::Tensor& x) { return x * tw::host_number([&] { return rate; }, tw::f32); }, {.name = "hosted"});
  host(tw::tensor({1.f}));
  EXPECT_NE(message_of(tw::ErrorCode::unimplemented, [&] { host.save(place.path); }).find("\"hosted\""),
            std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(place.path));
  idle(tw::tensor({1.f}));
  message_of(tw::ErrorCode::unavailable, [&] { idle.save("no/such/folder/step.tws"); });
  const std::string pipe = place.path + ".pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_NE(message_of(tw::ErrorCode::unavailable, [&] { idle.save(pipe); }).find("something else"), std::string::npos);
  std::remove(pipe.c_str());
  message_of(tw::ErrorCode::invalid_argument, [&] { idle.save(place.path, {.entries = {{"idle", idle}}}); });
  message_of(tw::ErrorCode::not_found, [&] { tw::load_function(place.path); });
  message_of(tw::ErrorCode::not_found, [&] { tw::load_function("."); });
}

namespace {

// A small step as bytes.
std::string small_file() {
  const Place place;
  tw::random::set_seed(9);
  const auto x = tw::random::normal({2, 4}), y = tw::random::normal({2, 2});
  Training training;
  const auto step = tw::function([&](const tw::Tensor& a, const tw::Tensor& b) { return training.loss(a, b); });
  step.plan(x, y);
  step.save(place.path);
  std::ifstream file(place.path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST(StepFile, every_damaged_byte_is_noticed) {
  const std::string bytes = small_file();
  ASSERT_TRUE(thalweg::testing::survives(bytes));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x10);
    EXPECT_FALSE(thalweg::testing::survives(damaged)) << "byte " << i;
  }
}

TEST(StepFile, every_cut_is_noticed) {
  const std::string bytes = small_file();
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_FALSE(thalweg::testing::survives(std::string_view(bytes).substr(0, length))) << length;
  EXPECT_FALSE(thalweg::testing::survives(bytes + '\0'));
}

TEST(StepFile, wrong_bytes_under_right_checksums_do_no_harm) {
  const std::string bytes = small_file();
  EXPECT_EQ(thalweg::testing::with_right_checksums(bytes), bytes);
  const auto before = tw::config::memory_info().in_use;
  tw::config::reset_peak_memory();
  const auto feed = [](const std::string& changed) {
    EXPECT_NO_THROW(LLVMFuzzerTestOneInput(reinterpret_cast<const unsigned char*>(changed.data()), changed.size()));
  };
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::string changed = bytes;
    changed[i] = static_cast<char>(changed[i] + 1);
    feed(changed);
  }
  for (unsigned n = 0; n < 2000; ++n) feed(thalweg::testing::mutated(bytes, n));
  EXPECT_EQ(tw::config::memory_info().in_use, before);
  EXPECT_LT(tw::config::memory_info().peak - before, tw::MiB(32));
}
