#include "tests/support/places.h"
#include "thalweg/core/gradient.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/gather/gather.h"

using namespace thalweg;
using namespace thalweg::testing;

namespace {

using In = const std::vector<Tensor>&;

// y[b…, o…, k…, r…] = x[b…, o…, indices[b…, k…], r…]; a negative index gives 0.
std::vector<Tensor> gathered(In in, int axis, int batch_dims) {
  const Shape &x = in[0].shape(), &indices = in[1].shape();
  const Shape shape = concatenate(concatenate(x.prefix(axis), indices.suffix(batch_dims)), x.suffix(axis + 1));
  const auto ids = in[1].to_vector<std::int64_t>();
  return moved(shape, [&](const Ints& place) {
    Ints at, which;
    for (int i = 0; i < batch_dims; ++i) which.push_back(place[i]);
    for (int i = batch_dims; i < indices.rank(); ++i) which.push_back(place[axis + i - batch_dims]);
    for (int i = 0; i < axis; ++i) at.push_back(place[i]);
    at.push_back(ids[static_cast<std::size_t>(number_of(which, indices))]);
    for (int i = axis + indices.rank() - batch_dims; i < place.size(); ++i) at.push_back(place[i]);
    return at;
  })(in);
}

Sample sample(const std::string& label, const Shape& x, const Shape& indices, const Gather& options,
              DType dtype = i64) {
  const int axis = static_cast<int>(options.axis < 0 ? options.axis + x.rank() : options.axis),
            shared = static_cast<int>(options.batch_dims);
  return {
      .op = "gather",
      .label = label,
      .inputs = {{x},
                 {.shape = indices, .domain = Domain::index, .limit = x.size() ? x[axis] : 1, .index_dtype = dtype}},
      .call = [=](In in) { return std::vector{gather(in[0], in[1], options)}; },
      .oracle = [=](In in) { return gathered(in, axis, shared); },
      .exact = true};
}

Sample lookup(const std::string& label, const Shape& table, const Shape& ids, DType dtype) {
  return {.op = "embedding_lookup",
          .label = label,
          .inputs = {{table}, {.shape = ids, .domain = Domain::index, .limit = table[0], .index_dtype = dtype}},
          .call = [](In in) { return std::vector{embedding_lookup(in[0], in[1])}; },
          .oracle = [](In in) { return gathered(in, 0, 0); },
          .exact = true};
}

Sample masked(const std::string& label, const Shape& x, const Tensor& mask, int axis, const Shape& result,
              const std::function<Ints(Ints)>& source) {
  return {.op = "gather",
          .label = label,
          .inputs = {{x}},
          .call = [=](In in) { return std::vector{boolean_mask(in[0], mask, axis)}; },
          .oracle = moved(result, source),
          .exact = true};
}

}  // namespace

TW_SAMPLES {
  const Tensor some_ids = tensor({2, -1, 0, 2});
  return {
      .samples =
          {
              sample("rows, repeated", {5, 3}, {7}, {}),
              sample("many rows", {50, 40}, {30, 31}, {}),
              sample("a scalar index", {5, 3}, {}, {}, i32),
              sample("no index", {5, 3}, {0}, {}),
              sample("along the last axis", {3, 4}, {2, 3}, {.axis = -1}, u8),
              sample("along a middle axis", {2, 5, 3}, {4}, {.axis = 1}),
              sample("one batch axis", {3, 4, 2}, {3, 5}, {.axis = 1, .batch_dims = 1}, i32),
              sample("one batch axis, one between", {2, 3, 4, 2}, {2, 6}, {.axis = 2, .batch_dims = 1}),
              sample("an element of every row", {6, 4}, {6}, {.axis = 1, .batch_dims = 1}),
              sample("empty slices", {4, 0}, {3}, {}),
              masked("boolean_mask of rows", {3, 2}, tensor({true, false, true}), 0, {2, 2},
                     [](const Ints& p) {
                       return Ints{2 * p[0], p[1]};
                     }),
              masked("boolean_mask of two axes", {2, 2, 3}, tensor({{true, false}, {false, true}}), 0, {2, 3},
                     [](const Ints& p) {
                       return Ints{p[0], p[0], p[1]};
                     }),
              masked("boolean_mask along the last axis", {2, 3}, tensor({false, true, true}), 1, {2, 2},
                     [](const Ints& p) {
                       return Ints{p[0], p[1] + 1};
                     }),
              masked("boolean_mask of nothing", {2, 3}, tensor({false, false}), 0, {0, 3},
                     [](const Ints& p) { return p; }),
              lookup("rows", {6, 4}, {2, 3}, i64),
              lookup("ids in 8 bits", {6, 4}, {5}, u8),
              lookup("no ids", {6, 4}, {0}, i32),
              {.op = "embedding_lookup",
               .label = "negative ids as zeros",
               .inputs = {{{3, 2}}},
               .call = [=](In in) { return std::vector{gather_or_zero(in[0], some_ids)}; },
               .oracle =
                   [=](In in) {
                     return gathered({in[0], some_ids}, 0, 0);
                   },
               .exact = true},
          },
      .mistakes =
          {
              {.op = "gather",
               .label = "too large",
               .call =
                   [] {
                     gather(zeros({3, 2}), tensor({{0, 1}, {2, 3}}));
                   },
               .code = ErrorCode::out_of_range,
               .words = {"[gather]", "index 3", "position [1, 1]", "0 to 2"}},
              {.op = "gather",
               .label = "negative",
               .call =
                   [] {
                     gather(zeros({3, 2}), tensor({0, -1}));
                   },
               .code = ErrorCode::out_of_range,
               .words = {"[gather]", "index -1", "position [1]", "0 to 2"}},
              {.op = "gather",
               .label = "float indices",
               .call =
                   [] {
                     gather(zeros({3, 2}), tensor({0.f}));
                   },
               .code = ErrorCode::invalid_argument,
               .words = {"[gather]", "i32, i64 or u8", "got f32"}},
              {.op = "gather",
               .label = "batches differ",
               .call =
                   [] {
                     gather(zeros({3, 2}), zeros({2, 1}, i32), {.axis = 1, .batch_dims = 1});
                   },
               .code = ErrorCode::invalid_argument,
               .words = {"[gather]", "[3]", "[2, 1]"}},
              {.op = "gather",
               .label = "batch axes beyond the axis",
               .call =
                   [] {
                     gather(zeros({3, 2}), zeros({3}, i32), {.axis = 0, .batch_dims = 1});
                   },
               .code = ErrorCode::invalid_argument,
               .words = {"[gather]", "batch_dims from 0 to 0", "got 1"}},
              {.op = "gather",
               .label = "a mask that does not fit",
               .call =
                   [] {
                     boolean_mask(zeros({3, 2}), tensor({true, false}));
                   },
               .code = ErrorCode::invalid_argument,
               .words = {"[boolean_mask]", "[3, 2]", "[2]"}},
              {.op = "gather",
               .label = "a mask of numbers",
               .call =
                   [] {
                     boolean_mask(zeros({3}), tensor({1, 0, 1}));
                   },
               .code = ErrorCode::invalid_argument,
               .words = {"[boolean_mask]", "expected a boolean mask", "i32"}},
              {.op = "embedding_lookup",
               .label = "an id beyond the table",
               .call =
                   [] {
                     embedding_lookup(zeros({3, 2}), tensor({0, 3}));
                   },
               .code = ErrorCode::out_of_range,
               .words = {"[embedding_lookup]", "index 3", "position [1]", "0 to 2"}},
              {.op = "embedding_lookup",
               .label = "a gradient whose rows do not fit",
               .call =
                   [] {
                     Gradient(zeros({2, 3}), tensor({0, 1}), {5, 4});
                   },
               .code = ErrorCode::invalid_argument,
               .words = {"[gradient]", "[5, 4]", "[2, 3]"}},
              {.op = "embedding_lookup",
               .label = "a gradient for a row that is not there",
               .call =
                   [] {
                     Gradient(zeros({2, 4}), tensor({0, 5}), {5, 4}).dense();
                   },
               .code = ErrorCode::out_of_range,
               .words = {"index 5", "0 to 4"}},
          },
  };
}
