// The header of an npy array: "\x93NUMPY", version, length, and a Python dict with descr, fortran_order and shape.
#include "thalweg/interop/npy.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

#include "thalweg/core/check.h"

namespace thalweg {
namespace {

constexpr auto hint = "the file is damaged or not made by numpy.save; write it again";

struct Type {
  std::string_view name;
  DType dtype;
};
constexpr Type types[] = {{"<f4", DType::f32}, {"<f8", DType::f64}, {"<f2", DType::f16},    {"<i4", DType::i32},
                          {"<i8", DType::i64}, {"|u1", DType::u8},  {"|b1", DType::boolean}};

class Parser {
 public:
  Parser(std::string_view text, const std::string& place) : text_(text), place_(place) {}

  Spec spec() {
    expect('{');
    while (!accept('}')) {
      const std::string_view key = quoted();
      expect(':');
      if (key == "descr" && !dtype_)
        dtype_ = dtype();
      else if (key == "fortran_order" && !fortran_)
        fortran_ = boolean();
      else if (key == "shape" && !shape_)
        shape_ = sizes();
      else
        fail("one of descr, fortran_order and shape, each once");
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    if (!dtype_ || !fortran_ || !shape_) fail("descr, fortran_order and shape");
    TW_CHECK(unimplemented, !*fortran_ || shape_->size() < 2, "npy", "save numpy.ascontiguousarray(x)",
             "{} is stored column by column (fortran_order)", place_);
    return {*dtype_, Shape(*shape_)};
  }

 private:
  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool accept(char c) {
    skip_spaces();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail(std::string(1, c));
  }
  bool accept(std::string_view word) {
    skip_spaces();
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }
  std::string_view quoted() {
    skip_spaces();
    const char mark = at_ < text_.size() ? text_[at_] : ' ';
    if (mark != '\'' && mark != '"') fail("a text");
    const auto end = text_.find(mark, at_ + 1);
    if (end == std::string_view::npos) fail("the end of a text");
    const auto found = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return found;
  }
  DType dtype() {
    skip_spaces();
    TW_CHECK(unimplemented, at_ < text_.size() && text_[at_] != '[', "npy", "save each field as an array of its own",
             "{} holds a structured array", place_);
    const auto name = quoted();
    for (const auto& type : types)
      if (type.name == name) return type.dtype;
    TW_FAIL(unimplemented, "npy", "save it with astype to float16/32/64, int32/64, uint8 or bool, little-endian",
            "{} has the type {}", place_, printable(name));
  }
  static std::string printable(std::string_view name) {
    std::string text(name.substr(0, 20));
    for (char& c : text)
      if (c < 32 || c > 126) c = '?';
    return text;
  }
  bool boolean() {
    if (accept("True")) return true;
    if (!accept("False")) fail("True or False");
    return false;
  }
  std::vector<std::int64_t> sizes() {
    std::vector<std::int64_t> sizes;
    double elements = 1;
    expect('(');
    while (!accept(')')) {
      skip_spaces();
      std::int64_t size = 0;
      const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), size);
      if (error != std::errc() || size < 0 || size > std::int64_t{1} << 59) fail("a size");
      at_ = static_cast<std::size_t>(end - text_.data());
      sizes.push_back(size);
      elements *= static_cast<double>(std::max<std::int64_t>(size, 1));
      if (sizes.size() > max_rank || elements > 0x1p59) fail("sizes of a possible array");
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return sizes;
  }
  [[noreturn]] void fail(const std::string& expected) const {
    TW_FAIL(data_loss, "npy", hint, "the header of {} has at character {} something else than {}", place_, at_,
            expected);
  }

  std::string_view text_;
  const std::string& place_;
  std::size_t at_ = 0;
  std::optional<DType> dtype_;
  std::optional<bool> fortran_;
  std::optional<std::vector<std::int64_t>> shape_;
};

}  // namespace

NpyHeader parse_npy_header(std::span<const char> bytes, std::int64_t total, const std::string& place) {
  TW_CHECK(data_loss, bytes.size() >= 10 && std::memcmp(bytes.data(), "\x93NUMPY", 6) == 0, "npy", hint,
           "{} does not begin with \\x93NUMPY", place);
  const int version = static_cast<unsigned char>(bytes[6]);
  TW_CHECK(unimplemented, version >= 1 && version <= 3, "npy", "save it with a current NumPy", "{} has the version {}",
           place, version);
  const std::size_t start = version == 1 ? 10 : 12;
  std::uint32_t length = 0;
  std::memcpy(&length, bytes.data() + 8, start == 10 ? 2 : std::min<std::size_t>(4, bytes.size() - 8));
  TW_CHECK(data_loss, length <= 10'000 && start + length <= bytes.size(), "npy", hint,
           "{} names a header of {} bytes, at most {} are possible", place, length,
           std::min<std::size_t>(10'000, bytes.size() > start ? bytes.size() - start : 0));
  const NpyHeader header{Parser({bytes.data() + start, length}, place).spec(),
                         static_cast<std::int64_t>(start + length)};
  TW_CHECK(data_loss, header.spec.bytes() == total - header.bytes, "npy", hint,
           "{} should have {} bytes of values for {} {}, found {}", place, header.spec.bytes(), header.spec.dtype,
           header.spec.shape, total - header.bytes);
  return header;
}

}  // namespace thalweg
