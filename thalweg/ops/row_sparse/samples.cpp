#include <algorithm>

#include "tests/support/sample.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/row_sparse/row_sparse.h"

using namespace thalweg;
using namespace thalweg::testing;

namespace {

using In = const std::vector<Tensor>&;

// Without the kernel's order: each index that is not negative, sorted, each once.
Sample distinct(const char* label, std::int64_t count, std::int64_t rows) {
  const auto oracle = [=](In in) {
    const auto ids = in[0].to_vector<std::int64_t>();
    std::vector<std::int64_t> list;
    std::copy_if(ids.begin(), ids.end(), std::back_inserter(list), [](std::int64_t id) { return id >= 0; });
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
    std::vector<std::int64_t> places;
    for (std::int64_t id : ids)
      places.push_back(id < 0 ? -1 : std::lower_bound(list.begin(), list.end(), id) - list.begin());
    list.resize(ids.size(), -1);
    return std::vector{Tensor::from(list, {count}), Tensor::from(places, {count})};
  };
  return {.op = "distinct_rows",
          .label = label,
          .inputs = {{.shape = {count}, .domain = Domain::index, .limit = rows}},
          .call =
              [rows](In in) {
                const auto [list, places] = distinct_rows(in[0], rows);
                return std::vector{list, places};
              },
          .oracle = oracle,
          .gradient_order = 0,
          .exact = true};
}

const Tensor places = tensor({3L, 0L, -1L, 5L});

Sample put(const char* label, const Shape& row) {
  const std::int64_t width = row.size();
  return {.op = "put_rows",
          .label = label,
          .inputs = {{.shape = concatenate({6}, row), .differentiable = false},
                     {.shape = concatenate({4}, row), .differentiable = false}},
          .call = [](In in) { return std::vector{put_rows(in[0], places, in[1])}; },
          .oracle =
              [=](In in) {
                auto table = in[0].to_vector<double>();
                const auto values = in[1].to_vector<double>();
                const auto ids = places.to_vector<std::int64_t>();
                for (std::size_t i = 0; i < ids.size(); ++i)
                  if (ids[i] >= 0)
                    std::copy_n(values.begin() + static_cast<std::int64_t>(i) * width, width,
                                table.begin() + ids[i] * width);
                return std::vector{Tensor::from(table, in[0].shape())};
              },
          .gradient_order = 0,
          .exact = true};
}

Sample take(const char* label, const Shape& row) {
  const std::int64_t width = row.size();
  return {.op = "take_rows",
          .label = label,
          .inputs = {{.shape = concatenate({6}, row), .differentiable = false}},
          .call = [](In in) { return std::vector{take_rows(in[0], places)}; },
          .oracle =
              [=](In in) {
                const auto table = in[0].to_vector<double>();
                const auto ids = places.to_vector<std::int64_t>();
                std::vector<double> rows(ids.size() * static_cast<std::size_t>(width));
                for (std::size_t i = 0; i < ids.size(); ++i)
                  if (ids[i] >= 0)
                    std::copy_n(table.begin() + ids[i] * width, width,
                                rows.begin() + static_cast<std::int64_t>(i) * width);
                return std::vector{Tensor::from(rows, concatenate({4}, row))};
              },
          .gradient_order = 0,
          .exact = true};
}

}  // namespace

TW_SAMPLES {
  return {.samples = {distinct("repeated", 40, 11), distinct("several digits", 3000, 5'000'000), distinct("one", 1, 3),
                      distinct("none", 0, 3), put("rows", {7}), put("scalars", {}), put("matrices", {3, 2}),
                      take("rows", {7}), take("scalars", {}), take("matrices", {3, 2})},
          .mistakes = {{.op = "distinct_rows",
                        .label = "a row that is not there",
                        .call =
                            [] {
                              combine_rows(Gradient(zeros({2, 4}), tensor({0, 5}), {5, 4}));
                            },
                        .code = ErrorCode::out_of_range,
                        .words = {"[distinct_rows]", "index 5", "0 to 4"}}}};
}
