#include "tests/errors/mistake.h"

tw::Error error_of(const std::function<void()>& program) {
  std::string instead = "no error";
  try {
    program();
  } catch (const tw::Error& error) {
    return error;
  } catch (const std::exception& other) {
    instead = other.what();
  }
  ADD_FAILURE() << "expected a tw::Error, got " << instead;
  return tw::Error(tw::ErrorCode::internal, "", "", "");
}

void expect_message(const tw::Error& error, const std::string& op, const std::vector<std::string>& words) {
  const std::string text = error.what();
  EXPECT_TRUE(text.starts_with("[" + op + "] ")) << text;
  for (const auto& word : words)
    EXPECT_NE(text.find(word), std::string::npos) << "without \"" << word << "\": " << text;
  const auto last_line = text.rfind('\n');
  ASSERT_NE(last_line, std::string::npos) << text;
  EXPECT_TRUE(text.substr(last_line).starts_with("\n  hint: ") && text.size() > last_line + 15) << text;
}

void expect_that_training_works() {
  const tw::Tensor x = tw::tensor({{1.f, 2.f}, {3.f, 4.f}});
  tw::Variable w(tw::tensor({{1.f}, {-1.f}}), {.name = "w"});
  tw::GradientTape tape;
  const tw::Tensor loss = tw::reduce_sum(tw::square(tw::matmul(x, w)));  // x w = (-1, -1), so dw = 2 x^T (x w)
  w.assign_sub(0.5f * tape.gradient(loss, w));
  EXPECT_EQ(loss.item<float>(), 2);
  EXPECT_EQ(w.value().to_vector<float>(), (std::vector<float>{5, 5}));
}

TEST_P(Mistakes, is_told_and_leaves_no_trace) {
  const Mistake& mistake = GetParam();
  const auto before = tw::config::memory_info().in_use;
  const tw::Error error = error_of(mistake.program);
  EXPECT_STREQ(tw::to_string(error.code()), tw::to_string(mistake.code)) << error.what();
  expect_message(error, mistake.op, mistake.words);
  EXPECT_EQ(tw::config::memory_info().in_use, before);
  expect_that_training_works();
  EXPECT_EQ(tw::config::memory_info().in_use, before);
}
