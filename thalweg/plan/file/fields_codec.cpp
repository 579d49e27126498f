#include "thalweg/plan/file/fields_codec.h"

#include "thalweg/core/check.h"
#include "thalweg/plan/file/bytes.h"

namespace thalweg {
namespace {

enum class Kind : std::uint8_t { integer = 1, real, integers, reals, text };

class FieldWriter final : public FieldVisitor {
 public:
  void integer(std::string_view name, std::int64_t& value) override { start(Kind::integer, name).number(value); }
  void real(std::string_view name, double& value) override { start(Kind::real, name).number(value); }
  void integers(std::string_view name, std::vector<std::int64_t>& values) override {
    start(Kind::integers, name).numbers<std::int64_t>(values);
  }
  void reals(std::string_view name, std::vector<double>& values) override {
    start(Kind::reals, name).numbers<double>(values);
  }
  void text(std::string_view name, std::string& value) override { start(Kind::text, name).text(value); }
  const std::string& bytes() const { return out_.bytes(); }

 private:
  ByteWriter& start(Kind kind, std::string_view name) {
    out_.number(static_cast<std::uint8_t>(kind));
    out_.text(name);
    return out_;
  }
  ByteWriter out_;
};

class FieldReader final : public FieldVisitor {
 public:
  FieldReader(const char* op, std::string_view bytes) : op_(op), in_(bytes) {}
  void integer(std::string_view name, std::int64_t& value) override {
    value = start(Kind::integer, name).number<std::int64_t>();
  }
  void real(std::string_view name, double& value) override { value = start(Kind::real, name).number<double>(); }
  void integers(std::string_view name, std::vector<std::int64_t>& values) override {
    values = start(Kind::integers, name).numbers<std::int64_t>();
  }
  void reals(std::string_view name, std::vector<double>& values) override {
    values = start(Kind::reals, name).numbers<double>();
  }
  void text(std::string_view name, std::string& value) override { value = start(Kind::text, name).text(); }
  void expect_end() const { in_.expect_end("an op's attributes"); }

 private:
  ByteReader& start(Kind kind, std::string_view name) {
    const auto found = in_.number<std::uint8_t>();
    const std::string_view found_name = in_.text();
    if (found != static_cast<std::uint8_t>(kind) || found_name != name)
      throw_damaged(
          fmt::format("{}: expected the attribute \"{}\", got {} of kind {}", op_, name, in_quotes(found_name), found));
    return in_;
  }
  const char* op_;
  ByteReader in_;
};

}  // namespace

std::string write_fields(const OpInfo& info, const void* op) {
  FieldWriter writer;
  if (info.visit) info.visit(const_cast<void*>(op), writer);  // the writer changes nothing
  return writer.bytes();
}

std::shared_ptr<const void> read_fields(const OpInfo& info, std::string_view bytes) {
  const std::shared_ptr<void> op = info.make();
  FieldReader reader(info.name, bytes);
  if (info.visit) info.visit(op.get(), reader);
  reader.expect_end();
  if (write_fields(info, op.get()) != bytes) throw_damaged(fmt::format("{} has an impossible attribute", info.name));
  return op;
}

}  // namespace thalweg
