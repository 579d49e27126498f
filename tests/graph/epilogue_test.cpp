// Programs that run within the product or convolution before them: where they do, and that no bit changes by it.
#include <atomic>

#include "tests/graph/pass_testing.h"
#include "tests/typed_values.h"
#include "thalweg/backend/cpu/gemm.h"
#include "thalweg/core/thread_pool.h"
#include "thalweg/ops/layer_norm/gradients.h"
#include "thalweg/plan/compile.h"
#include "thalweg/plan/executable.h"
#include "thalweg/plan/plan_state.h"

using namespace thalweg;
using namespace thalweg::testing;

namespace {

struct Case {
  const char* name;
  std::vector<Shape> shapes;
  std::function<List(const List&)> call;
  std::size_t epilogues;
  DType dtype = f32;
};

List one(const Tensor& x) { return {x}; }

std::vector<Case> cases() {
  const auto dense = [](const List& in) { return one(relu(matmul(in[0], in[1]) + in[2])); };
  const auto image = [](const List& in) { return one(relu(conv2d(in[0], in[1], {.padding = same}) + in[2])); };
  const auto rounded = [](const Tensor& y, const Tensor& b) {
    return one(cast(relu(cast(y, f32) + cast(b, f32)), bf16));
  };
  const auto dense_of_bf16 = [=](const List& in) { return rounded(matmul(in[0], in[1]), in[2]); };
  const auto image_of_bf16 = [=](const List& in) { return rounded(conv2d(in[0], in[1], {.padding = same}), in[2]); };
  const auto norm = [](Shape rows) {
    const Shape x = rows.rank() == 0 ? Shape{96} : Shape{rows[0], 96};
    return std::vector<Shape>{x, {96}, rows, rows, x, x};
  };
  const auto norm_and_residual = [](const List& in) {
    const auto [dx, dscale, doffset] = layer_norm_backward(in[0], in[1], in[2], in[3], in[4], 1e-3);
    return List{dx + in[5], dscale, doffset};
  };
  return {
      {"bias and relu", {{300, 256}, {256, 96}, {96}}, dense, 1},
      {"columns in parts", {{64, 256}, {256, 2000}, {2000}}, dense, 1},
      {"columns that are no vectors", {{77, 33}, {33, 51}, {51}}, dense, 1},
      {"a long sum in parts", {{32, 9000}, {9000, 48}, {48}}, dense, 1},
      {"a sum of nothing", {{5, 0}, {0, 7}, {7}}, dense, 1},
      {"entries of a batch", {{6, 40, 24}, {6, 24, 56}, {56}}, dense, 1},
      {"entries that share", {{2, 1, 9, 5}, {1, 3, 5, 8}, {8}}, dense, 1},
      {"of f64", {{65, 130}, {130, 40}, {40}}, dense, 1, f64},
      {"of bf16", {{128, 256}, {256, 96}, {96}}, dense_of_bf16, 1, bf16},
      {"a residual",
       {{300, 256}, {256, 96}, {300, 96}},
       [](const List& in) { return one(in[2] + matmul(in[0], in[1])); },
       1},
      {"the gradient of a relu",
       {{300, 256}, {96, 256}, {300, 96}},
       [](const List& in) {
         const Tensor y = matmul(in[0], in[1], {.transpose_b = true});
         return one(where(in[2] > 0.0, y, zeros_like(y)));
       },
       1},
      {"a number for all",
       {{300, 256}, {256, 96}, {}},
       [](const List& in) { return one(matmul(in[0], in[1]) * in[2]); },
       1},
      {"a number beside one column",
       {{64, 32}, {32, 1}, {}},
       [](const List& in) { return one(relu(matmul(in[0], in[1]) + in[2])); },
       1},
      {"two results",
       {{300, 256}, {256, 96}, {96}},
       [](const List& in) {
         const Tensor y = matmul(in[0], in[1]) + in[2];
         return List{y, relu(y)};
       },
       1},
      {"the gradient of a norm beside a residual", norm({300}), norm_and_residual, 1},
      {"the gradient of the norm of one row", norm({}), norm_and_residual, 1},
      {"the gradient of a norm of nothing", norm({0}), norm_and_residual, 1},
      {"the gradient of a norm alone", norm({300}), [=](const List& in) { return one(norm_and_residual(in)[0]); }, 1},
      {"the gradient of a norm of bf16", norm({300}),
       [](const List& in) {
         const Tensor dx = layer_norm_backward(cast(in[0], bf16), in[1], in[2], in[3], cast(in[4], bf16), 1e-3).x;
         return one(cast(dx, f32) + in[5]);
       },
       1},
      {"the gradient of a norm that its other results scale",
       {{300, 96}, {96}, {300}, {300, 96}},
       [](const List& in) {
         const auto [dx, dscale] = rms_norm_backward(in[0], in[1], in[2], in[3], 1e-3);
         return List{dx + dscale};
       },
       0},
      {"in the shape of heads",
       {{30, 64}, {64, 48}, {4, 12}},
       [](const List& in) {
         return one(reshape(matmul(in[0], in[1]), {30, 4, 12}) + in[2]);
       },
       1},
      {"a column of biases",
       {{30, 64}, {64, 48}, {30, 1}},
       [](const List& in) { return one(matmul(in[0], in[1]) + in[2]); },
       1},
      {"read by others too",
       {{64, 64}, {64, 64}, {64}},
       [](const List& in) {
         const Tensor y = matmul(in[0], in[1]);
         return one(matmul(relu(y + in[2]), y));
       },
       1},
      {"a row of what is made",
       {{64, 64}, {64, 64}},
       [](const List& in) {
         const Tensor y = matmul(in[0], in[1]);
         return one(y * slice(y, {0, 0}, {1, 64}));
       },
       0},
      {"a program that takes long",
       {{64, 64}, {64, 64}},
       [](const List& in) { return one(gelu(matmul(in[0], in[1]))); },
       0},
      {"Winograd's tiles", {{4, 30, 22, 16}, {3, 3, 16, 48}, {48}}, image, 1},
      {"Winograd's tiles of many channels", {{1, 12, 12, 256}, {3, 3, 256, 320}, {320}}, image, 1},
      {"Winograd's tiles by panels", {{1, 4, 4, 64}, {3, 3, 64, 512}, {512}}, image, 1},
      {"taps of another size", {{5, 20, 20, 8}, {5, 5, 8, 24}, {24}}, image, 1},
      {"one image", {{1, 20, 20, 8}, {1, 1, 8, 24}, {24}}, image, 1},
      {"of one channel", {{9, 28, 28, 1}, {3, 3, 1, 32}, {32}}, image, 1},
      {"images of bf16", {{4, 30, 22, 16}, {3, 3, 16, 48}, {48}}, image_of_bf16, 1, bf16},
      {"a transposed convolution",
       {{3, 10, 10, 16}, {3, 3, 8, 16}, {8}},
       [](const List& in) {
         return one(relu(conv2d_transpose(in[0], in[1], Shape{3, 10, 10, 8}, {.padding = same}) + in[2]));
       },
       1},
  };
}

class Epilogue : public ::testing::TestWithParam<Case> {};

TEST_P(Epilogue, keeps_every_bit) {
  const Case& c = GetParam();
  List in;
  std::vector<Spec> specs;
  for (std::size_t i = 0; i < c.shapes.size(); ++i) {
    in.push_back(cast(random::normal(c.shapes[i], {.seed = i + 1}), c.dtype));
    specs.push_back({c.dtype, c.shapes[i]});
  }
  const List expected = c.call(in);
  EXPECT_EQ(compile(traced(specs, c.call), {}).executable->epilogues(), c.epilogues);
  const auto step = function(c.call);
  for (const int threads : {1, 2, 3}) {
    const int before = config::threads();
    config::set_threads(threads);
    const List got = step(in);
    config::set_threads(before);
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_TRUE(reduce_all(equal(cast(got[i], f64), cast(expected[i], f64))).item<bool>()) << threads << " threads";
  }
}

INSTANTIATE_TEST_SUITE_P(All, Epilogue, ::testing::ValuesIn(cases()), [](const auto& info) {
  std::string name = info.param.name;
  for (char& letter : name)
    if (!std::isalnum(static_cast<unsigned char>(letter))) letter = '_';
  return name;
});

// The weights that a product of the backward pass reads are updated right after it: the gradient of the relu, which
// reads the product, passes by the update.
TEST(Epilogues, pass_by_updates) {
  const auto values = [](std::uint64_t seed) { return random::normal({64, 64}, {.seed = seed}); };
  const auto train = [&](bool compiled) {
    Variable first(values(1)), second(values(2));
    optim::SGD sgd({.learning_rate = 0.01});
    const auto run = [&](const Tensor& x) {
      GradientTape tape;
      const Tensor loss = reduce_mean(square(matmul(relu(matmul(x, first)), second)));
      const std::vector<Variable> weights{first, second};
      sgd.apply(tape.gradient(loss, weights), weights);
      return loss;
    };
    const auto step = function(run);
    const Tensor x = values(3);
    for (int i = 0; i < 3; ++i) compiled ? step(x) : run(x);
    if (compiled) {
      EXPECT_EQ(step.plan(x).state().compiled.executable->epilogues(),
                3u);  // relu, its gradient, and the update of `first`
    }
    return first.value().to_vector<float>();
  };
  const auto expected = train(false), got = train(true);
  for (std::size_t i = 0; i < expected.size(); ++i)
    ASSERT_NEAR(got[i], expected[i], 1e-5 * (1 + std::abs(expected[i])));
}

// An update is not made before a node that may refuse its values: the call that is refused leaves everything as it was.
TEST(Epilogues, stay_behind_checks) {
  const Variable weights(random::normal({256, 256}, {.seed = 1}));
  optim::SGD sgd({.learning_rate = 0.1});
  const Tensor table = random::normal({10, 4}, {.seed = 2}), x = random::normal({2048, 256}, {.seed = 3});
  const auto step = function([&](const Tensor& in, const Tensor& rows) {
    GradientTape tape;
    const std::vector<Variable> list{weights};
    const auto gradients = tape.gradient(reduce_sum(square(matmul(in, weights))), list);
    Tensor looked_up = gather(table, rows);
    sgd.apply(gradients, list);
    return looked_up;
  });
  const auto before = weights.value().to_vector<float>();
  EXPECT_THROW(step(x, Tensor::from(std::vector<std::int32_t>{1, 99}, {2})), Error);
  EXPECT_EQ(weights.value().to_vector<float>(), before);
  step(x, Tensor::from(std::vector<std::int32_t>{1, 9}, {2}));
  EXPECT_NE(weights.value().to_vector<float>(), before);
}

// Counts how often each element is told of.
struct Told {
  explicit Told(std::int64_t rows, std::int64_t columns)
      : columns(columns), counts(static_cast<std::size_t>(rows * columns)) {}

  void operator()(const Region& region) {
    for (std::int64_t row = region.row; row < region.row + region.rows; ++row)
      for (std::int64_t column = region.column; column < region.column + region.columns; ++column)
        ++counts.at(static_cast<std::size_t>(row * columns + column));
  }
  void expect_all() const {
    for (const auto& count : counts) ASSERT_EQ(count, 1);
  }

  std::int64_t columns;
  std::vector<std::atomic<int>> counts;
};

TEST(Regions, of_a_product_are_all_elements_once) {
  for (const cpu::Gemm& gemm : {cpu::Gemm{.m = 300, .n = 96, .k = 256},
                                {.m = 64, .n = 2000, .k = 256},
                                {.m = 32, .n = 48, .k = 9000},
                                {.batch = 3, .m = 40, .n = 56, .k = 24, .stride_a = 960, .stride_b = 1344},
                                {.m = 700, .n = 700, .k = 600},
                                {.m = 300, .n = 96, .k = 256, .transpose_a = true},
                                {.m = 5, .n = 7, .k = 0},
                                {.m = 1, .n = 600, .k = 300}}) {
    const std::vector<float> a(static_cast<std::size_t>(gemm.batch * gemm.m * gemm.k), 1.0f);
    const std::vector<float> b(static_cast<std::size_t>(gemm.batch * gemm.n * gemm.k), 1.0f);
    std::vector<float> c(static_cast<std::size_t>(gemm.batch * gemm.m * gemm.n));
    Told told(gemm.batch * gemm.m, gemm.n);
    std::atomic<bool> stands = true;
    const auto look = [&](const Region& region) {
      told(region);
      for (std::int64_t row = region.row; row < region.row + region.rows; ++row)
        for (std::int64_t column = region.column; column < region.column + region.columns; ++column)
          if (c[static_cast<std::size_t>(row * gemm.n + column)] != static_cast<float>(gemm.k)) stands = false;
    };
    const OnRegion done = look;
    testing_values::Workspace workspace(cpu::gemm_workspace(gemm));
    cpu::gemm(gemm, a.data(), b.data(), c.data(), workspace.span(), &done);
    told.expect_all();
    EXPECT_TRUE(stands) << gemm.m << " " << gemm.n << " " << gemm.k;
  }
}

}  // namespace
