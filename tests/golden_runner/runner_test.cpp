// The runner itself: that it sees faults, in values and in files.
#include "tests/golden_runner/runner.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "tests/golden_runner/compare.h"

namespace thalweg::golden {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();

Tensor values(const std::vector<double>& list) { return Tensor::from(list, {static_cast<std::int64_t>(list.size())}); }

bool agree(const Tensor& got, const Tensor& want, bool skip_non_finite = false) {
  return !compare(got, want, f64, {.relative = 0.1, .absolute = 1}, skip_non_finite).problem;
}

TEST(golden_compare, the_tolerance_is_absolute_plus_relative) {
  EXPECT_TRUE(agree(values({110, -1}), values({100, 0})));
  EXPECT_FALSE(agree(values({111.5}), values({100})));
  EXPECT_FALSE(agree(values({1.5}), values({0})));
  EXPECT_DOUBLE_EQ(compare(values({105.5}), values({100}), f64, {.relative = 0.1, .absolute = 1}).worst, 0.5);
}

TEST(golden_compare, what_is_not_finite_must_be_equal) {
  EXPECT_TRUE(agree(values({nan, infinity, -infinity}), values({nan, infinity, -infinity})));
  EXPECT_FALSE(agree(values({nan}), values({0})));
  EXPECT_FALSE(agree(values({0}), values({nan})));
  EXPECT_FALSE(agree(values({infinity}), values({-infinity})));
  EXPECT_FALSE(agree(values({1e300}), values({infinity})));
  EXPECT_TRUE(agree(values({0, 1}), values({nan, 1}), true));
  EXPECT_FALSE(agree(values({nan, nan}), values({nan, 1}), true));
}

TEST(golden_compare, shapes_kinds_and_dtypes_must_fit) {
  const Tensor integers = Tensor::from(std::vector<std::int64_t>{1}, {1});
  EXPECT_FALSE(agree(values({1}), values({1, 1})));
  EXPECT_FALSE(agree(values({1}), integers));
  EXPECT_FALSE(agree(Tensor::from(std::vector<float>{1}, {1}), values({1})));
  EXPECT_FALSE(agree(Tensor(), values({1})));
  EXPECT_TRUE(agree(Tensor::from(std::vector<std::int32_t>{1}, {1}), integers));
  EXPECT_FALSE(agree(Tensor::from(std::vector<std::int64_t>{2}, {1}), integers));
}

TEST(golden_compare, the_worst_element_is_named) {
  const Tensor got = Tensor::from(std::vector<double>{0, 0, 0, 50, 0, 9}, {2, 3});
  const Tensor want = Tensor::from(std::vector<double>(6), {2, 3});
  const auto problem = compare(got, want, f64, {.relative = 0, .absolute = 1}).problem;
  ASSERT_TRUE(problem);
  EXPECT_NE(problem->find("2 of 6"), std::string::npos) << *problem;
  EXPECT_NE(problem->find("[1, 0]: got 50, want 0"), std::string::npos) << *problem;
}

TEST(golden_attributes, what_nobody_read_is_not_understood) {
  const Attributes attributes({{"axis", {std::int64_t{1}}}, {"keepdims", {true}}});
  EXPECT_EQ(attributes.integer("axis"), 1);
  EXPECT_THROW(attributes.require_all_read(), NotUnderstood);
  EXPECT_TRUE(attributes.flag("keepdims"));
  EXPECT_NO_THROW(attributes.require_all_read());
  EXPECT_THROW(attributes.text("axis"), NotUnderstood);
  EXPECT_THROW(attributes.integer("other"), NotUnderstood);
  EXPECT_EQ(attributes.integer("other", 5), 5);
}

// A group's directory with one case, which goes with the test.
class Directory {
 public:
  explicit Directory(const std::string& cases) {
    static int number = 0;
    path_ = std::filesystem::temp_directory_path() /
            ("golden_test." + std::to_string(::getpid()) + "." + std::to_string(number++));
    std::filesystem::create_directory(path_);
    std::ofstream(path_ / "cases.json") << cases;
  }
  ~Directory() { std::filesystem::remove_all(path_); }
  Directory(const Directory&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

std::string file_with(const std::string& values) {
  return R"({"format": 1, "group": "ops", "tensors": "t.safetensors", "cases": [{"name": "n", "op": "add", )" + values +
         "}]}";
}

const std::string good_values =
    R"("attrs": {"a": [[1, 2]]}, "inputs": ["x"], "outputs": ["y"], "output_grads": [null], "input_grads": [null], )"
    R"("compute": "f64", "tol": {"f32": [1, 2], "f64": [3, 4]})";

TEST(golden_cases, a_case_is_read) {
  const Directory directory(file_with(good_values));
  const Group group = load_group(directory.path());
  ASSERT_EQ(group.cases.size(), 1u);
  EXPECT_EQ(group.cases[0].f64.absolute, 4);
  EXPECT_FALSE(group.cases[0].input_gradients.at(0));
  EXPECT_EQ(group.cases[0].attributes.rows("a").at(0).at(1), 2);
}

const std::string training_values =
    R"("attrs": {"model": "mlp"}, "inputs": ["w"], "outputs": [], "output_grads": [], "input_grads": [], "params": ["w"], )"
    R"("data": {"images": "x"}, "order": "o", "runs": {"f32": {"loss": "l", "grad_norm": "n", "final": ["v"]}, )"
    R"("f64": {"loss": "l", "grad_norm": "n", "final": ["v"], "first_gradients": ["g"]}}, "tol": {"f32": {"loss": [1, 2], )"
    R"("grad_norm": [3, 4], "final": [5, 6]}, "f64": {"loss": [1, 2], "grad_norm": [3, 4], "final": [5, 6]}})";

TEST(golden_cases, a_training_run_is_read) {
  const Directory directory(file_with(training_values));
  const Group group = load_group(directory.path());
  ASSERT_TRUE(group.cases.at(0).training);
  const Training& training = *group.cases[0].training;
  EXPECT_EQ(training.f32.of_parameters.absolute, 6);
  EXPECT_EQ(training.f64.first_gradients, std::vector<std::string>{"g"});
  EXPECT_EQ(training.data.at("images"), "x");
}

TEST(golden_cases, malformed_files_are_refused) {
  const auto with = [](const std::string& from, const std::string& to) {
    std::string text = file_with(good_values);
    return text.replace(text.find(from), from.size(), to);
  };
  const std::string bad[] = {
      "",
      "[",
      "null",
      "{}",
      "[1]",
      with("1,", "2,"),
      with("\"t.safetensors\"", "\"../t\""),
      with("\"n\"", "7"),
      with("[\"x\"]", "\"x\""),
      with("[\"x\"]", "[1]"),
      with("[null]", "[{}]"),
      with("\"compute\": \"f64\"", "\"compute\": \"f16\""),
      with("[3, 4]", "[3]"),
      with("[[1, 2]]", R"({"b": {"c": {"d": {"e": {"f": 1}}}}})"),
      with("[[1, 2]]", "[[[[[[1]]]]]]"),
      with("[[1, 2]]", "18446744073709551615"),
      file_with(good_values + R"(, "policy": "other")"),
      file_with(good_values + R"(, "sparse_input_grads": {"1": {"values": "v", "indices": "i", "dense_shape": [1]}})"),
      file_with(good_values + R"(, "sparse_input_grads": {"0": {"values": "v"}})"),
      file_with(good_values + R"(, "runs": {})"),
      file_with(training_values).replace(file_with(training_values).find("[\"v\"]"), 5, "[]"),
  };
  for (const auto& text : bad) {
    const Directory directory(text);
    EXPECT_THROW(load_group(directory.path()), Malformed) << text;
  }
}

}  // namespace
}  // namespace thalweg::golden
