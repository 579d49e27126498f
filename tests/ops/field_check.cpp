#include <gtest/gtest.h>

#include "tests/ops/checks.h"
#include "tests/support/calls.h"
#include "tests/support/values.h"
#include "thalweg/core/fields.h"
#include "thalweg/ops/registry.h"

namespace thalweg::testing {
namespace {

// Writes all fields out, or puts what was written back in the same order.
class Tape final : public FieldVisitor {
 public:
  void integer(std::string_view name, std::int64_t& value) override { pass(name, integers_, value); }
  void real(std::string_view name, double& value) override { pass(name, reals_, value); }
  void integers(std::string_view name, std::vector<std::int64_t>& values) override { pass(name, lists_, values); }
  void reals(std::string_view name, std::vector<double>& values) override { pass(name, real_lists_, values); }
  void text(std::string_view name, std::string& value) override { pass(name, texts_, value); }
  void rewind() { reading_ = true; }

 private:
  template <class T>
  struct Track {
    std::vector<std::pair<std::string, T>> written;
    std::size_t read = 0;
  };
  template <class T>
  void pass(std::string_view name, Track<T>& track, T& value) {
    EXPECT_FALSE(name.empty());
    if (!reading_) return track.written.emplace_back(name, value), void();
    ASSERT_LT(track.read, track.written.size());
    const auto& [written_name, written] = track.written[track.read++];
    EXPECT_EQ(written_name, name);
    value = written;
  }

  bool reading_ = false;
  Track<std::int64_t> integers_;
  Track<double> reals_;
  Track<std::vector<std::int64_t>> lists_;
  Track<std::vector<double>> real_lists_;
  Track<std::string> texts_;
};

// Makes a program with these lists.
struct ProgramFields final : FieldVisitor {
  std::int64_t inputs;
  std::string rows;
  std::vector<std::int64_t> operands, outputs;
  ProgramFields(std::int64_t n, std::string names, std::vector<std::int64_t> in, std::vector<std::int64_t> out)
      : inputs(n), rows(std::move(names)), operands(std::move(in)), outputs(std::move(out)) {}
  void integer(std::string_view, std::int64_t& value) override { value = inputs; }
  void real(std::string_view, double&) override {}
  void integers(std::string_view name, std::vector<std::int64_t>& values) override {
    values = name == "operands" ? operands : outputs;
  }
  void reals(std::string_view, std::vector<double>&) override {}
  void text(std::string_view, std::string& value) override { value = rows; }
};

void read_program(ProgramFields fields) { fused_info().visit(fused_info().make().get(), fields); }

TEST(fused, a_damaged_program_is_refused) {
  EXPECT_NO_THROW(read_program({2, "add exp", {0, 1, -1, 2, -1, -1}, {3, 2}}));
  EXPECT_THROW(read_program({2, "add nothing", {0, 1, -1, 2, -1, -1}, {3}}), Error);  // no such row
  EXPECT_THROW(read_program({2, "add exp", {0, 1, -1, 3, -1, -1}, {3}}), Error);      // reads its own result
  EXPECT_THROW(read_program({2, "add exp", {0, -1, -1, 2, -1, -1}, {3}}), Error);     // an operand is missing
  EXPECT_THROW(read_program({2, "add exp", {0, 1, -1}, {3}}), Error);                 // too few operands
  EXPECT_THROW(read_program({2, "add", {0, 1, -1, 2, -1, -1}, {2}}), Error);          // too many
  EXPECT_THROW(read_program({2, "add exp", {0, 1, -1, 2, -1, -1}, {4}}), Error);      // no such result
  EXPECT_THROW(read_program({-1, "add exp", {0, 1, -1, 2, -1, -1}, {3}}), Error);     // no number of inputs
}

}  // namespace

void check_fields(const Sample& sample) {
  for (const auto& call : record_calls([&] { sample.call(draw(sample.inputs, 7)); })) {
    const auto visit = call.info->visit;
    SCOPED_TRACE(call.info->name);
    EXPECT_EQ(fields::print(visit, call.op.get()).empty(), visit == nullptr);
    const auto made = call.info->make();
    if (visit) {
      Tape tape;
      visit(const_cast<void*>(call.op.get()), tape);
      tape.rewind();
      visit(made.get(), tape);
    }
    EXPECT_EQ(fields::key(visit, made.get()), fields::key(visit, call.op.get()));
    EXPECT_EQ(fields::print(visit, made.get()), fields::print(visit, call.op.get()));
  }
}

}  // namespace thalweg::testing
