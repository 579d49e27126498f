// thalweg [--version] COMMAND. Exit status: 0 good, 1 failed, 2 wrong usage. Data goes to standard output, messages to
// standard error.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <iostream>
#include <string>

#include "thalweg/cli/commands.h"
#include "thalweg/thalweg.h"

namespace {

using namespace thalweg;

constexpr int kGood = 0, kFailed = 1, kWrongUsage = 2;

// Colour belongs on a terminal whose user did not refuse it.
bool coloured() {
  const char* refused = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  return isatty(STDERR_FILENO) && !(refused && *refused) && terminal && std::string(terminal) != "dumb";
}

void message(const char* kind, const char* colour, const std::string& text) {
  const bool paint = coloured();
  std::cerr << (paint ? colour : "") << kind << ": " << (paint ? "\033[0m" : "") << text << '\n';
}

void error(const std::string& text) { message("error", "\033[1;31m", text); }
void warning(const std::string& text) { message("warning", "\033[1;33m", text); }

int parse_and_run(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& request) {  // --help, --version
    return app.exit(request);
  } catch (const CLI::ParseError& wrong) {
    error(wrong.what());
    std::cerr << "try: thalweg --help\n";
    return kWrongUsage;
  }
  return kGood;
}

}  // namespace

int main(int argc, char** argv) {
  set_log_handler(warning);
  CLI::App app("Thalweg trains models inside a memory budget.", "thalweg");
  app.set_version_flag("--version", std::string("thalweg ") + version());
  app.require_subcommand(1);

  cli::DevicesOptions devices;
  auto* command = app.add_subcommand("devices", "what this machine has, and why a GPU is not used");
  command->add_flag("--json", devices.json, "one JSON object on one line");
  command->callback([&] { cli::devices(devices); });

  try {
    const int status = parse_and_run(app, argc, argv);
    std::cout.flush();
    if (status == kGood && !std::cout) {
      error("could not write to standard output");
      return kFailed;
    }
    return status;
  } catch (const std::exception& failure) {
    error(failure.what());
    return kFailed;
  }
}
