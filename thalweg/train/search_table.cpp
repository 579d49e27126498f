#include <algorithm>
#include <fstream>

#include "thalweg/core/check.h"
#include "thalweg/train/search_picture.h"

namespace thalweg::train {

std::string SearchTable::text() const {
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    widths.push_back(columns[i].size());
    for (const auto& row : rows) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  const auto add = [&](const std::vector<std::string>& row) {
    for (std::size_t i = 0; i < row.size(); ++i)
      text += i + 1 == row.size() ? row[i] + "\n" : fmt::format("{:<{}}  ", row[i], widths[i]);
  };
  add(columns);
  for (const auto& row : rows) add(row);
  return text;
}

void write_picture(const std::string& svg, const std::string& path) {
  std::ofstream file(path, std::ios::binary);
  file << svg;
  file.close();
  TW_CHECK(unavailable, file.good(), "write_svg", "choose a file in a folder that exists and may be written to",
           "cannot write {}", path);
}

}  // namespace thalweg::train
