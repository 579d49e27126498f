// Windows of a text file shuffled as a whole, within a limit on memory that is far below the size of the file.
//   text_windows MEGABYTES LIMIT_MIB
// The file is a pattern of which every window can be checked; it is mostly a hole, so that it takes no space on disk.
#include <fcntl.h>
#include <thalweg/thalweg.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "bench/support/resident_memory.h"

namespace {

constexpr std::int64_t window = 256, batch = 64, stretch = 1 << 20;

// Every stretch begins with its number in decimal digits; the rest reads as zero bytes.
void write_file(const std::string& path, std::int64_t bytes) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (file < 0 || ::ftruncate(file, bytes) != 0) std::exit(2);
  for (std::int64_t at = 0; at + stretch <= bytes; at += stretch) {
    const std::string number = std::to_string(at / stretch + 1) + '.';
    if (::pwrite(file, number.data(), number.size(), at) < 0) std::exit(2);
  }
  ::close(file);
}

// The number at the beginning of the window; 0: there is none.
std::int64_t number_in(const std::int64_t* tokens) {
  std::int64_t number = 0;
  for (; *tokens >= '0' && *tokens <= '9'; ++tokens) number = 10 * number + (*tokens - '0');
  return number;
}

int run(const std::string& path, std::int64_t bytes, std::int64_t limit) {
  const std::int64_t before = tw::bench::resident_bytes();
  const auto ds = tw::data::text(path, {.unit = tw::data::TextUnit::bytes, .window = window})
                      .shuffle(bytes / window, {.seed = 1})
                      .batch(batch)
                      .prefetch(tw::data::autotune);
  std::int64_t windows = 0, numbers = 0, sum = 0, previous = 0, ascending = 0, most = 0;
  for (const tw::data::Element& e : ds) {
    const std::int64_t* tokens = e[0].data<std::int64_t>().data();
    for (std::int64_t row = 0; row < e[0].shape()[0]; ++row, ++windows) {
      const std::int64_t number = number_in(tokens + row * window);
      if (number == 0) continue;
      ++numbers, sum += number;
      ascending += number > previous;
      previous = number;
    }
    if (windows % (batch * 256) == 0) most = std::max(most, tw::bench::resident_bytes() - before);
  }
  most = std::max(most, tw::bench::resident_bytes() - before);
  const std::int64_t stretches = bytes / stretch, expected = (bytes - window - 1) / window + 1;
  std::printf(
      "%lld windows, %lld of %lld marks, %lld of them ascending; memory grew by at most %.1f MiB (limit %.0f)\n",
      static_cast<long long>(windows), static_cast<long long>(numbers), static_cast<long long>(stretches),
      static_cast<long long>(ascending), static_cast<double>(most) / tw::MiB(1),
      static_cast<double>(limit) / tw::MiB(1));
  const bool each_once = windows == expected && numbers == stretches && sum == stretches * (stretches + 1) / 2;
  const bool shuffled = ascending > stretches / 4 && ascending < stretches - stretches / 4;
  return each_once && shuffled && most <= limit ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::int64_t bytes = (argc > 1 ? std::atol(argv[1]) : 200) * 1'000'000L;
  const std::int64_t limit = tw::MiB(argc > 2 ? std::atof(argv[2]) : 64);
  tw::config::memory_limit("cpu:0", limit);
  const std::string path =
      (std::filesystem::temp_directory_path() / ("text_windows." + std::to_string(::getpid()))).string();
  write_file(path, bytes);
  const int status = run(path, bytes, limit);
  std::filesystem::remove(path);
  return status;
}
