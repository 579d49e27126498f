// What plans tell before and after a run: text, JSON, picture, dumps, and the answers about budgets.
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "thalweg/plan/plan_state.h"
#include "thalweg/plan/timeline.h"
#include "thalweg/thalweg.h"

namespace tw = thalweg;

namespace {

using nlohmann::json;

constexpr std::int64_t batch = 64;

// Two dense layers under Adam: 96 -> 256 -> 8.
struct Net {
  Net() : model({tw::nn::dense(256, tw::tanh), tw::nn::dense(8)}) { tw::random::set_seed(3); }
  auto step(tw::FunctionOptions options = {}) {
    options.name = "step";
    return tw::function(
        [this](const tw::Tensor& x, const tw::Tensor& y) {
          tw::GradientTape tape;
          tw::Tensor loss = tw::reduce_mean(tw::square(model(x) - y));
          const auto variables = model.trainable_variables();
          adam.apply(tape.gradient(loss, variables), variables);
          return loss;
        },
        options);
  }
  tw::nn::Sequential model;
  tw::optim::Adam adam;
};

const tw::Spec x_spec{tw::f32, {batch, 96}}, y_spec{tw::f32, {batch, 8}};

void expect_contains(const std::string& text, const std::string& words) {
  EXPECT_NE(text.find(words), std::string::npos) << "no \"" << words << "\" in\n" << text;
}

std::string contents(const std::string& path) {
  std::ostringstream all;
  all << std::ifstream(path).rdbuf();
  return all.str();
}

std::string fresh_path(const char* name) { return ::testing::TempDir() + name; }

}  // namespace

TEST(Report, names_the_parts_of_the_peak_and_the_layers) {
  Net net;
  const std::string text = net.step().plan(x_spec, y_spec).report();
  for (const char* words : {"plan of \"step\" (f32 [64, 96], f32 [64, 8])", "trainable variables", "other variables",
                            "arena", "not run yet", "everything kept", "can be cut into parts", "dense matmul"})
    expect_contains(text, words);
}

// The variables of one step, updated as gradients appear or not; the biases are small.
std::string updates_of(tw::optim::Optimizer& optimizer, std::int64_t budget = 0, tw::LossScale* scale = nullptr) {
  tw::nn::Sequential model({tw::nn::dense(256, tw::tanh), tw::nn::dense(256, tw::tanh), tw::nn::dense(8)});
  const auto step = tw::function(
      [&](const tw::Tensor& x, const tw::Tensor& y) {
        tw::GradientTape tape;
        const tw::Tensor loss = tw::reduce_mean(tw::square(model(x) - y));
        const auto variables = model.trainable_variables();
        const auto gradients = tape.gradient(scale ? scale->scale(loss) : loss, variables);
        optimizer.apply(gradients, variables, {.loss_scale = scale});
        return loss;
      },
      {.memory_budget = budget});
  const std::string report = step.plan(tw::Spec{tw::f32, {4096, 96}}, tw::Spec{tw::f32, {4096, 8}}).report();
  const std::size_t begin = report.find("  updates  ");
  return begin == std::string::npos ? report : report.substr(begin, report.find('\n', begin) - begin);
}

TEST(Report, tells_which_updates_wait_and_for_what) {
  tw::optim::Adam plain, own_norms({.clip_norm = 1.0}), accumulated({.accumulate_steps = 4});
  for (auto* optimizer : {&plain, &own_norms, &accumulated})
    expect_contains(updates_of(*optimizer), "3 of 6 as their gradients appear; 3 wait for each other, being small");
  tw::optim::Adam clipped({.global_clip_norm = 1.0}), scaled, split;
  expect_contains(updates_of(clipped),
                  "0 of 6 as their gradients appear; 6 wait for the norm of several gradients (optimizer ");
  tw::LossScale scale;
  expect_contains(updates_of(scaled, 0, &scale),
                  "0 of 6 as their gradients appear; 6 wait for the loss scale's check of all gradients (optimizer "
                  "limit_skips)");
  const std::string parts = updates_of(split, 3 * tw::MiB(1));
  expect_contains(parts, "0 of 6 as their gradients appear; 6 wait for the sums over ");
  expect_contains(parts, " parts of the batch");
}

// Gradients that are given, and so come from no node, wait for their norm as well.
TEST(Report, tells_of_norms_of_gradients_that_are_given) {
  tw::Variable a(tw::ones({64, 64}), {.name = "a"}), b(tw::ones({64, 64}), {.name = "b"});
  const auto step = tw::function([&](const tw::Tensor& x, const tw::Tensor& y) {
    const tw::Tensor norm = tw::sqrt(tw::reduce_sum(tw::square(x)) + tw::reduce_sum(tw::square(y)));
    a.assign_sub(x / norm);
    b.assign_sub(y / norm);
  });
  const tw::Spec spec{tw::f32, {64, 64}};
  expect_contains(step.plan(spec, spec).report(), "2 wait for the norm of several gradients");
}

// The rows that the gradient has are computed while the step runs.
TEST(Report, tells_of_computed_indices_that_updates_wait_for) {
  tw::nn::Sequential model({tw::nn::embedding({.input_dim = 1000, .output_dim = 64}), tw::nn::flatten(),
                            tw::nn::dense(64, tw::relu), tw::nn::dense(8)});
  tw::optim::Adam adam;
  const auto step = tw::function([&](const tw::Tensor& x) {
    tw::GradientTape tape;
    const tw::Tensor loss = tw::reduce_mean(tw::square(model(x)));
    const auto variables = model.trainable_variables();
    adam.apply(tape.gradient(loss, variables), variables);
    return loss;
  });
  const tw::Plan& plan = step.plan(tw::Spec{tw::i32, {32, 8}});
  const char* const reason = "optimizer unsorted_segment_sum, which may refuse its values";
  expect_contains(plan.report(), std::string("1 of 5 as their gradients appear; 4 wait for ") + reason);
  const json updates = json::parse(plan.json())["updates"];
  EXPECT_EQ(updates["variables"], 5);
  EXPECT_EQ(updates["as_gradients_appear"], 1);
  EXPECT_EQ(updates["waiting"], json::array({{{"variables", 4}, {"for", reason}}}));
}

TEST(Report, has_no_updates_where_nothing_is_trained) {
  const auto f = tw::function([](const tw::Tensor& x) { return tw::exp(x); });
  const tw::Plan& plan = f.plan(tw::Spec{tw::f32, {100}});
  EXPECT_EQ(plan.report().find("  updates"), std::string::npos);
  EXPECT_EQ(json::parse(plan.json())["updates"]["variables"], 0);
}

// What is read of a variable after its new value was made keeps the new value waiting.
TEST(Report, tells_of_readers_of_old_values) {
  tw::Variable w(tw::zeros({300, 400}), {.name = "w"});
  const auto f = tw::function([&](const tw::Tensor& x) {
    tw::GradientTape tape;
    const tw::Tensor old = w.value(), loss = tw::reduce_sum(tw::square(tw::matmul(x, w)));
    w.assign_sub(tape.gradient(loss, w) * 0.1f);
    return tw::matmul(tw::sin(w.value()), old, {.transpose_b = true});
  });
  expect_contains(f.plan(tw::Spec{tw::f32, {200, 300}}).report(),
                  "0 of 1 as their gradients appear; 1 waits for matmul, which reads the variable");
}

TEST(Report, measured_peak_is_the_predicted_one) {
  Net net;
  const auto step = net.step();
  const tw::Tensor x = tw::random::normal({batch, 96}), y = tw::random::normal({batch, 8});
  for (int i = 0; i < 3; ++i) {
    step(x, y);
    EXPECT_EQ(step.stats().measured_peak_bytes, step.plan(x, y).peak_bytes()) << i;
  }
  expect_contains(step.plan(x, y).report(), std::to_string(step.plan(x, y).peak_bytes()) + " bytes, over all calls");
}

// A moving average begins as the weights, and weights go on from the average: both share memory until a step changes
// them, which is no memory beside that of all variables.
TEST(Report, measured_peak_is_the_predicted_one_with_moving_averages) {
  tw::nn::Sequential model({tw::nn::dense(64), tw::nn::dense(8)});
  tw::optim::Adam adam({.ema_momentum = 0.9});
  const auto step = tw::function([&](const tw::Tensor& x) {
    tw::GradientTape tape;
    tw::Tensor loss = tw::reduce_mean(tw::square(model(x)));
    const auto variables = model.trainable_variables();
    adam.apply(tape.gradient(loss, variables), variables);
    return loss;
  });
  const tw::Tensor x = tw::ones({32, 128});
  for (const char* moment : {"first", "second", "after assign_averages"}) {
    step(x);
    EXPECT_EQ(step.stats().measured_peak_bytes, step.plan(x).peak_bytes()) << moment;
    if (std::string(moment) == "second") adam.assign_averages();
  }
}

TEST(Report, json_has_parts_that_add_up) {
  Net net;
  const auto step = net.step();
  const tw::Plan& plan = step.plan(x_spec, y_spec);
  const json found = json::parse(plan.json());
  EXPECT_EQ(found["peak_bytes"], plan.peak_bytes());
  EXPECT_TRUE(found["budget_bytes"].is_null());
  EXPECT_TRUE(found["largest_batch"].is_null());
  EXPECT_TRUE(found["feasible"]);
  EXPECT_EQ(found["micro_batches"], 1);
  EXPECT_EQ(found["recomputed"], 0);
  EXPECT_FALSE(found["largest"].empty());
  std::int64_t sum = 0;
  for (const auto& [name, bytes] : found["parts"].items()) sum += bytes.get<std::int64_t>();
  EXPECT_EQ(sum, plan.peak_bytes());
  const std::int64_t weights = (96 * 256 + 256 + 256 * 8 + 8) * 4;
  EXPECT_EQ(found["parts"]["trainable_variables"], tw::memory::rounded(weights));
  EXPECT_LE(found["smallest_feasible_bytes"], plan.peak_bytes());
}

TEST(Report, the_smallest_feasible_budget_is_feasible_and_no_smaller_one) {
  Net net;
  const std::int64_t smallest = json::parse(net.step().plan(x_spec, y_spec).json())["smallest_feasible_bytes"];
  EXPECT_EQ(net.step({.memory_budget = smallest}).plan(x_spec, y_spec).peak_bytes(), smallest);
  EXPECT_THROW(net.step({.memory_budget = smallest - 1}).plan(x_spec, y_spec), tw::InfeasibleBudget);
}

TEST(Report, an_infeasible_budget_answers_with_numbers) {
  Net net;
  const std::int64_t peak = net.step().plan(x_spec, y_spec).peak_bytes();
  try {
    net.step({.memory_budget = 1024}).plan(x_spec, y_spec);
    FAIL() << "1 KiB was enough";
  } catch (const tw::InfeasibleBudget& none) {
    EXPECT_EQ(none.code(), tw::ErrorCode::resource_exhausted);
    EXPECT_EQ(none.answer().budget_bytes, 1024);
    EXPECT_EQ(none.answer().peak_bytes, peak);
    EXPECT_EQ(none.answer().largest_batch, 0);
    EXPECT_EQ(none.answer().largest.size(), 3u);
    expect_contains(none.what(), "smallest feasible budget");
    expect_contains(none.what(), "not even one example fits");
    const json found = json::parse(none.json());
    EXPECT_FALSE(found["feasible"]);
    EXPECT_EQ(found["smallest_feasible_bytes"], none.answer().smallest_feasible_bytes);
  }
}

// Examples mix in the batch norm, so that the batch cannot be cut; it can be smaller.
TEST(Report, the_largest_batch_is_exact_where_the_batch_cannot_be_cut) {
  tw::nn::Sequential model({tw::nn::dense(256), tw::nn::batch_norm(), tw::nn::dense(8)});
  const auto make = [&](std::int64_t budget) {
    return tw::function(
        [&](const tw::Tensor& x) {
          const auto training = tw::nn::training();
          tw::GradientTape tape;
          tw::Tensor loss = tw::reduce_mean(tw::square(model(x)));
          const auto variables = model.trainable_variables();
          const auto gradients = tape.gradient(loss, variables);
          for (std::size_t i = 0; i < variables.size(); ++i)
            tw::Variable(variables[i]).assign_sub(gradients[i].dense() * 0.1f);
          return loss;
        },
        {.memory_budget = budget});
  };
  const auto examples = [](std::int64_t n) { return tw::Spec{tw::f32, {n, 32}}; };
  const std::int64_t budget = make(0).plan(examples(100)).peak_bytes() * 3 / 4;
  try {
    make(budget).plan(examples(256));
    FAIL() << "256 examples fit";
  } catch (const tw::InfeasibleBudget& none) {
    expect_contains(none.what(), "mixes examples");
    ASSERT_TRUE(none.answer().largest_batch.has_value());
    const std::int64_t most = *none.answer().largest_batch;
    EXPECT_GT(most, 1);
    expect_contains(none.what(), "the largest batch is " + std::to_string(most) + ", one of " +
                                     std::to_string(most + 1) + " does not fit");
    EXPECT_LE(make(budget).plan(examples(most)).peak_bytes(), budget);
    EXPECT_THROW(make(budget).plan(examples(most + 1)), tw::InfeasibleBudget);
  }
}

// A constant as long as the batch is resized with it.
// 64 examples take less than some smaller batches, since gradients of so few are never made.
TEST(Report, the_largest_batch_fits_where_smaller_ones_do_not) {
  tw::nn::Sequential model({tw::nn::dense(128, tw::relu), tw::nn::dense(128, tw::tanh), tw::nn::dense(1)});
  model(tw::ones({1, 64}));
  tw::optim::Adam adam({.global_clip_norm = 1.0});
  const auto fits = [&](std::int64_t budget, std::int64_t n) {
    const auto step = tw::function(
        [&](const tw::Tensor& x) {
          tw::GradientTape tape;
          tw::Tensor loss = tw::reduce_mean(tw::square(model(x)));
          adam.apply(tape.gradient(loss, model.trainable_variables()), model.trainable_variables());
          return loss;
        },
        {.memory_budget = budget});
    step.plan(tw::Spec{tw::f32, {n, 64}});
  };
  for (const std::int64_t budget : {500'000, 450'000, 420'000}) {
    try {
      fits(budget, 300);
      ADD_FAILURE() << "300 examples fit " << budget;
    } catch (const tw::InfeasibleBudget& none) {
      const std::int64_t most = none.answer().largest_batch.value();
      EXPECT_GT(most, 16);
      EXPECT_NO_THROW(fits(budget, most)) << budget;
      for (const std::int64_t more : {most + 1, 2 * most, std::int64_t{299}})
        EXPECT_THROW(fits(budget, more), tw::InfeasibleBudget) << budget << ", " << more;
    }
  }
}

TEST(Report, the_largest_batch_counts_constants_that_are_cut) {
  const auto make = [](std::int64_t n, std::int64_t budget) {
    const tw::Tensor weights = tw::random::uniform({n, 4}, {.seed = 1});
    return tw::function([=](const tw::Tensor& x) { return tw::reduce_sum(tw::exp(x) * weights); },
                        {.memory_budget = budget});
  };
  const auto examples = [](std::int64_t n) { return tw::Spec{tw::f32, {n, 4}}; };
  const std::int64_t budget = 16 * 1000;
  const json found = json::parse(make(256, budget).plan(examples(256)).json());
  const std::int64_t most = found["largest_batch"];
  EXPECT_GT(most, 256);
  EXPECT_LE(make(most, budget).plan(examples(most)).peak_bytes(), budget);
  EXPECT_THROW(make(most + 1, budget).plan(examples(most + 1)), tw::InfeasibleBudget);
}

// What a loss makes of the number of examples alone (the shares of a mean, say) is as long as the batch.
TEST(Report, the_largest_batch_is_known_for_every_loss) {
  using Loss = tw::Tensor (*)(const tw::Tensor& y, const tw::Tensor& z);
  const Loss all[] = {
      [](auto& y, auto& z) { return tw::losses::mean_squared_error(y, z); },
      [](auto& y, auto& z) {
        return tw::losses::mean_squared_error(y, z, {.sample_weight = tw::ones({y.shape()[0]})});
      },
      [](auto& y, auto& z) { return tw::losses::huber(y, z, {.reduction = tw::losses::Reduction::sum}); },
      [](auto& y, auto& z) { return tw::losses::binary_crossentropy(tw::sigmoid(y), z, {.from_logits = true}); },
      [](auto& y, auto& z) { return tw::losses::cosine_similarity(y, z); },
      [](auto& y, auto& z) {
        const tw::Tensor labels = tw::expand_dims(tw::argmax(y, 1), 1);
        return -tw::reduce_mean(tw::gather(tw::log_softmax(z), labels, {.axis = 1, .batch_dims = 1}));
      }};
  for (std::size_t i = 0; i < std::size(all); ++i) {
    tw::nn::Sequential model({tw::nn::dense(64, tw::tanh), tw::nn::batch_norm(), tw::nn::dense(3)});
    tw::optim::SGD sgd;
    const auto peak = [&](std::int64_t n, std::int64_t budget) {
      const auto step = tw::function(
          [&](const tw::Tensor& x, const tw::Tensor& y) {
            const auto training = tw::nn::training();
            tw::GradientTape tape;
            tw::Tensor loss = all[i](y, model(x));
            const auto variables = model.trainable_variables();
            sgd.apply(tape.gradient(loss, variables), variables);
            return loss;
          },
          {.memory_budget = budget});
      return step.plan(tw::Spec{tw::f32, {n, 24}}, tw::Spec{tw::f32, {n, 3}}).peak_bytes();
    };
    const std::int64_t budget = peak(200, 0);
    try {
      peak(300, budget);
      ADD_FAILURE() << "300 examples fit, loss " << i;
    } catch (const tw::InfeasibleBudget& none) {
      ASSERT_TRUE(none.answer().largest_batch.has_value()) << "loss " << i;
      const std::int64_t most = *none.answer().largest_batch;
      EXPECT_GE(most, 200) << "loss " << i;
      EXPECT_LE(peak(most, budget), budget) << "loss " << i;
      EXPECT_THROW(peak(most + 1, budget), tw::InfeasibleBudget) << "loss " << i;
    }
  }
}

// A loop's body is traced for one size of the batch: there is no telling what another would need.
TEST(Report, no_largest_batch_is_named_where_a_loop_reads_the_examples) {
  const auto loop = [](const tw::Tensor& x) {
    const tw::Tensor looped = tw::while_loop(
        [](const std::vector<tw::Tensor>& v) { return tw::reduce_mean(v[0]) > 0.05; },
        [](const std::vector<tw::Tensor>& v) { return std::vector<tw::Tensor>{tw::sin(v[0] * 0.5)}; }, {x})[0];
    const tw::Tensor scaled = looped + tw::reduce_mean(looped, {.axes = {-1}, .keepdims = true});
    return x + tw::reduce_mean(scaled, {.axes = {-1}, .keepdims = true}) + scaled;
  };
  const auto step = tw::function(loop, {.memory_budget = 1024});
  try {
    step.plan(tw::Spec{tw::f32, {5, 200}});
    FAIL() << "1 KiB was enough";
  } catch (const tw::InfeasibleBudget& none) {
    EXPECT_FALSE(none.answer().largest_batch.has_value());
    expect_contains(none.what(), "while_loop");
  }
}

TEST(Report, looks_into_the_loop_over_parts) {
  Net net;
  const tw::Spec many_x{tw::f32, {4096, 96}}, many_y{tw::f32, {4096, 8}};
  const std::int64_t smallest = json::parse(net.step().plan(many_x, many_y).json())["smallest_feasible_bytes"];
  const auto step = net.step({.memory_budget = smallest});
  const tw::Plan& plan = step.plan(many_x, many_y);
  ASSERT_GT(plan.micro_batches(), 1);
  for (const auto& item : tw::largest_items(plan.state().compiled, 100))
    EXPECT_EQ(item.name.find("micro_batches (workspace)"), std::string::npos);
  EXPECT_GT(tw::timeline(plan.state().compiled).size(), plan.state().compiled.graph.nodes.size());
  expect_contains(plan.report(), "the batch in " + std::to_string(plan.micro_batches()) + " parts");
  expect_contains(plan.report(), "without a budget");
}

TEST(Report, warns_of_attention_by_hand) {
  const auto scores = [](const tw::Tensor& q) { return tw::softmax(tw::matmul(q, q, {.transpose_b = true}) * 0.125f); };
  // The largest weight is asked for: no fused op gives it.
  const auto by_hand = tw::function([&](const tw::Tensor& q) {
    const tw::LayerScope layer(tw::layer_of("encoder/attention"));
    return tw::reduce_max(scores(q));
  });
  const tw::Plan& plan = by_hand.plan(tw::Spec{tw::f32, {2, 256, 64}});
  expect_contains(plan.report(), "warning: encoder/attention softmax %");
  expect_contains(plan.report(), "f32 [2, 256, 256]: 512.00 KiB that tw::attention would not keep");
  EXPECT_FALSE(json::parse(plan.json())["attention_values"].empty());

  const auto fused = tw::function([](const tw::Tensor& q) { return tw::attention(q, q, q); });
  const tw::Plan& good = fused.plan(tw::Spec{tw::f32, {2, 256, 4, 16}});
  EXPECT_EQ(good.report().find("warning"), std::string::npos);
  // Square kernels are no attention.
  const auto square = tw::function([](const tw::Tensor& a) { return tw::matmul(a, a); });
  EXPECT_EQ(square.plan(tw::Spec{tw::f32, {256, 256}}).report().find("warning"), std::string::npos);
}

TEST(Report, warns_of_attention_to_a_sequence_of_another_length) {
  // Scores go through tanh, which no fused op knows.
  const auto attend = [](const tw::Tensor& q, const tw::Tensor& k) {
    return tw::matmul(tw::dropout(tw::softmax(tw::tanh(tw::matmul(q, k, {.transpose_b = true}))), 0.1), k);
  };
  const auto report = [](const auto& f, std::int64_t keys) {
    return f.plan(tw::Spec{tw::f32, {2, 256, 64}}, tw::Spec{tw::f32, {2, keys, 64}}).report();
  };
  const auto by_hand = tw::function(attend);
  expect_contains(report(by_hand, 160), "f32 [2, 256, 160]: 320.00 KiB that tw::attention would not keep");
  EXPECT_EQ(report(by_hand, 100).find("warning"), std::string::npos);
  // Nor are the chances of classes weights of attention.
  const auto classes = tw::function([](const tw::Tensor& x, const tw::Tensor& y) {
    return tw::softmax(tw::matmul(x, tw::reshape(y, {64, y.size() / 64})));
  });
  EXPECT_EQ(report(classes, 160).find("warning"), std::string::npos);
}

TEST(Report, draws_the_timeline) {
  Net net;
  const std::string path = fresh_path("thalweg_plan.svg");
  const auto step = net.step({.memory_budget = std::int64_t{1} << 20});
  const tw::Plan& plan = step.plan(x_spec, y_spec);
  plan.write_svg(path);
  std::string picture = contents(path);
  for (const char* words : {"<svg xmlns=", "predicted peak", "budget 1.00 MiB", ">dense</text>", "</svg>"})
    expect_contains(picture, words);
  EXPECT_EQ(picture.find("measured peak"), std::string::npos);
  step(tw::zeros({batch, 96}), tw::zeros({batch, 8}));
  plan.write_svg(path);
  expect_contains(contents(path), "measured peak");
  std::remove(path.c_str());
}

TEST(Report, a_picture_that_cannot_be_written_is_an_error) {
  Net net;
  const auto step = net.step();
  for (const char* path : {"/nowhere/plan.svg", "/dev/full"}) try {
      step.plan(x_spec, y_spec).write_svg(path);
      FAIL() << path;
    } catch (const tw::Error& error) {
      EXPECT_EQ(error.code(), tw::ErrorCode::unavailable);
      expect_contains(error.what(), path);
    }
}

TEST(Report, names_are_safe_in_the_picture) {
  const std::string path = fresh_path("thalweg_names.svg");
  const auto f = tw::function(
      [](const tw::Tensor& x) {
        const tw::LayerScope layer(tw::layer_of("a<b&\"c\""));
        return tw::exp(x) + tw::reduce_sum(x);
      },
      {.name = "<f>"});
  f.plan(tw::Spec{tw::f32, {100}}).write_svg(path);
  const std::string picture = contents(path);
  expect_contains(picture, "&lt;f&gt;");
  expect_contains(picture, "a&lt;b&amp;&quot;c&quot;");
  std::remove(path.c_str());
}

TEST(Report, dumps_the_graph_after_each_pass) {
  const auto f = tw::function([](const tw::Tensor& x) {
    const tw::Tensor unused = tw::sin(x);
    return tw::exp(x) * 2 + 1;
  });
  const tw::Plan& plan = f.plan(tw::Spec{tw::f32, {3}});
  expect_contains(plan.dump("trace"), "sin");
  EXPECT_EQ(plan.dump("prune").find("sin"), std::string::npos);
  expect_contains(plan.dump("fuse"), "fused");
  expect_contains(plan.dump("plan"), "fused");
  try {
    plan.dump("nonsense");
    FAIL();
  } catch (const tw::Error& error) {
    EXPECT_EQ(error.code(), tw::ErrorCode::not_found);
    expect_contains(error.what(), "trace, prune, fold");
  }
}

// The gradient of a mean is one number spread over all elements: neither the plan nor the trace holds them.
TEST(Report, gradients_of_means_are_no_constants) {
  tw::Variable w(tw::zeros({8}), {.name = "w"});
  const auto f = tw::function([&](const tw::Tensor& x) {
    tw::GradientTape tape;
    const tw::Tensor loss = tw::reduce_mean(tw::square(x * w));
    return tape.gradient(loss, w);
  });
  const std::int64_t before = tw::config::memory_info().in_use;
  tw::config::reset_peak_memory();
  const tw::Plan& plan = f.plan(tw::Spec{tw::f32, {1 << 20, 8}});
  EXPECT_LE(tw::config::memory_info().peak - before, 4096);
  EXPECT_LE(json::parse(plan.json())["parts"]["constants"], 256);
}
