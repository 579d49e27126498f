#include "thalweg/backend/cpu/amx/tiles.h"

#include <immintrin.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "thalweg/backend/cpu/describe.h"

namespace thalweg::cpu::amx {
namespace {

struct alignas(64) Configuration {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
};

constexpr Configuration whole_tiles() {
  Configuration made;
  for (int i = 0; i < 8; ++i) made.row_bytes[i] = 64, made.rows[i] = 16;
  return made;
}

constexpr Configuration kWholeTiles = whole_tiles();

TW_AMX void configure() { _tile_loadconfig(&kWholeTiles); }
TW_AMX void release() { _tile_release(); }

// Memory for tiles is granted to a process when it asks, unless a thread's alternate stack for signals has no room for
// them.
bool is_granted() {
  constexpr long ask = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, ask, tile_data) == 0;
}

// Some hypervisors leave the description of tiles empty although they work. A child process tries them: where they do
// not, it is the one to die, without a core file and without a signal to this process.
bool survives_trial() {
  const long child = syscall(SYS_clone, 0, nullptr, nullptr, nullptr, nullptr);
  if (child == 0) {
    prctl(PR_SET_DUMPABLE, 0);
    for (const int fault : {SIGILL, SIGSEGV, SIGBUS}) signal(fault, SIG_DFL);
    if (!is_granted()) syscall(SYS_exit_group, 1);
    alignas(64) BFloat16 ones[2 * kTileSize];
    alignas(64) float sums[kBlockSize];
    std::fill_n(ones, 2 * kTileSize, BFloat16(1.0f));
    configure();
    multiply(ones, ones, 1, sums, false);
    release();
    syscall(SYS_exit_group, std::all_of(sums, sums + kBlockSize, [](float sum) { return sum == kStep; }) ? 0 : 1);
  }
  int status = -1;
  pid_t ended = -1;
  if (child > 0) do
      ended = waitpid(static_cast<pid_t>(child), &status, __WALL);
    while (ended < 0 && errno == EINTR);
  return ended > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool find_usable() {
  const auto sets = instruction_sets();
  for (const char* needed : {"amx-tile", "amx-bf16", "avx512bw", "avx512vl", "avx512dq", "avx512bf16"})
    if (std::ranges::find(sets, needed) == sets.end()) return false;
  return (!amx_without_tiles() || survives_trial()) && is_granted();
}

}  // namespace

bool usable() {
  static const bool found = find_usable();
  return found;
}

Tiles::Tiles() { configure(); }
Tiles::~Tiles() { release(); }

namespace {

TW_AMX inline __attribute__((always_inline)) void begin(const Block& block, bool add) {
  if (!add) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    return;
  }
  _tile_loadd(0, block.at, block.row_bytes);
  _tile_loadd(1, block.at + block.right, block.row_bytes);
  _tile_loadd(2, block.at + block.below, block.row_bytes);
  _tile_loadd(3, block.at + block.below + block.right, block.row_bytes);
}

TW_AMX inline __attribute__((always_inline)) void end(const Block& block) {
  _tile_stored(0, block.at, block.row_bytes);
  _tile_stored(1, block.at + block.right, block.row_bytes);
  _tile_stored(2, block.at + block.below, block.row_bytes);
  _tile_stored(3, block.at + block.below + block.right, block.row_bytes);
}

TW_AMX inline __attribute__((always_inline)) void load_rows(const BFloat16* a) {
  _tile_loadd(4, a, 64);
  _tile_loadd(5, a + kTileSize, 64);
}

TW_AMX inline __attribute__((always_inline)) void load_columns(const BFloat16* b) {
  _tile_loadd(6, b, 64);
  _tile_loadd(7, b + kTileSize, 64);
}

TW_AMX inline __attribute__((always_inline)) void add_products() {
  _tile_dpbf16ps(0, 4, 6);
  _tile_dpbf16ps(1, 4, 7);
  _tile_dpbf16ps(2, 5, 6);
  _tile_dpbf16ps(3, 5, 7);
}

}  // namespace

TW_AMX void multiply(const BFloat16* a, const BFloat16* b, std::int64_t steps, const Block& block, bool add) {
  begin(block, add);
  for (std::int64_t step = 0; step < steps; ++step, a += 2 * kTileSize, b += 2 * kTileSize) {
    load_columns(b);
    load_rows(a);
    add_products();
  }
  end(block);
}

TW_AMX void multiply_parts(const BFloat16* a, const BFloat16* b, std::int64_t steps, const Block& block, bool add) {
  constexpr std::int64_t part = 2 * kTileSize;
  begin(block, add);
  for (std::int64_t step = 0; step < steps; ++step, a += kParts * part, b += kParts * part) {
    load_rows(a + 2 * part);
    load_columns(b);
    add_products();
    load_rows(a + part);
    add_products();
    load_columns(b + part);
    add_products();
    load_rows(a);
    add_products();
    load_columns(b + 2 * part);
    add_products();
    load_columns(b);  // the largest last: what the others rounded is small beside it
    add_products();
  }
  end(block);
}

}  // namespace thalweg::cpu::amx
