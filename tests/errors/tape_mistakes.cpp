// Tapes and gradients. Every public op has a gradient rule or is known to have none (argmax, comparisons), so that the
// error of an op without a rule cannot be reached from outside; autodiff_test.cpp has it.
#include <stdexcept>
#include <thread>

#include "tests/errors/mistake.h"

namespace {

using enum tw::ErrorCode;
using Tensors = std::vector<tw::Tensor>;

// x * x with the gradients that a careless rule returns for one input.
tw::Tensor gradient_by_rule(Tensors returned) {
  const tw::Tensor x = tw::tensor({1.f, 2.f});
  tw::GradientTape tape;
  tape.watch(x);
  const tw::Tensor y = tw::custom_gradient(
      [&](const Tensors& in) {
        return std::pair{in[0] * in[0], [returned](const tw::Tensor&) { return returned; }};
      },
      {x});
  return tape.gradient(y, x);
}

// The gradient of a variable that the loss does not read: undefined.
tw::Tensor unconnected() {
  const tw::Variable used(tw::ones({2}), {.name = "used"}), forgotten(tw::ones({2}), {.name = "forgotten"});
  tw::GradientTape tape;
  return tape.gradient(tw::reduce_sum(used * used), forgotten);
}

// clang-format off
const std::vector<Mistake> tapes{
    {"a_second_gradient_of_a_tape_that_is_not_persistent",
     [] {
       const tw::Variable w(tw::ones({2}));
       tw::GradientTape tape;
       const tw::Tensor y = w * w;
       tape.gradient(y, w);
       tape.gradient(y, w);
     },
     failed_precondition, "tape", {"expected one call of gradient", "got a second one", "{.persistent = true}"}},
    {"a_jacobian_after_the_gradient",
     [] {
       const tw::Variable w(tw::ones({2}));
       tw::GradientTape tape;
       const tw::Tensor y = w * w;
       tape.gradient(y, w);
       tape.jacobian(y, w);
     },
     failed_precondition, "tape", {"expected one call of gradient", "got a second one", "{.persistent = true}"}},
    {"stop_recording_twice",
     [] {
       tw::GradientTape tape;
       const auto pause = tape.stop_recording();
       const auto again = tape.stop_recording();
     },
     failed_precondition, "tape", {"expected a tape that records", "got one that is paused", "once at a time"}},
    {"stop_recording_after_the_gradient",
     [] {
       const tw::Variable w(tw::ones({2}));
       tw::GradientTape tape;
       tape.gradient(w * w, w);
       const auto pause = tape.stop_recording();
     },
     failed_precondition, "tape",
     {"expected a tape that records", "got one that is paused or used up", "while it records"}},
    {"a_gradient_on_another_thread",
     [] {
       const tw::Variable w(tw::ones({2}));
       tw::GradientTape tape;
       const tw::Tensor y = w * w;
       std::exception_ptr error;
       std::thread([&] {
         try {
           tape.gradient(y, w);
         } catch (...) {
           error = std::current_exception();
         }
       }).join();
       if (error) std::rethrow_exception(error);
     },
     failed_precondition, "tape",
     {"gradient: expected the thread that made the tape", "got another one", "a tape of its own"}},
    {"an_unconnected_gradient_in_a_sum",
     [] { unconnected() + tw::ones({2}); },
     invalid_argument, "add",
     {"expected a tensor with a value", "got an undefined one", ".defined()", "Unconnected::zero"}},
    {"an_unconnected_gradient_in_exp",
     [] { tw::exp(unconnected()); },
     invalid_argument, "exp", {"expected a tensor as input 0", "got an undefined one", ".defined()"}},
    {"the_values_of_an_unconnected_gradient",
     [] { unconnected().to_vector<float>(); },
     invalid_argument, "tensor",
     {"expected a tensor with a value", "got an undefined one", ".defined()", "Unconnected::zero"}},
    {"a_variable_updated_by_an_unconnected_gradient",
     [] {
       tw::Variable w(tw::ones({2}), {.name = "forgotten"});
       w.assign_sub(unconnected());
     },
     invalid_argument, "assign_sub",
     {"\"forgotten\"", "expected a tensor with a value", "got an undefined one", "Unconnected::zero"}},
    {"a_custom_gradient_with_too_many_gradients",
     [] { gradient_by_rule({tw::ones({2}), tw::ones({2})}); },
     invalid_argument, "custom_gradient",
     {"expected 1 gradients for inputs and 0 for variables", "got 2 and 0", "one gradient per input"}},
    {"a_custom_gradient_of_another_shape",
     [] { gradient_by_rule({tw::ones({3})}); },
     invalid_argument, "custom_gradient",
     {"expected gradient 0 to be [2] f32", "got [3] f32", "shape and dtype of its input"}},
    {"a_custom_gradient_that_reads_a_variable_it_does_not_name",
     [] {
       const tw::Variable w(tw::ones({2}), {.name = "scale"});
       const auto rule = [](const tw::Tensor& dy) { return Tensors{dy}; };
       tw::custom_gradient([&](const Tensors& in) { return std::pair{in[0] * w, rule}; }, {tw::ones({2})});
     },
     invalid_argument, "custom_gradient",
     {"expected f to read the 0 variables given", "\"scale\"", "custom_gradient(f, inputs, {variable})"}},
    {"a_gradient_rule_that_is_wrong",
     [] {
       const auto rule = [](const tw::Tensor& dy) { return Tensors{dy}; };
       const auto square = [&](const Tensors& x) { return std::pair{x[0] * x[0], rule}; };
       tw::check_gradients([&](const Tensors& in) { return tw::custom_gradient(square, in); }, {tw::tensor({3.0})});
     },
     failed_precondition, "check_gradients",
     {"expected gradients within", "at input 0 entry 0: tape 1, differences 6", "wrong gradient rule"}},
    {"check_gradients_of_order_three",
     [] { tw::check_gradients([](const Tensors& in) { return in[0]; }, {tw::ones({2})}, {.order = 3}); },
     invalid_argument, "check_gradients", {"expected order 1 or 2", "got 3"}},
};
MISTAKES(tapes, tapes);
// clang-format on

// Mistakes that a tape survives: the right question afterwards gets the right answer.
struct SquareOnTape {
  tw::Tensor x = tw::tensor({1.f, 2.f});
  tw::GradientTape tape;
  tw::Tensor y = (tape.watch(x), x* x);

  void expect_gradient() { EXPECT_EQ(tape.gradient(y, x).to_vector<float>(), (std::vector<float>{2, 4})); }
};

TEST(a_tape_survives, an_output_gradient_of_a_wrong_shape) {
  SquareOnTape square;
  const tw::Error error =
      error_of([&] { square.tape.gradient(square.y, square.x, {.output_gradients = {tw::ones({3})}}); });
  EXPECT_EQ(error.code(), invalid_argument);
  expect_message(error, "gradient",
                 {"expected output gradient 0 to be [2] f32", "got [3] f32", "shape and dtype of its target"});
  square.expect_gradient();
}

TEST(a_tape_survives, too_many_output_gradients) {
  SquareOnTape square;
  const tw::Error error = error_of([&] {
    square.tape.gradient(square.y, square.x, {.output_gradients = {tw::ones({2}), tw::ones({2})}});
  });
  EXPECT_EQ(error.code(), invalid_argument);
  expect_message(error, "gradient", {"expected 1 output gradients", "got 2", "one output gradient per target"});
  square.expect_gradient();
}

TEST(a_tape_survives, a_jacobian_of_too_many_axes) {
  const tw::Tensor x = tw::ones({1, 1, 1, 1, 1});
  tw::GradientTape tape;
  tape.watch(x);
  const tw::Tensor y = x * x;
  const tw::Error error = error_of([&] { tape.jacobian(y, x); });
  EXPECT_EQ(error.code(), invalid_argument);
  expect_message(error, "shape", {"expected at most 8 dimensions", "got 10", "reshape"});
  EXPECT_EQ(tape.gradient(y, x).to_vector<float>(), std::vector<float>{2});
}

TEST(a_tape_survives, a_mistake_between_its_ops) {
  SquareOnTape square;
  error_of([&] { tw::matmul(square.y, square.y); });
  error_of([&] { square.tape.watch(tw::Tensor()); });
  square.expect_gradient();
}

TEST(a_tape_survives, exceptions_of_the_users_functions) {
  SquareOnTape square;
  const auto fails = [](const auto&...) -> tw::Tensor { throw std::runtime_error("mine"); };
  const auto fails_in_list = [](const Tensors&) -> std::pair<tw::Tensor, std::function<Tensors(const tw::Tensor&)>> {
    throw std::runtime_error("mine");
  };
  EXPECT_THROW(tw::custom_gradient(fails_in_list, {square.x}), std::runtime_error);
  EXPECT_THROW(tw::recompute(fails)(square.x), std::runtime_error);
  EXPECT_THROW(tw::grad(fails)(square.x), std::runtime_error);
  EXPECT_THROW(tw::while_loop(fails, [](const Tensors& v) { return v; }, {square.x}), std::runtime_error);
  square.y = square.y + square.x * square.x;  // still recorded
  EXPECT_EQ(square.tape.gradient(square.y, square.x).to_vector<float>(), (std::vector<float>{4, 8}));
}

TEST(tapes, a_tape_used_up_during_a_pause_does_not_record_again) {
  SquareOnTape square;
  {
    const auto pause = square.tape.stop_recording();
    square.expect_gradient();
  }
  square.tape.watch(square.x);
  const tw::Tensor more = square.x * square.x;
  EXPECT_EQ(square.tape.recorded_ops(), 0);
}

TEST(tapes, a_forgotten_variable_has_no_gradient_or_zeros_if_asked) {
  EXPECT_FALSE(unconnected().defined());
  const tw::Variable used(tw::ones({2})), forgotten(tw::ones({2}));
  tw::GradientTape tape;
  const tw::Tensor loss = tw::reduce_sum(used * used);
  const auto zeros = tape.gradient(loss, forgotten, {.unconnected = tw::Unconnected::zero});
  EXPECT_EQ(zeros.to_vector<float>(), (std::vector<float>{0, 0}));
}

}  // namespace
