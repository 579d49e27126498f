#pragma once

// What the generated tests know of an op beyond its record: inputs to try and, where the record has no reference, an
// oracle in plain loops. A folder's samples.cpp registers them:
//   TW_SAMPLES { return {{.op = "reshape", .label = "to a row", .inputs = {{{2, 3}}}, .call = …}}; }
#include <functional>
#include <string>
#include <vector>

#include "thalweg/core/error.h"
#include "thalweg/core/tensor.h"

namespace thalweg::testing {

// Where values are drawn. shifted: never equal to a value of the others, and not near zero. Values are multiples of
// 1/64 (integers: whole), so that every dtype holds them exactly.
enum class Domain { real, positive, nonzero, unit, above_one, apart, shifted, integers, order, index, boolean };

struct Input {
  Shape shape;
  Domain domain = Domain::real;
  std::int64_t limit = 0;      // index: values in [0, limit)
  DType index_dtype = i64;     // dtype of Domain::index
  bool differentiable = true;  // float inputs: whether a gradient is expected
};

using Call = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

struct Sample {
  std::string op;     // the name in ops.def or elementwise.def
  std::string label;  // what is special about it
  std::vector<Input> inputs;
  Call call;
  Call oracle = {};                                   // in f64, on the same inputs; empty: the record's reference
  std::vector<DType> dtypes = {f32, f64, f16, bf16};  // of the float inputs; each is tried
  int gradient_order = 2;                             // 0: values only (not differentiable there)
  bool exact = false;     // inputs are small whole numbers and every dtype must agree exactly
  double tolerance = 1;   // multiplies the dtype's own
  bool large = false;     // several tasks for the pool: values and threads only
  bool nonfinite = true;  // planted NaN and infinities must come out as the oracle says
};

// A call that must fail: with this code, and with these words in its message.
struct Mistake {
  std::string op, label;
  std::function<void()> call;
  ErrorCode code;
  std::vector<std::string> words;
};

struct Samples {
  std::vector<Sample> samples;
  std::vector<Mistake> mistakes;
};

// All that were registered in this program.
Samples& registered();

struct Registration {
  Registration(const Samples& (*make)());
};

#define TW_SAMPLES                                                                                    \
  static thalweg::testing::Samples make_samples();                                                    \
  static const thalweg::testing::Registration registration([]() -> const thalweg::testing::Samples& { \
    static const thalweg::testing::Samples samples = make_samples();                                  \
    return samples;                                                                                   \
  });                                                                                                 \
  static thalweg::testing::Samples make_samples()

}  // namespace thalweg::testing
