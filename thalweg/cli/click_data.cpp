// Made-up visits of a shop: numbers, one id for each of many tables, and whether somebody clicked. Ids are as unequal
// as those of real shops; whether one clicks depends on hidden tastes for ids and on the numbers, so that it can be
// learned.
#include <algorithm>
#include <cmath>
#include <random>

#include "models/settings.h"
#include "thalweg/cli/datasets.h"

namespace thalweg::cli {
namespace {

constexpr std::int64_t rows_of_an_epoch = 65536, rows_of_the_test = 8192;

// A number in [-1, 1] for every id of every table.
double taste(std::uint64_t table, std::uint64_t id) {
  std::uint64_t x = (table << 40) + id + 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return static_cast<double>(x >> 11) * 0x1p-52 - 1;
}

struct Clicks {
  std::int64_t batch, inputs, tables, rows;
  std::uint64_t seed;

  data::Element at(std::uint64_t number) const {
    std::mt19937_64 random(seed * 1'000'003 + number);
    std::uniform_real_distribution<double> uniform(0, 1);
    std::normal_distribution<float> normal;
    std::vector<float> numbers, clicked;
    std::vector<std::int32_t> ids;
    for (std::int64_t i = 0; i < batch; ++i) {
      double score = -0.5;
      for (std::int64_t k = 0; k < inputs; ++k) {
        numbers.push_back(normal(random));
        score += 0.3 * static_cast<double>(numbers.back()) * (k % 2 == 0 ? 1 : -1);
      }
      for (std::int64_t table = 0; table < tables; ++table) {
        // u^-20 cut at the table's end: the density falls with about the power 1.05 of the id.
        const double id = std::floor(std::pow(uniform(random), -20) - 1);
        const auto row = static_cast<std::int32_t>(std::min(id, static_cast<double>(rows - 1)));
        ids.push_back(row);
        score += 1.5 * taste(static_cast<std::uint64_t>(table), static_cast<std::uint64_t>(row)) /
                 std::sqrt(static_cast<double>(tables));
      }
      clicked.push_back(uniform(random) < 1 / (1 + std::exp(-2 * score)) ? 1.f : 0.f);
    }
    return {Tensor::from(numbers, {batch, inputs}), Tensor::from(ids, {batch, tables}),
            Tensor::from(clicked, {batch, 1})};
  }

  data::Dataset batches(std::int64_t first, std::int64_t count) const {
    return data::from_generator([self = *this, first, count](std::int64_t i) -> std::optional<data::Element> {
      if (i >= count) return {};
      return self.at(static_cast<std::uint64_t>(first + i));
    });
  }
};

}  // namespace

Datasets generated_clicks(const DataRequest& request, const models::Settings& settings) {
  models::SettingsReader read("recsys", settings);
  const bool pairs = read.choice("kind", {"dlrm", "two-tower"}) == "two-tower";  // a user and an item each
  const std::int64_t tables = pairs ? 2 : read.count("tables", 26);
  const Clicks clicks{request.batch, read.count("inputs", 13), tables, read.count("rows", 100'000), request.seed};
  const auto batches = [&](std::int64_t rows) { return std::max<std::int64_t>(1, rows / request.batch); };
  const std::int64_t rows = request.subset > 0 ? request.subset : rows_of_an_epoch;
  const std::int64_t count = batches(rows), test = batches(rows_of_the_test);
  Datasets made{.name = "generated"};
  made.examples = count * request.batch, made.all_examples = batches(rows_of_an_epoch) * request.batch;
  made.input_numbers = clicks.inputs + tables;
  made.training = clicks.batches(test, count);
  made.test = clicks.batches(0, std::min(test, count));
  return made;
}

}  // namespace thalweg::cli
