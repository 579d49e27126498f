#pragma once

// Text for language models: windows of a file that may be larger than memory, read where they are needed.
//   tw::data::TextFile file("book.txt");
//   auto ds = file.windows({.window = 256}).shuffle(1'000'000).batch(8);   // e[0] tokens, e[1] the token after each
#include <memory>
#include <string>
#include <string_view>

#include "thalweg/data/dataset.h"

namespace thalweg::data {

enum class TextUnit {
  characters,  // of UTF-8; tokens number those that occur in the file, in the order of their code points
  bytes,       // tokens 0 … 255
};

struct WindowOptions {
  std::int64_t window = 256;  // tokens
  std::int64_t stride = 0;    // tokens from the beginning of one to that of the next; 0: as long as the window
  bool targets = true;        // a second part: the same window one token later
  DType dtype = i64;          // or i32
};

struct TextOptions {
  TextUnit unit = TextUnit::characters;
  std::int64_t window = 256, stride = 0;
  bool targets = true;
  DType dtype = i64;
};

class TW_API TextFile {
 public:
  // Characters: reads the file once, to know which there are.
  explicit TextFile(const std::string& path, TextUnit unit = TextUnit::characters);

  std::int64_t size() const;                       // tokens
  std::int64_t vocabulary_size() const;            // different tokens
  Tensor encode(std::string_view text) const;      // i64 [n]; a character that the file does not have is an error
  std::string decode(const Tensor& tokens) const;  // of whole numbers
  Dataset windows(const WindowOptions& options = {}) const;

  class Impl;

 private:
  std::shared_ptr<const Impl> impl_;
};

TW_API Dataset text(const std::string& path, const TextOptions& options = {});

}  // namespace thalweg::data
