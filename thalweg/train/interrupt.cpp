#include "thalweg/train/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <string_view>

#include "thalweg/core/log.h"

namespace thalweg::train {
namespace {

// The user's, that of systems which end a job, that of a terminal which goes away, and a warning of batch systems.
constexpr std::array signals = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
std::atomic<int> noted{0};  // the first of them
std::atomic<int> scopes{0};

std::atomic<bool> tells{false};

// Steps and plans may take long: who sees nothing happen asks a second time, and loses what was not saved. A handler
// may do no more than write.
void note(int number) {
  int none = 0;
  noted.compare_exchange_strong(none, number);
  if (!tells.load() || number == SIGHUP) return;
  constexpr std::string_view text = "\nthe step is finished first; another time ends at once, and saves nothing\n";
  const int error = errno;
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
  errno = error;
}

void set_handler(int number, void (*handler)(int), int flags) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  ::sigaction(number, &action, nullptr);
}

// Of a terminal that goes away both the system and the shell may tell.
int flags_of(int number) { return static_cast<int>(number == SIGHUP ? SA_RESTART : SA_RESETHAND | SA_RESTART); }

bool has_own_handler(int number) {
  struct sigaction action = {};
  return ::sigaction(number, nullptr, &action) != 0 || action.sa_handler != SIG_DFL;
}

}  // namespace

InterruptScope::InterruptScope(bool active) : active_(active) {
  if (!active_ || scopes++ > 0) return;
  noted = 0;
  tells = ::isatty(STDERR_FILENO) != 0 && !is_silent();
  for (const int number : signals)
    if (!has_own_handler(number)) set_handler(number, note, flags_of(number));
}

InterruptScope::~InterruptScope() {
  if (!active_ || --scopes > 0) return;
  for (const int number : signals) {
    struct sigaction action = {};
    if (::sigaction(number, nullptr, &action) == 0 && action.sa_handler == note) set_handler(number, SIG_DFL, 0);
  }
}

int InterruptScope::signal() { return noted.load(); }

}  // namespace thalweg::train
