// What lasts longer than a call: variables and the device's memory.
#include "tests/errors/mistake.h"

namespace {

using enum tw::ErrorCode;

// clang-format off
const std::vector<Mistake> variables{
    {"assign_of_another_shape",
     [] { tw::Variable(tw::zeros({2, 3}), {.name = "dense/kernel"}).assign(tw::zeros({3, 2})); },
     invalid_argument, "assign",
     {"\"dense/kernel\"", "expected [2, 3] f32", "got [3, 2] f32", "keeps its shape and dtype"}},
    {"assign_add_of_another_dtype",
     [] { tw::Variable(tw::zeros({2}), {.name = "bias"}).assign_add(tw::zeros({2}, tw::f64)); },
     invalid_argument, "assign_add", {"\"bias\"", "expected [2] f32", "got [2] f64", "cast"}},
    {"assign_sub_of_a_scalar",
     [] { tw::Variable(tw::zeros({2}), {.name = "bias"}).assign_sub(tw::tensor(1.f)); },
     invalid_argument, "assign_sub", {"expected [2] f32", "got [] f32", "broadcast"}},
    {"a_variable_without_a_value_is_read",
     [] { tw::Variable().value(); },
     invalid_argument, "variable", {"expected a variable with a value", "got an undefined one", "Variable w("}},
    {"a_variable_without_a_value_in_a_product",
     [] { tw::ones({2}) * tw::Variable(); },
     invalid_argument, "variable", {"expected a variable with a value", "got an undefined one", "Variable w("}},
    {"a_variable_made_from_an_undefined_tensor",
     [] { tw::Variable(tw::Tensor(), {.name = "kernel"}); },
     invalid_argument, "variable", {"expected an initial value", "got an undefined tensor", "Variable w("}},
};
MISTAKES(variables, variables);
// clang-format on

TEST(undefined_tensors, the_op_and_the_input_are_named) {
  const tw::Tensor none, x = tw::ones({2, 2});
  const std::pair<const char*, std::function<void()>> programs[] = {
      {"matmul", [&] { tw::matmul(x, none); }},
      {"concat",
       [&] {
         tw::concat({x, none}, 0);
       }},
      {"stack",
       [&] {
         tw::stack({x, none}, 0);
       }},
      {"softmax", [&] { tw::softmax(none); }},
      {"transpose", [&] { tw::transpose(none); }},
      {"reshape", [&] { tw::reshape(none, {4}); }},
      {"squeeze", [&] { tw::squeeze(none); }},
      {"layer_norm", [&] { tw::layer_norm(x, none, x); }},
      {"batch_norm", [&] { tw::batch_norm(x, none, x); }},
      {"attention", [&] { tw::attention(x, none, x); }},
      {"gather", [&] { tw::gather(x, none); }},
      {"slice", [&] { tw::slice(none, {0}, {1}); }},
      {"split", [&] { tw::split(none, 2, 0); }},
      {"cast", [&] { tw::cast(none, tw::f64); }},
      {"conv2d", [&] { tw::conv2d(x, none); }},
      {"pad", [&] { tw::pad(none, {}); }},
      {"sort", [&] { tw::sort(none); }},
      {"norm", [&] { tw::norm(none); }},
      {"lstm", [&] { tw::lstm(x, none, x, x, x, x); }},
      {"einsum",
       [&] {
         tw::einsum("ij,jk", {x, none});
       }},
      {"exp", [&] { tw::exp(none); }},
      {"reduce_sum", [&] { tw::reduce_sum(none); }},
  };
  for (const auto& [op, program] : programs)
    expect_message(error_of(program), op, {"expected a tensor as input ", "got an undefined one", ".defined()"});
}

TEST(variables, a_refused_assignment_changes_neither_value_nor_version) {
  tw::Variable w(tw::tensor({1.f, 2.f}), {.name = "w"});
  error_of([&] { w.assign(tw::zeros({3})); });
  error_of([&] { w.assign_add(tw::zeros({2}, tw::i32)); });
  error_of([&] { w.assign_sub(tw::Tensor()); });
  EXPECT_EQ(w.version(), 0u);
  EXPECT_EQ(w.value().to_vector<float>(), (std::vector<float>{1, 2}));
}

// clang-format off
// Far beyond any address space, so that no machine grants them.
const std::vector<Mistake> absurd_sizes{
    {"zeros_that_no_machine_can_hold",
     [] { tw::zeros({1LL << 55}); },
     resource_exhausted, "zeros",
     {"out of memory on cpu:0", "requested 128.00 PiB", "in use", "the system refused", "smaller batch"}},
    {"a_broadcast_that_no_machine_can_hold",
     [] { tw::zeros({1LL << 19, 1}) * tw::zeros({1, 1LL << 19, 1}) * tw::zeros({1LL << 19, 1, 1}); },
     resource_exhausted, "multiply", {"out of memory", "requested", "the system refused"}},
    {"a_permutation_that_no_machine_can_hold",
     [] { tw::random::permutation(1LL << 55); },
     resource_exhausted, "permutation", {"out of memory", "requested 256.00 PiB", "the system refused"}},
    {"an_identity_that_no_machine_can_hold",
     [] { tw::eye(1LL << 28); },
     resource_exhausted, "eye", {"out of memory", "requested 256.00 PiB", "the system refused"}},
};
MISTAKES(absurd_sizes, absurd_sizes);
// clang-format on

TEST(memory, a_refused_allocation_is_not_counted_in_the_peak) {
  tw::config::reset_peak_memory();
  error_of([] { tw::zeros({1LL << 55}); });
  EXPECT_LT(tw::config::memory_info().peak, tw::GiB(64));
}

// One step of gradient descent on w, over a batch that decides how much memory it takes.
void train(tw::Variable& w, std::int64_t batch) {
  tw::GradientTape tape;
  const tw::Tensor hidden = tw::tanh(tw::matmul(tw::ones({batch, w.shape()[0]}), w));
  const tw::Tensor loss = tw::reduce_mean(tw::square(tw::exp(hidden)));
  w.assign_sub(0.1f * tape.gradient(loss, w));
}

TEST(memory, a_step_beyond_the_limit_changes_nothing_and_a_smaller_one_succeeds) {
  tw::Variable w(tw::full({256, 256}, 0.01f), {.name = "hidden/kernel"});
  const auto values = w.value().to_vector<float>();
  const auto before = tw::config::memory_info().in_use;
  tw::config::memory_limit("cpu", before + tw::MiB(11));
  const tw::Error error = error_of([&] { train(w, 4096); });  // 4 MiB for each activation, and there are three
  EXPECT_EQ(error.code(), resource_exhausted);
  EXPECT_EQ(tw::config::memory_info().in_use, before);
  EXPECT_EQ(w.version(), 0u);
  EXPECT_EQ(w.value().to_vector<float>(), values);
  train(w, 256);
  tw::config::memory_limit("cpu", 0);
  EXPECT_EQ(w.version(), 1u);
  EXPECT_NE(w.value().to_vector<float>(), values);
  for (const char* words :
       {"out of memory on cpu:0", "requested ", "limit ", "hidden/kernel 256.00 KiB", "smaller batch", "memory_limit"})
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << words << ": " << error.what();
}

TEST(memory, an_assignment_beyond_the_limit_keeps_the_old_value) {
  tw::Variable w(tw::zeros({1024, 1024}), {.name = "w"});
  const tw::Tensor held = w.value(), one = tw::ones({1024, 1024});  // held: assign_add must take new storage
  tw::config::memory_limit("cpu", tw::config::memory_info().in_use + tw::MiB(1));
  const tw::Error error = error_of([&] { w.assign_add(one); });
  tw::config::memory_limit("cpu", 0);
  EXPECT_EQ(error.code(), resource_exhausted);
  expect_message(error, "variable", {"requested 4.00 MiB", "limit", "w 4.00 MiB"});
  EXPECT_EQ(w.version(), 0u);
  w.assign_add(one);
  EXPECT_EQ(w.value().data<float>()[0], 1.f);
}

}  // namespace
