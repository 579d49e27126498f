// Weights come back from files and from checkpoints, before the first call too; those of another model are refused.
#include <gtest/gtest.h>

#include "tests/train/folder.h"
#include "tests/train/rows.h"
#include "thalweg/thalweg.h"

namespace thalweg {
namespace {

using checkpoint::Manager;
using testing::Folder;
using testing::read_file;
using testing::write_file;

ErrorCode code_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.code();
  }
  return ErrorCode::internal;
}

TEST(weights, come_back_before_and_after_the_first_call) {
  const Folder folder;
  random::set_seed(5);
  nn::Sequential model({nn::dense(4, relu), nn::batch_norm(), nn::dense(2)});
  const Tensor x = random::normal({3, 5});
  const auto wanted = model(x).to_vector<float>();
  const std::string path = folder.path("w.safetensors");
  checkpoint::save_weights(model, path);
  for (bool built : {false, true}) {
    nn::Sequential other({nn::dense(4, relu), nn::batch_norm(), nn::dense(2)});
    if (built) other(x);
    checkpoint::load_weights(other, path);
    EXPECT_EQ(other(x).to_vector<float>(), wanted);
    EXPECT_TRUE(other.pending_weights().empty());
  }
}

// A body and two heads, of which a run may use only one.
struct TwoHeads : nn::Module {
  nn::Dense body{*this, "body", {.units = 4}}, left{*this, "left", {.units = 1}}, right{*this, "right", {.units = 1}};
};

// Values that wait for a layer which is never built are saved with the others, by checkpoints and as weights.
TEST(weights, of_layers_that_are_not_built_are_not_lost) {
  const Folder folder;
  const Tensor x = random::normal({3, 5});
  const std::string path = folder.path("w.safetensors");
  TwoHeads first;
  first.left(first.body(x));
  const auto wanted = first.right(first.body(x)).to_vector<float>();
  checkpoint::save_weights(first, path);
  Manager(folder.path("run")).save(1, {{"model", &first}});
  using Act = std::function<void(nn::Module&)>;
  const auto manager = [&] { return Manager(folder.path("run")); };
  const std::vector<std::pair<Act, Act>> ways{{[&](nn::Module& model) { checkpoint::load_weights(model, path); },
                                               [&](nn::Module& model) { checkpoint::save_weights(model, path); }},
                                              {[&](nn::Module& model) {
                                                 manager().restore_latest({{"model", &model}});
                                               },
                                               [&](nn::Module& model) {
                                                 manager().save(1, {{"model", &model}});
                                               }}};
  for (const auto& [load, save] : ways) {
    TwoHeads untouched, one_head, built, last;
    load(untouched);
    save(untouched);  // before its first call
    load(one_head);
    one_head.left(one_head.body(x));
    save(one_head);
    built.left(built.body(x));
    load(built);  // into a model in which one head is made
    save(built);
    load(last);
    EXPECT_EQ(last.right(last.body(x)).to_vector<float>(), wanted);
    EXPECT_EQ(built.right(built.body(x)).to_vector<float>(), wanted);
  }
}

struct One : nn::Module {
  explicit One(const char* name) : layer(*this, name, {.units = 2}) {}
  nn::Dense layer;
};

TEST(weights, of_another_model_are_refused_by_the_first_call) {
  const Folder folder;
  const Tensor x = random::normal({3, 5});
  const std::string path = folder.path("w.safetensors");
  nn::Sequential saved({nn::dense(4), nn::dense(2)});
  saved(x);
  checkpoint::save_weights(saved, path);
  Manager(folder.path("run")).save(1, {{"model", &saved}});
  const auto loads =
      std::vector<std::function<void(nn::Module&)>>{[&](nn::Module& model) { checkpoint::load_weights(model, path); },
                                                    [&](nn::Module& model) {
                                                      Manager(folder.path("run")).restore_latest({{"model", &model}});
                                                    }};
  for (const auto& load : loads) {
    nn::Sequential fewer({nn::dense(4)}), more({nn::dense(4), nn::dense(2), nn::dense(1)});
    One other("alpha");
    load(fewer), load(more), load(other);
    EXPECT_EQ(code_of([&] { fewer(x); }), ErrorCode::invalid_argument);
    EXPECT_EQ(code_of([&] { more(x); }), ErrorCode::not_found);
    EXPECT_EQ(code_of([&] { other.layer(x); }), ErrorCode::not_found);
    EXPECT_EQ(code_of([&] { other.layer(x); }), ErrorCode::not_found);  // again: nothing was made
    EXPECT_TRUE(other.variables().empty());
    try {
      other.layer(x);
    } catch (const Error& error) {
      const std::string text = error.what();
      for (const char* part : {"\"alpha/kernel\"", ".safetensors", "\"dense/kernel\"", "hint:"})
        EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
    }
  }
  nn::Sequential fewer({nn::dense(4)}), more({nn::dense(4), nn::dense(2), nn::dense(1)});
  checkpoint::load_weights(fewer, path, {.strict = false});
  checkpoint::load_weights(more, path, {.strict = false});
  fewer(x), more(x);
  EXPECT_EQ(more.variables()[2].value().to_vector<float>(), saved.variables()[2].value().to_vector<float>());
}

// The format has names in JSON.
TEST(weights, of_names_that_are_no_text_are_refused) {
  const Folder folder;
  nn::Sequential model({nn::dense({.units = 1, .name = "gr\xf6\xdf"})});
  model(zeros({1, 2}));
  EXPECT_EQ(code_of([&] { checkpoint::save_weights(model, folder.path() + "/w.safetensors"); }),
            ErrorCode::invalid_argument);
}

TEST(weights, of_metrics_with_such_names_are_refused_in_checkpoints) {
  const Folder folder;
  nn::Sequential model({nn::dense(1)});
  optim::SGD sgd;
  metrics::MAE error({.name = "gr\xf6\xdf"});
  const train::FitOptions options{.optimizer = &sgd,
                                  .loss = losses::mean_squared_error,
                                  .metrics = {&error},
                                  .callbacks = {train::checkpoint_every(folder.path())}};
  EXPECT_EQ(code_of([&] { train::fit(model, testing::rows(4).batch(4), options); }), ErrorCode::invalid_argument);
}

TEST(weights, mistakes_change_nothing) {
  const Folder folder;
  nn::Sequential model({nn::dense(4), nn::dense(2)}), larger({nn::dense(4), nn::dense(2), nn::dense(1)}),
      wider({nn::dense(5), nn::dense(2)});
  const Tensor x = random::normal({3, 5});
  model(x), larger(x), wider(x);
  const std::string path = folder.path("w.safetensors");
  checkpoint::save_weights(model, path);
  EXPECT_EQ(code_of([&] { checkpoint::load_weights(larger, path); }), ErrorCode::not_found);
  EXPECT_EQ(code_of([&] { checkpoint::load_weights(wider, path); }), ErrorCode::invalid_argument);
  checkpoint::load_weights(larger, path, {.strict = false});
  EXPECT_EQ(larger.variables()[0].value().to_vector<float>(), model.variables()[0].value().to_vector<float>());
  checkpoint::save_weights(larger, path);
  EXPECT_EQ(code_of([&] { checkpoint::load_weights(model, path); }), ErrorCode::invalid_argument);
  std::string bytes = read_file(path);
  bytes[bytes.size() - 3] = static_cast<char>(bytes[bytes.size() - 3] ^ 4);
  write_file(path, bytes);
  EXPECT_EQ(code_of([&] { checkpoint::load_weights(larger, path); }), ErrorCode::data_loss);
  EXPECT_EQ(code_of([&] { checkpoint::load_weights(larger, folder.path("none")); }), ErrorCode::not_found);
  EXPECT_EQ(code_of([&] { checkpoint::save_weights(larger, folder.path("no/folder")); }), ErrorCode::unavailable);
}

}  // namespace
}  // namespace thalweg
