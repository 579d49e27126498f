// Generated code against the interpreter, bit for bit, with every instruction set that code is made for.
#include <gtest/gtest.h>

#include <bit>
#include <numeric>
#include <random>
#include <thread>

#include "tests/kernel_testing.h"
#include "thalweg/backend/cpu/generated.h"
#include "thalweg/core/convert.h"
#include "thalweg/core/memory.h"
#include "thalweg/ops/broadcast.h"
#include "thalweg/ops/row_gradients.h"

namespace thalweg {
namespace {

using Bytes = std::vector<std::byte>;

struct ModeScope {
  explicit ModeScope(jit::Mode mode) { jit::set_mode(mode); }
  ~ModeScope() { jit::set_mode(jit::Mode::automatic); }
};

// An array with values of its own, aligned as tensors are.
struct Owned {
  Spec spec;
  Bytes bytes;

  explicit Owned(const Spec& s) : spec(s), bytes(static_cast<std::size_t>(s.bytes()) + memory::alignment) {}
  Array array() {
    const auto past = reinterpret_cast<std::uintptr_t>(bytes.data()) % memory::alignment;
    return {bytes.data() + (memory::alignment - past), &spec};
  }
};

// Ordinary numbers and all that is not: zeros of both signs, infinities, NaN, denormals, the edges of functions.
double some_value(std::mt19937& random) {
  using testing::kInfinity, testing::kNan;
  static constexpr double special[] = {0.,     -0.,  1.,    -1.,    2.,   0.5,       -0.5,       1e-40,
                                       -1e-42, 1e38, -1e38, 1e-38,  88.7, 89.5,      -87.,       -104.,
                                       0.55,   4.,   -10.,  1e-310, 7e4,  kInfinity, -kInfinity, kNan};
  if (random() % 4 == 0) return special[random() % std::size(special)];
  const double wide =
      std::ldexp(1 + static_cast<double>(random()) / 4294967296.0, static_cast<int>(random() % 24) - 16);
  return random() % 2 ? wide : -wide;
}

Owned some_array(std::mt19937& random, const Spec& spec) {
  Owned made(spec);
  with_type(spec.dtype, [&]<class T>(TypeTag<T>) {
    T* data = made.array().as<T>();
    for (std::int64_t i = 0; i < spec.size(); ++i) data[i] = convert<T>(some_value(random));
  });
  return made;
}

// Bits, with all NaN the same: which of two a sum hands on is up to the compiler of the kernels.
template <class T>
std::uint64_t plain_bits(T value) {
  if (const auto x = static_cast<double>(value); x != x) return 0x7FF8000000000000U;
  if constexpr (sizeof(T) == 8)
    return std::bit_cast<std::uint64_t>(value);
  else if constexpr (sizeof(T) == 4)
    return std::bit_cast<std::uint32_t>(value);
  else if constexpr (sizeof(T) == 2)
    return std::bit_cast<std::uint16_t>(value);
  else
    return static_cast<std::uint64_t>(value);
}

void expect_same(Owned& generated, Owned& interpreted) {
  with_type(interpreted.spec.dtype, [&]<class T>(TypeTag<T>) {
    const T *got = generated.array().as<T>(), *want = interpreted.array().as<T>();
    for (std::int64_t i = 0; i < interpreted.spec.size(); ++i)
      ASSERT_EQ(plain_bits(got[i]), plain_bits(want[i]))
          << "element " << i << ": " << static_cast<double>(got[i]) << " instead of " << static_cast<double>(want[i]);
  });
}

std::vector<Owned> run(jit::Mode mode, const Program& program, std::vector<Owned>& in, const Spec& result) {
  const ModeScope scope(mode);
  std::vector<Array> from, to;
  std::vector<Owned> out;
  for (auto& each : in) from.push_back(each.array());
  for (std::size_t i = 0; i < program.outputs.size(); ++i) out.emplace_back(result);
  for (auto& each : out) to.push_back(each.array());
  run_program(program, from, to);
  return out;
}

void compare(const Program& program, std::vector<Owned>& in, const Spec& result) {
  auto generated = run(jit::Mode::generated, program, in, result);
  auto interpreted = run(jit::Mode::interpreted, program, in, result);
  for (std::size_t i = 0; i < generated.size(); ++i) {
    SCOPED_TRACE("output " + std::to_string(i));
    expect_same(generated[i], interpreted[i]);
  }
}

template <class Body>
void for_each_generating_target(Body body) {
  testing::for_each_target([&] {
    if (hwy::SupportedTargets() & (HWY_AVX2 | HWY_AVX3)) body();
  });
}

bool has_code(const Program& program, DType dtype) {
  jit::Binding binding{dtype, {}, {}};
  for (int i = 0; i < program.inputs; ++i) binding.inputs.push_back({dtype, false});
  for (std::size_t i = 0; i < program.outputs.size(); ++i) binding.outputs.push_back(dtype);
  return jit::find_code(program, binding, 1 << 20) != nullptr;
}

std::vector<Owned> some_inputs(std::mt19937& random, const Program& program, const Spec& spec) {
  std::vector<Owned> in;
  for (int i = 0; i < program.inputs; ++i) in.push_back(some_array(random, spec));
  return in;
}

// Those whose text needs calls, branches or another width.
constexpr Row without_code[] = {Row::pow,   Row::atan2, Row::floormod, Row::sin,    Row::cos,     Row::tan,
                                Row::asin,  Row::acos,  Row::atan,     Row::sinh,   Row::cosh,    Row::asinh,
                                Row::acosh, Row::atanh, Row::erfc,     Row::lgamma, Row::digamma, Row::polygamma};

TEST(generated_code, every_row_and_its_derivatives_give_the_kernels_bits) {
  for_each_generating_target([] {
    std::mt19937 random(1);
    for (int i = 0; i < row_count; ++i) {
      const Row row = static_cast<Row>(i);
      SCOPED_TRACE(row_info(row).name);
      for (const DType dtype : {f32, f64}) {
        const Spec spec{dtype, {3000 + i}};
        const bool expected =
            std::find(std::begin(without_code), std::end(without_code), row) == std::end(without_code);
        EXPECT_TRUE(dtype == f64 || has_code(row_program(row), dtype) == expected);
        auto in = some_inputs(random, row_program(row), spec);
        compare(row_program(row), in, spec);
        const Program& gradient = row_gradient(row, Needs::all()).program;
        if (gradient.outputs.empty() || gradient.inputs == 0) continue;
        auto values = some_inputs(random, gradient, spec);
        compare(gradient, values, spec);
      }
    }
  });
}

Program random_program(std::mt19937& random, int inputs, int instructions) {
  static constexpr Row rows[] = {Row::add,         Row::subtract, Row::multiply, Row::divide,        Row::maximum,
                                 Row::where,       Row::less,     Row::equal,    Row::isnan,         Row::logical_or,
                                 Row::logical_not, Row::square,   Row::sqrt,     Row::tanh,          Row::sigmoid,
                                 Row::relu,        Row::clip,     Row::floor,    Row::gelu_erf,      Row::log1p,
                                 Row::leaky_relu,  Row::neg,      Row::abs,      Row::round_to_bf16, Row::round_to_f16};
  Program program{.inputs = inputs, .constants = {0, -0.0, 1, 0.7}, .instructions = {}, .outputs = {}};
  for (int i = 0; i < instructions; ++i) {
    const Row row = rows[random() % std::size(rows)];
    Instruction next{row, {-1, -1, -1}};
    for (int k = 0; k < row_info(row).arity; ++k)
      next.operands[k] = static_cast<int>(random() % static_cast<unsigned>(program.first_result() + i));
    program.instructions.push_back(next);
  }
  const auto all = static_cast<unsigned>(program.first_result() + instructions);
  for (unsigned i = 0; i < 1 + random() % 3; ++i) program.outputs.push_back(static_cast<int>(random() % all));
  program.outputs.push_back(static_cast<int>(all) - 1);
  return program;
}

// More values than registers, masks too; every shape broadcasts to the result's; any dtype that is computed in f32.
TEST(generated_code, random_programs_over_random_operands) {
  for_each_generating_target([] {
    std::mt19937 random(2);
    const Shape results[] = {{37}, {5, 700}, {4, 3, 200}, {7, 1}, {9, 16}, {2, 5, 600}, {33000}};
    for (int trial = 0; trial < 250; ++trial) {
      SCOPED_TRACE("trial " + std::to_string(trial));
      const bool wide = trial % 5 == 0;
      const Shape shape = results[random() % std::size(results)];
      const Program program =
          random_program(random, 1 + static_cast<int>(random() % 14), 1 + static_cast<int>(random() % 20));
      std::vector<Owned> in;
      for (int i = 0; i < program.inputs; ++i) {
        Ints sizes;
        for (int axis = static_cast<int>(random() % 4 == 0) *
                        static_cast<int>(random() % static_cast<unsigned>(shape.rank() + 1));
             axis < shape.rank(); ++axis)
          sizes.push_back(i > 0 && random() % 4 == 0 ? 1 : shape[axis]);
        const DType narrow[] = {f32, f32, f32, f16, bf16, u8, DType::boolean};
        const DType dtype = wide ? f64 : i == 0 ? f32 : narrow[random() % std::size(narrow)];
        in.push_back(some_array(random, {dtype, i == 0 ? shape : Shape(sizes)}));
      }
      const DType stored[] = {f32, f16, bf16, DType::boolean};
      compare(program, in, {wide ? f64 : stored[random() % 4], shape});
    }
  });
}

// Every bf16 through programs that hand it on, pick, or change it: code leaves out roundings that change nothing.
TEST(generated_code, rounds_to_bf16_as_the_kernels_do) {
  const Program programs[] = {
      {.inputs = 2, .constants = {}, .instructions = {{Row::relu, {0, -1, -1}}}, .outputs = {2}},
      {.inputs = 2,
       .constants = {0},
       .instructions = {{Row::greater, {0, 2, -1}}, {Row::where, {3, 1, 2}}, {Row::round_to_bf16, {4, -1, -1}}},
       .outputs = {5}},
      {.inputs = 2,
       .constants = {1 / 3.},
       .instructions = {{Row::maximum, {0, 2, -1}}, {Row::abs, {1, -1, -1}}, {Row::neg, {4, -1, -1}}},
       .outputs = {3, 4, 5}},
      {.inputs = 2,
       .constants = {},
       .instructions = {{Row::add, {0, 1, -1}}, {Row::round_to_bf16, {2, -1, -1}}, {Row::square, {3, -1, -1}}},
       .outputs = {3, 4}}};
  for_each_generating_target([&] {
    std::mt19937 random(6);
    std::vector<Owned> in;
    in.emplace_back(Spec{bf16, {65536}});
    for (int i = 0; i < 65536; ++i) in[0].array().as<BFloat16>()[i].bits = static_cast<std::uint16_t>(i);
    for (const DType other : {bf16, f32}) {
      in.resize(1, Owned({bf16, {0}}));
      in.push_back(some_array(random, {other, {65536}}));
      for (const Program& program : programs)
        for (const DType result : {bf16, f32}) compare(program, in, {result, {65536}});
    }
  });
}

// Every byte through divisions by constants, which code replaces by products where that gives the same bits: scaled as
// images are, chosen between two images, squared on the way, and by numbers at the edges of what floats can hold.
TEST(generated_code, divides_bytes_as_the_kernels_do) {
  using Instructions = std::vector<Instruction>;
  const Instructions scaled{{Row::divide, {0, 3, -1}}, {Row::subtract, {6, 4, -1}}, {Row::divide, {7, 5, -1}}};
  const Instructions chosen{
      {Row::where, {2, 0, 1}}, {Row::divide, {6, 3, -1}}, {Row::subtract, {7, 4, -1}}, {Row::divide, {8, 5, -1}}};
  const Instructions squared{{Row::multiply, {0, 0, -1}},
                             {Row::divide, {6, 3, -1}},
                             {Row::add, {7, 0, -1}},
                             {Row::divide, {8, 5, -1}},
                             {Row::divide, {1, 9, -1}}};
  for_each_generating_target([&] {
    std::vector<Owned> in;
    for (const DType dtype : {u8, u8, boolean}) in.emplace_back(Spec{dtype, {256}});
    for (int i = 0; i < 256; ++i) {
      in[0].array().as<std::uint8_t>()[i] = static_cast<std::uint8_t>(i);
      in[1].array().as<std::uint8_t>()[i] = static_cast<std::uint8_t>(255 - i * 7 % 256);
      in[2].array().as<bool>()[i] = i % 3 == 0;
    }
    std::mt19937 random(7);
    std::vector<double> divisors{255, 127.5, 256, 0.31, 0.229, -58.395, 3, 1e-38, 1e-45, 3e38, 0, -0.0};
    for (int i = 0; i < 100; ++i) divisors.push_back(some_value(random));
    for (const double divisor : divisors)
      for (const double last : {0.31, divisor})
        for (const auto& instructions : {scaled, chosen, squared}) {
          SCOPED_TRACE(divisor);
          const int result = 5 + static_cast<int>(instructions.size());
          compare({.inputs = 3, .constants = {divisor, 0.13, last}, .instructions = instructions, .outputs = {result}},
                  in, {f32, {256}});
        }
  });
}

// Outputs in the memory of inputs that other outputs still read.
TEST(generated_code, outputs_may_take_the_place_of_inputs) {
  const Program program{.inputs = 3,
                        .constants = {0.5},
                        .instructions = {{Row::multiply, {0, 3, -1}}, {Row::add, {4, 1, -1}}, {Row::add, {0, 2, -1}}},
                        .outputs = {4, 5, 6}};
  for_each_generating_target([&] {
    std::mt19937 random(3);
    for (const std::int64_t size : {5, 16, 300, 40001}) {
      const Spec spec{f32, {size}};
      auto in = some_inputs(random, program, spec);
      auto apart = run(jit::Mode::interpreted, program, in, spec);
      const ModeScope scope(jit::Mode::generated);
      const Array arrays[] = {in[0].array(), in[1].array(), in[2].array()};
      run_program(program, arrays, arrays);
      for (std::size_t i = 0; i < 3; ++i) expect_same(in[i], apart[i]);
    }
  });
}

TEST(generated_code, elements_are_read_from_anywhere) {
  const Program program{.inputs = 2,
                        .constants = {},
                        .instructions = {{Row::multiply, {0, 1, -1}}, {Row::exp, {2, -1, -1}}},
                        .outputs = {3}};
  for_each_generating_target([&] {
    std::mt19937 random(4);
    for (const std::int64_t columns : {3, 100, 800}) {
      const Spec spec{f32, {20, columns}};
      std::vector<Owned> in{some_array(random, spec), some_array(random, {f32, {columns}})};
      auto whole = run(jit::Mode::interpreted, program, in, spec);
      Owned parts(spec);
      const ModeScope scope(jit::Mode::generated);
      const Array arrays[] = {in[0].array(), in[1].array()};
      with_program(program, arrays, spec, [&](ReadElements read) {
        for (std::int64_t first = 0, count = 1; first < spec.size(); first += count, count = count * 2 + 1)
          read(first, std::min(count, spec.size() - first), parts.array().as<float>() + first);
      });
      expect_same(parts, whole[0]);
    }
  });
}

// Written past the caches, where vectors stay whole and where they do not.
TEST(generated_code, large_results) {
  const Program program{
      .inputs = 2, .constants = {}, .instructions = {{Row::add, {0, 1, -1}}, {Row::relu, {2, -1, -1}}}, .outputs = {3}};
  std::mt19937 random(5);
  for (const Shape& shape : {Shape{8'400'005}, Shape{16'500, 512}, Shape{8'400, 1001}}) {
    const Spec spec{f32, shape};
    std::vector<Owned> in{some_array(random, spec), some_array(random, {f32, {shape[shape.rank() - 1]}})};
    compare(program, in, spec);
  }
}

TEST(generated_code, is_made_and_found_by_several_threads) {
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread)
    threads.emplace_back([thread] {
      for (int i = 0; i < 400; ++i) {
        const float constant = static_cast<float>((i * (thread + 1)) % 60);
        const Program program{.inputs = 1,
                              .constants = {constant},
                              .instructions = {{Row::add, {0, 1, -1}}, {Row::multiply, {2, 2, -1}}},
                              .outputs = {3}};
        std::vector<float> x(300, 2.f), y(300);
        const Spec spec{f32, {300}};
        const Array in{x.data(), &spec}, out{y.data(), &spec};
        run_program(program, {&in, 1}, {&out, 1});
        ASSERT_EQ(y[299], (2 + constant) * (2 + constant));
      }
    });
  for (auto& thread : threads) thread.join();
}

TEST(generated_code, is_kept_within_a_bound_and_counted) {
  if (!(hwy::SupportedTargets() & HWY_TARGETS & (HWY_AVX2 | HWY_AVX3))) GTEST_SKIP() << "no instruction set for it";
  const auto before = jit::code_counts();
  const auto program = [](int number) {
    return Program{.inputs = 1,
                   .constants = {static_cast<double>(number)},
                   .instructions = {{Row::add, {0, 1, -1}}, {Row::sqrt, {2, -1, -1}}},
                   .outputs = {3}};
  };
  for (int i = 0; i < 2000; ++i) ASSERT_TRUE(has_code(program(i), f32));
  const auto after = jit::code_counts();
  EXPECT_EQ(after.made, before.made + 2000);
  EXPECT_LE(after.programs, 512);
  EXPECT_GE(after.bytes, after.programs * 4096);
  EXPECT_TRUE(has_code(program(1999), f32));
  EXPECT_EQ(jit::code_counts().made, after.made) << "made again though it was kept";
}

}  // namespace
}  // namespace thalweg
