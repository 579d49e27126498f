// The tests that every op's record and samples give rise to.
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cmath>
#include <map>
#include <random>
#include <set>

#include "tests/ops/checks.h"
#include "tests/support/gradients.h"
#include "tests/support/values.h"
#include "thalweg/autodiff/tape.h"
#include "thalweg/core/dispatch.h"
#include "thalweg/core/thread_pool.h"
#include "thalweg/ops/registry.h"
#include "thalweg/plan/function.h"

namespace thalweg::testing {
namespace {

constexpr double value_tolerance = 1e-12;

double tolerance_of(DType dtype) {
  switch (dtype) {
    case DType::f32: return 4e-6;
    case DType::f16: return 4e-3;
    case DType::bf16: return 3e-2;
    default: return value_tolerance;
  }
}

std::vector<Tensor> expected(const Sample& sample, const std::vector<Tensor>& inputs) {
  if (sample.oracle) return sample.oracle(inputs);
  ByReference reference;
  return sample.call(inputs);
}

// Values in f64 against the oracle.
void values(const Sample& sample) {
  const auto inputs = draw(sample.inputs, 1);
  const auto got = sample.call(inputs), want = expected(sample, inputs);
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_TRUE(near(got[i], want[i], sample.exact ? 0 : value_tolerance * sample.tolerance)) << "output " << i;
}

// Other dtypes against f64 on the same, exactly representable inputs.
void dtypes(const Sample& sample) {
  if (sample.large) return;
  const auto inputs = draw(sample.inputs, 2);
  const auto want = sample.call(inputs);
  for (DType dtype : sample.dtypes) {
    SCOPED_TRACE(name_of(dtype));
    const auto got = sample.call(in_dtype(inputs, dtype));
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      const DType expected_dtype = is_float(want[i].dtype()) ? dtype : want[i].dtype();
      EXPECT_EQ(got[i].dtype(), expected_dtype) << "output " << i;
      const bool exact = sample.exact && (dtype == f32 || dtype == f64);
      EXPECT_TRUE(near(got[i], want[i], exact ? 0 : tolerance_of(dtype) * sample.tolerance)) << "output " << i;
    }
  }
}

// Gradients in f64 against directional differences, first and second order.
void gradients(const Sample& sample) {
  if (sample.large) return;
  EXPECT_TRUE(sample.gradient_order < 1 || check_first_order(sample, 3));
  EXPECT_TRUE(sample.gradient_order < 2 || check_second_order(sample, 4));
}

class SequentialPool final : public ThreadPool {
 public:
  int threads() const override { return 7; }
  void run(std::int64_t tasks, FunctionRef<void(std::int64_t)> body) override {
    for (std::int64_t i = tasks; i-- > 0;) body(i);  // backwards: the order must not matter
  }
};

// What a sample computes in f32: its outputs, and the gradients of their sum by each differentiable input.
std::vector<Tensor> outputs_and_gradients(const Sample& sample, const std::vector<Tensor>& inputs) {
  GradientTape tape;
  std::vector<Tensor> sources, targets;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (is_float(inputs[i].dtype()) && sample.inputs[i].differentiable)
      tape.watch(inputs[i]), sources.push_back(inputs[i]);
  std::vector<Tensor> results = sample.call(inputs);
  if (sample.gradient_order == 0) return results;
  for (const auto& output : results)
    if (is_float(output.dtype())) targets.push_back(output);
  for (const auto& gradient : tape.gradient(targets, sources)) results.push_back(gradient.dense());
  return results;
}

// The same bits for any number of threads and in a pool of the host.
void threads(const Sample& sample) {
  const auto inputs = in_dtype(draw(sample.inputs, 5), f32);
  config::set_threads(1);
  const auto want = outputs_and_gradients(sample, inputs);
  const auto compare = [&] {
    const auto got = outputs_and_gradients(sample, inputs);
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(same_bits(got[i], want[i])) << "result " << i;
  };
  for (int n : {2, 3, 4}) config::set_threads(n), compare();
  config::set_thread_pool(std::make_shared<SequentialPool>());
  compare();
  config::set_threads(0);
}

// NaN and infinities planted in the inputs come out where the oracle has them.
void nonfinite(const Sample& sample) {
  if (!sample.nonfinite) return;
  for (std::size_t which = 0; which < sample.inputs.size(); ++which) {
    auto inputs = draw(sample.inputs, 6);
    if (!is_float(inputs[which].dtype())) continue;
    auto planted = inputs[which].to_vector<double>();
    const double special[] = {NAN, INFINITY, -INFINITY};
    for (std::size_t i = 0; i < 3 && i < planted.size(); ++i) planted[i * 5 % planted.size()] = special[i];
    inputs[which] = Tensor::from(planted, inputs[which].shape());
    const auto got = sample.call(inputs), want = expected(sample, inputs);
    for (std::size_t i = 0; i < got.size(); ++i)
      EXPECT_TRUE(near(got[i], want[i], 1e-9 * sample.tolerance)) << "output " << i << ", planted in input " << which;
  }
}

// The compiled op, with its gradients in the same plan, against the eager one.
void compiled(const Sample& sample) {
  const auto inputs = in_dtype(draw(sample.inputs, 7), f32);
  const auto want = connected_results(sample, inputs);
  const auto f = function([&](const std::vector<Tensor>& in) { return connected_results(sample, in); });
  for (int call = 0; call < 2; ++call) {
    const std::vector<Tensor> got = f(inputs);
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < got.size(); ++i)
      EXPECT_TRUE(same_bits(got[i], want[i])) << "result " << i << ", call " << call;
  }
  EXPECT_EQ(f.stats().traces, 1);
}

class SampleTest : public ::testing::Test {
 public:
  SampleTest(Check check, std::vector<const Sample*> samples) : check_(check), samples_(std::move(samples)) {}
  void TestBody() override {
    for (const auto* sample : samples_) {
      SCOPED_TRACE(sample->op + ", " + sample->label);
      check_(*sample);
    }
  }

 private:
  Check check_;
  std::vector<const Sample*> samples_;
};

class MistakeTest : public ::testing::Test {
 public:
  explicit MistakeTest(std::vector<const Mistake*> mistakes) : mistakes_(std::move(mistakes)) {}
  void TestBody() override {
    for (const auto* mistake : mistakes_) {
      SCOPED_TRACE(mistake->op + ", " + mistake->label);
      const auto before = config::memory_info().in_use;
      try {
        mistake->call();
        ADD_FAILURE() << "expected an error";
      } catch (const Error& error) {
        EXPECT_EQ(to_string(error.code()), std::string(to_string(mistake->code)));
        for (const auto& word : mistake->words)
          EXPECT_NE(std::string(error.what()).find(word), std::string::npos)
              << "no \"" << word << "\" in: " << error.what();
        EXPECT_NE(std::string(error.what()).find("hint: "), std::string::npos) << error.what();
      }
      EXPECT_EQ(config::memory_info().in_use, before) << "a failed call leaves nothing behind";
    }
  }

 private:
  std::vector<const Mistake*> mistakes_;
};

// A test for each op and check: Values.matmul, Gradients.matmul, …
}  // namespace

std::vector<Tensor> connected_results(const Sample& sample, const std::vector<Tensor>& inputs) {
  auto all = outputs_and_gradients(sample, inputs);
  std::erase_if(all, [](const Tensor& tensor) { return !tensor.defined(); });
  return all;
}

void register_tests() {
  std::map<std::string, std::vector<const Sample*>> by_op;
  for (const auto& sample : registered().samples) by_op[sample.op].push_back(&sample);
  const std::pair<const char*, Check> checks[] = {
      {"Values", values},       {"Dtypes", dtypes},           {"Gradients", gradients},    {"Threads", threads},
      {"Nonfinite", nonfinite}, {"Fields", check_fields},     {"Batch", check_batch},      {"Compiled", compiled},
      {"File", check_file},     {"Programs", check_programs}, {"Jacobian", check_jacobian}};
  for (const auto& [suite, check] : checks)
    for (const auto& entry : by_op)
      ::testing::RegisterTest(
          suite, entry.first.c_str(), nullptr, nullptr, __FILE__, __LINE__,
          [check = check, samples = entry.second]() -> ::testing::Test* { return new SampleTest(check, samples); });
  std::map<std::string, std::vector<const Mistake*>> mistakes;
  for (const auto& mistake : registered().mistakes) mistakes[mistake.op].push_back(&mistake);
  for (const auto& entry : mistakes)
    ::testing::RegisterTest("Mistakes", entry.first.c_str(), nullptr, nullptr, __FILE__, __LINE__,
                            [list = entry.second]() -> ::testing::Test* { return new MistakeTest(list); });
}

namespace {

TEST(registry, every_op_has_samples_and_a_gradient_or_says_that_it_has_none) {
  std::set<std::string> sampled;
  for (const auto& sample : registered().samples) sampled.insert(sample.op);
  for (const auto* op : all_ops()) {
    EXPECT_TRUE(sampled.count(op->name)) << op->name << " has no samples";
    EXPECT_NE(op->kind, GradientKind::missing) << op->name << " has neither a gradient rule nor a reference";
  }
  for (const auto& name : sampled)
    EXPECT_NE(find_op(name), nullptr) << "samples for \"" << name << "\", which is no op";
}

}  // namespace
}  // namespace thalweg::testing

namespace {

// --simd=baseline | avx2: as on a processor that has nothing better. Without it the best there is.
void restrict_targets(const std::string& simd) {
  if (simd == "baseline")
    hwy::DisableTargets(HWY_AVX2 | HWY_AVX3 | HWY_AVX3_DL);
  else if (simd == "avx2")
    hwy::DisableTargets(HWY_AVX3 | HWY_AVX3_DL);
  else
    std::exit(2);
}

}  // namespace

// The samples have registered themselves by now; before main their order would be anyone's guess.
int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i)
    if (const std::string argument = argv[i]; argument.starts_with("--simd=")) restrict_targets(argument.substr(7));
  thalweg::testing::register_tests();
  return RUN_ALL_TESTS();
}
