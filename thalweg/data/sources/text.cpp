#include "thalweg/data/text.h"

#include <algorithm>

#include "thalweg/core/check.h"
#include "thalweg/data/sources/rows.h"
#include "thalweg/data/sources/text_file.h"

namespace thalweg::data {
namespace {

class WindowRows final : public Rows {
 public:
  WindowRows(std::shared_ptr<const TextFile::Impl> file, const WindowOptions& options)
      : file_(std::move(file)), options_(options) {}
  std::int64_t size() const override {
    const std::int64_t needed = options_.window + options_.targets;
    return file_->size() < needed ? 0 : (file_->size() - needed) / options_.stride + 1;
  }
  Element at(std::int64_t index) const override { return rows(std::span(&index, 1), false); }
  Element gather(std::span<const std::int64_t> indices) const override { return rows(indices, true); }

 private:
  Element rows(std::span<const std::int64_t> indices, bool batch) const {
    static const memory::Owner owner = memory::owner("text");
    const auto count = static_cast<std::int64_t>(indices.size());
    const Shape shape = batch ? Shape{count, options_.window} : Shape{options_.window};
    Element element;
    for (int part = 0; part <= options_.targets; ++part)
      element.push_back(allocate_tensor({options_.dtype, shape}, owner));
    if (options_.dtype == DType::i64)
      fill<std::int64_t>(element, indices);
    else
      fill<std::int32_t>(element, indices);
    return element;
  }
  template <class T>
  void fill(const Element& element, std::span<const std::int64_t> indices) const {
    std::vector<T> tokens(static_cast<std::size_t>(options_.window + options_.targets));
    std::int64_t place = 0;
    for (const auto index : indices) {
      file_->read(index * options_.stride, static_cast<std::int64_t>(tokens.size()), tokens.data());
      for (std::size_t part = 0; part < element.size(); ++part)
        std::copy_n(tokens.data() + part, options_.window, static_cast<T*>(mutable_data(element[part])) + place);
      place += options_.window;
    }
  }

  std::shared_ptr<const TextFile::Impl> file_;
  WindowOptions options_;
};

}  // namespace

TextFile::TextFile(const std::string& path, TextUnit unit) : impl_(std::make_shared<const Impl>(path, unit)) {}

std::int64_t TextFile::size() const { return impl_->size(); }
std::int64_t TextFile::vocabulary_size() const { return impl_->vocabulary_size(); }

Tensor TextFile::encode(std::string_view text) const {
  const auto tokens = impl_->encode(text);
  return Tensor::from(tokens, {static_cast<std::int64_t>(tokens.size())});
}

std::string TextFile::decode(const Tensor& tokens) const { return impl_->decode(tokens.to_vector<std::int64_t>()); }

Dataset TextFile::windows(const WindowOptions& options) const {
  TW_CHECK_USER(
      options.window >= 1 && options.window <= 1 << 28 && options.stride >= 0, "text", "for example {.window = 256}",
      "expected a window of at least one token, got a window of {} and a stride of {}", options.window, options.stride);
  TW_CHECK_USER(options.dtype == DType::i64 || options.dtype == DType::i32, "text", "use tw::i64 or tw::i32",
                "tokens cannot be {}", options.dtype);
  TW_CHECK_USER(impl_->size() >= options.window + options.targets, "text", "use a smaller window",
                "{} has {} tokens, one window needs {}", impl_->path(), impl_->size(),
                options.window + options.targets);
  WindowOptions known = options;
  if (known.stride == 0) known.stride = known.window;
  return from_rows("text",
                   fmt::format("{} {} {} {} {} {}", known.window, known.stride, known.targets, known.dtype,
                               impl_->size(), impl_->vocabulary_size()),
                   std::make_shared<WindowRows>(impl_, known));
}

Dataset text(const std::string& path, const TextOptions& options) {
  return TextFile(path, options.unit)
      .windows(
          {.window = options.window, .stride = options.stride, .targets = options.targets, .dtype = options.dtype});
}

}  // namespace thalweg::data
