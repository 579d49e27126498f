#include "thalweg/interop/csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include "thalweg/core/check.h"
#include "thalweg/data/files.h"
#include "thalweg/data/node.h"
#include "thalweg/data/sources/utf8.h"

namespace thalweg::data {
namespace {

// A column of the file that is wanted.
struct Wanted {
  std::size_t column;
  std::string name;
  DType dtype;
};

// What becomes of a row: scalars, or one vector, and perhaps a label.
struct Layout {
  std::size_t columns = 0;  // of the file
  std::vector<Wanted> values;
  bool as_vector = false;
  std::optional<Wanted> label;
  std::int64_t begin = 0, begin_line = 1;  // of the first row of data
};

std::size_t find_column(const std::vector<std::string>& names, const std::string& name, const std::string& path) {
  const auto found = std::find(names.begin(), names.end(), name);
  TW_CHECK(not_found, found != names.end(), "csv",
           "columns are named by the first row, or \"0\", \"1\", … with {.header = false}",
           "{} has no column \"{}\"; its columns are: {}", path, name, [&] {
             std::string all;
             for (std::size_t i = 0; i < std::min<std::size_t>(names.size(), 20); ++i)
               all += (i ? ", " : "") + names[i].substr(0, 40);
             return all + (names.size() > 20 ? ", …" : "");
           }());
  return static_cast<std::size_t>(found - names.begin());
}

// By the next row of the file.
std::vector<std::string> read_names(CsvReader& reader, const CsvOptions& options) {
  std::vector<std::string_view> fields;
  TW_CHECK(data_loss, reader.next(fields), "csv", "give a file with at least one row", "{} is empty", reader.path());
  std::vector<std::string> names;
  for (std::size_t i = 0; i < fields.size(); ++i)
    names.push_back(options.header ? std::string(fields[i]) : std::to_string(i));
  return names;
}

Layout read_layout(const std::string& path, const CsvOptions& options) {
  CsvReader reader(path, options.delimiter, options.max_record);
  const std::int64_t begin = reader.position(), begin_line = reader.next_line();
  const std::vector<std::string> names = read_names(reader, options);
  Layout layout;
  layout.columns = names.size();
  layout.begin = options.header ? reader.position() : begin;
  layout.begin_line = options.header ? reader.next_line() : begin_line;
  if (!options.label.empty())
    layout.label = Wanted{find_column(names, options.label, path), options.label, options.label_dtype};
  for (const auto& column : options.columns)
    layout.values.push_back({find_column(names, column.name, path), column.name, column.dtype});
  layout.as_vector = options.columns.empty();
  for (std::size_t i = 0; layout.as_vector && i < names.size(); ++i)
    if (!layout.label || layout.label->column != i) layout.values.push_back({i, names[i], DType::f32});
  return layout;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// The beginning of a text, fit to be printed: a message is UTF-8 whatever the file is.
std::string shown(std::string_view text) {
  std::string copy;
  for (text = text.substr(0, 40); !text.empty();) {
    const Character c = first_character(text);
    if (c.length > 0 && c.point >= 32 && c.point != 127)
      copy.append(text.substr(0, static_cast<std::size_t>(c.length)));
    else
      copy.push_back('?');
    text.remove_prefix(static_cast<std::size_t>(std::max(1, c.length)));
  }
  return copy;
}

// Floats that are too small for their type are 0, as everywhere; those that are too large are none.
template <class T>
bool parse(std::string_view text, T& value) {
  if (text.size() > 1 && text.front() == '+') text.remove_prefix(1);
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  if constexpr (std::is_floating_point_v<T>) {
    long double wide = 0;
    if (error == std::errc::result_out_of_range && end == last &&
        std::from_chars(text.data(), last, wide).ec == std::errc() && std::abs(wide) < 1) {
      value = std::copysign(T(0), static_cast<T>(wide));
      return true;
    }
  }
  return error == std::errc() && end == last;
}

template <class T>
bool parse_value(std::string_view text, T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    const bool yes = text == "1" || text == "true" || text == "True" || text == "TRUE";
    value = yes;
    return yes || text == "0" || text == "false" || text == "False" || text == "FALSE";
  } else if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    float wide = 0;
    const bool ok = parse(text, wide);
    value = T(wide);
    return ok;
  } else {
    return parse(text, value);
  }
}

class CsvCursor final : public Whole {
 public:
  CsvCursor(const std::string& path, const CsvOptions& options, const Layout& layout, StageCounters& counters)
      : reader_(path, options.delimiter, options.max_record), options_(options), layout_(layout), counters_(counters) {}
  void start(std::int64_t) override { go_to(layout_.begin, layout_.begin_line, 0); }
  void save(StateWriter& state) const override {
    state.put(reader_.position());
    state.put(reader_.next_line());
    state.put(row_);
    state.put(ended_);
  }
  void restore(std::int64_t, StateReader& state) override {
    const std::int64_t position = state.take("the byte of the file"), line = state.take("the line of the file");
    go_to(position, line, state.take("the row"));
    ended_ = state.take("the end", 1) != 0;
  }

 protected:
  std::optional<Element> make() override {
    if (ended_) return {};
    const BusyTime busy(counters_, row_);
    ended_ = true;  // should the record be no record: nothing behind it can be trusted
    if (!reader_.next(fields_)) return {};
    ended_ = false;
    ++row_;
    counters_.count();
    TW_CHECK(data_loss, fields_.size() == layout_.columns, "csv", "every row needs the same number of fields",
             "{}: row {} (line {}) has {} fields, expected {}", reader_.path(), row_ - 1, reader_.line(),
             fields_.size(), layout_.columns);
    return element();
  }

 private:
  void go_to(std::int64_t position, std::int64_t line, std::int64_t row) {
    reader_.seek(position, line);
    row_ = row;
    ended_ = false;
  }
  Element element() const {
    static const memory::Owner owner = memory::owner("csv");
    Element element;
    if (layout_.as_vector) {
      Tensor vector = allocate_tensor({DType::f32, {static_cast<std::int64_t>(layout_.values.size())}}, owner);
      auto* to = static_cast<float*>(mutable_data(vector));
      for (const auto& wanted : layout_.values) read(wanted, to++);
      element.push_back(std::move(vector));
    } else {
      for (const auto& wanted : layout_.values) element.push_back(scalar_of(wanted, owner));
    }
    if (layout_.label) element.push_back(scalar_of(*layout_.label, owner));
    return element;
  }
  Tensor scalar_of(const Wanted& wanted, memory::Owner owner) const {
    Tensor tensor = allocate_tensor({wanted.dtype, {}}, owner);
    read(wanted, mutable_data(tensor));
    return tensor;
  }
  void read(const Wanted& wanted, void* to) const {
    const std::string_view text = trimmed(fields_[wanted.column]);
    with_type(wanted.dtype, [&]<class T>(TypeTag<T>) {
      T value{};
      if (text.empty() && options_.missing) {
        if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>)
          value = T(static_cast<float>(*options_.missing));
        else
          value = static_cast<T>(*options_.missing);
      } else {
        TW_CHECK(data_loss, parse_value(text, value), "csv",
                 text.empty() ? "set .missing for empty fields"
                              : "write a number there, leave the column out of .columns, or give it another dtype",
                 "{}: row {} (line {}), column \"{}\": expected {}, found \"{}\"", reader_.path(), row_ - 1,
                 reader_.line(), shown(wanted.name), wanted.dtype, shown(text));
      }
      std::memcpy(to, &value, sizeof(T));
    });
  }

  CsvReader reader_;
  const CsvOptions& options_;
  const Layout& layout_;
  StageCounters& counters_;
  std::vector<std::string_view> fields_;
  std::int64_t row_ = 0;
  bool ended_ = false;
};

class CsvNode final : public Node {
 public:
  CsvNode(std::string path, const CsvOptions& options, const std::string& settings)
      : Node("csv", settings, {}), path_(std::move(path)), options_(options), layout_(read_layout(path_, options)) {}
  CursorPtr open(Counters& counters) const override {
    return std::make_unique<CsvCursor>(path_, options_, layout_, counters.of(*this));
  }
  std::int64_t cardinality() const override { return unknown; }

 private:
  std::string path_;
  CsvOptions options_;
  Layout layout_;
};

void check(const CsvOptions& options) {
  TW_CHECK_USER(options.delimiter != '"' && options.delimiter != '\n' && options.delimiter != '\r', "csv",
                "use ',', ';' or '\\t'", "the delimiter must not be a quote or a line end");
  TW_CHECK_USER(options.max_record >= 1, "csv", "pass a number of bytes", "max_record must be at least 1, got {}",
                options.max_record);
}

}  // namespace

std::vector<std::string> csv_columns(const std::string& path, const CsvOptions& options) {
  check(options);
  CsvReader reader(path, options.delimiter, options.max_record);
  return read_names(reader, options);
}

Dataset csv(const std::string& path, const CsvOptions& options) {
  check(options);
  std::string settings = fmt::format("{}{}{}{}", options.label, options.label_dtype, options.header, options.delimiter);
  for (const auto& column : options.columns) settings += fmt::format("{}:{};", column.name, column.dtype);
  return Dataset(std::make_shared<CsvNode>(path, options, settings));
}

}  // namespace thalweg::data
