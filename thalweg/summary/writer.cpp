#include "thalweg/summary/writer.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <vector>

#include "thalweg/core/check.h"
#include "thalweg/core/crc32c.h"
#include "thalweg/interop/image.h"
#include "thalweg/ops/cast/cast.h"
#include "thalweg/ops/concat/concat.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/reshape/reshape.h"
#include "thalweg/ops/slice/slice.h"
#include "thalweg/summary/proto.h"

namespace thalweg::summary {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto flush_every = std::chrono::seconds(2);

// Numbers of TensorFlow's DataType and of TensorBoard's DataClass.
enum : std::uint64_t { dt_float = 1, dt_double = 2, dt_string = 7 };
enum : std::uint64_t { class_scalar = 1, class_tensor = 2, class_blobs = 3 };

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// A checksum of data that may hold checksums itself is turned and moved.
std::uint32_t masked_checksum(std::string_view bytes) {
  const std::uint32_t checksum = crc32c(bytes.data(), bytes.size());
  return std::rotr(checksum, 15) + 0xa282ead8U;
}

template <class T>
void append(std::string& to, T number) {
  to.append(reinterpret_cast<const char*>(&number), sizeof(number));
}

// A TFRecord: length, its checksum, the bytes, their checksum.
std::string record_of(const std::string& bytes) {
  std::string record;
  append<std::uint64_t>(record, bytes.size());
  append(record, masked_checksum(record));
  record += bytes;
  append(record, masked_checksum(bytes));
  return record;
}

Message shape_of(std::initializer_list<std::uint64_t> sizes) {
  Message shape;
  for (const auto size : sizes) {
    Message dimension;
    dimension.integer(1, size);
    shape.message(2, dimension);
  }
  return shape;
}

Message scalar_tensor(double value) {
  Message tensor;
  tensor.integer(1, dt_float);
  tensor.message(2, shape_of({}));
  tensor.number(5, static_cast<float>(value));
  return tensor;
}

Message text_tensor(const std::string& text) {
  Message tensor;
  tensor.integer(1, dt_string);
  tensor.message(2, shape_of({}));
  tensor.bytes(8, text);
  return tensor;
}

// [buckets, 3]: left, right, count.
Message histogram_tensor(const std::vector<double>& values, int buckets) {
  double low = 0, high = 0;
  if (!values.empty()) {
    const auto [least, most] = std::minmax_element(values.begin(), values.end());
    low = *least, high = *most;
  }
  if (low == high) low -= 0.5, high += 0.5;
  const auto count = static_cast<std::size_t>(buckets);
  const double width = (high - low) / buckets;
  std::vector<double> counts(count, 0);
  for (const double value : values)
    ++counts[std::min(count - 1, static_cast<std::size_t>(std::max(0.0, (value - low) / width)))];
  std::string content;
  for (std::size_t i = 0; i < count; ++i) {
    append(content, low + width * static_cast<double>(i));
    append(content, i + 1 == count ? high : low + width * static_cast<double>(i + 1));
    append(content, counts[i]);
  }
  Message tensor;
  tensor.integer(1, dt_double);
  tensor.message(2, shape_of({count, 3}));
  tensor.bytes(4, content);
  return tensor;
}

// As a batch of u8 images, the first `most` of them.
Tensor pixels_of(const Tensor& image, std::int64_t most) {
  const int rank = image.rank();
  Tensor batch = rank == 2 ? expand_dims(expand_dims(image, 0), -1) : rank == 3 ? expand_dims(image, 0) : image;
  const Shape& shape = batch.shape();
  const std::int64_t channels = rank >= 2 && rank <= 4 ? shape[3] : 0;
  TW_CHECK_USER(channels == 1 || channels == 3 || channels == 4, "summary",
                "[height, width, channels] with 1, 3 or 4 channels, or a batch of such",
                "expected an image, got shape {}", image.shape());
  TW_CHECK_USER(batch.size() > 0, "summary", "a picture needs pixels", "expected an image, got shape {}",
                image.shape());
  TW_CHECK_USER(image.dtype() == u8 || is_float(image.dtype()), "summary", "cast it: tw::cast(x, tw::u8)",
                "expected an image of u8 or of floats from 0 to 1, got {}", image.dtype());
  batch = slice(batch, {0, 0, 0, 0}, {std::min(most, shape[0]), -1, -1, -1});
  if (batch.dtype() == u8) return batch;
  const Tensor bright = clip_by_value(where(isnan(batch), 0, batch), 0, 1);
  return cast(round(cast(bright, f32) * 255), u8);
}

// Width and height in figures, then the files.
Message image_tensor(const Tensor& pixels) {
  const Shape& shape = pixels.shape();
  Message tensor;
  tensor.integer(1, dt_string);
  tensor.message(2, shape_of({static_cast<std::uint64_t>(2 + shape[0])}));
  tensor.bytes(8, std::to_string(shape[2]));
  tensor.bytes(8, std::to_string(shape[1]));
  for (const Tensor& one : unstack(pixels, 0)) tensor.bytes(8, encode_png(one));
  return tensor;
}

struct Plugin {
  const char* name;
  std::uint64_t data_class;
};

Message metadata_of(const Plugin& plugin) {
  Message data, metadata;
  data.bytes(1, plugin.name);
  metadata.message(1, data);
  metadata.integer(4, plugin.data_class);
  return metadata;
}

}  // namespace

struct Writer::State {
  void write(const Message& event) {
    file << record_of(event.bytes());
    if (Clock::now() - flushed > flush_every) flush();
  }

  void flush() {
    file.flush();
    flushed = Clock::now();
    TW_CHECK(unavailable, file.good(), "summary", "check the free space and the permissions", "cannot write to {}",
             path);
  }

  void add(const std::string& tag, const Plugin& plugin, const Message& tensor, std::int64_t step) {
    TW_CHECK_USER(!tag.empty(), "summary", "name what is written: w.scalar(\"loss\", loss, step)",
                  "expected a tag, got an empty one");
    const std::lock_guard lock(mutex);
    Message value, summary, event;
    value.bytes(1, tag);
    if (known.insert(tag).second) value.message(9, metadata_of(plugin));  // with the first value of a tag alone
    value.message(8, tensor);
    summary.message(1, value);
    event.number(1, wall_time());
    event.integer(2, static_cast<std::uint64_t>(step));
    event.message(5, summary);
    write(event);
  }

  std::mutex mutex;
  std::string path;
  std::ofstream file;
  std::set<std::string> known;
  Clock::time_point flushed = Clock::now();
};

Writer::Writer(const std::string& folder) : state_(std::make_unique<State>()) {
  static std::atomic<int> made{0};
  std::error_code ignored;  // the file tells
  std::filesystem::create_directories(folder, ignored);
  char host[256] = "localhost";
  ::gethostname(host, sizeof(host) - 1);
  state_->path = fmt::format("{}/events.out.tfevents.{:010}.{}.{}.{}", folder, static_cast<std::int64_t>(wall_time()),
                             host, ::getpid(), made++);
  state_->file.open(state_->path, std::ios::binary | std::ios::trunc);
  TW_CHECK(unavailable, state_->file.good(), "summary", "choose a folder that can be written to", "cannot make {}",
           state_->path);
  Message source, event;
  source.bytes(1, "thalweg");
  event.number(1, wall_time());
  event.bytes(3, "brain.Event:2");
  event.message(10, source);
  state_->write(event);
  state_->flush();
}

Writer::~Writer() = default;

const std::string& Writer::path() const { return state_->path; }

void Writer::scalar(const std::string& tag, double value, std::int64_t step) {
  state_->add(tag, {"scalars", class_scalar}, scalar_tensor(value), step);
}

void Writer::histogram(const std::string& tag, const Tensor& values, std::int64_t step,
                       const HistogramOptions& options) {
  TW_CHECK_USER(options.buckets >= 1, "summary", "30 is usual", "expected 1 bucket or more, got {}", options.buckets);
  auto list = cast(values, f64).to_vector<double>();
  std::erase_if(list, [](double value) { return !std::isfinite(value); });
  state_->add(tag, {"histograms", class_tensor}, histogram_tensor(list, options.buckets), step);
}

void Writer::image(const std::string& tag, const Tensor& image, std::int64_t step, const ImageOptions& options) {
  TW_CHECK_USER(options.most >= 1, "summary", "3 is usual", "expected 1 image or more, got {}", options.most);
  state_->add(tag, {"images", class_blobs}, image_tensor(pixels_of(image, options.most)), step);
}

void Writer::text(const std::string& tag, const std::string& markdown, std::int64_t step) {
  state_->add(tag, {"text", class_tensor}, text_tensor(markdown), step);
}

void Writer::flush() {
  const std::lock_guard lock(state_->mutex);
  state_->flush();
}

}  // namespace thalweg::summary
