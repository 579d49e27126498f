#include "thalweg/backend/cpu/amx/tiles.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "thalweg/backend/cpu/amx/tile_steps.h"
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
  begin(block, add);
  for (std::int64_t step = 0; step < steps; ++step, a += kPartsSize, b += kPartsSize)
    add_parts<false>(a, b, []() TW_INLINE_AMX {});
  end(block);
}

}  // namespace thalweg::cpu::amx
