// thalweg [--version] COMMAND. Exit status: 0 good, 1 failed, 2 wrong usage. Data goes to standard output, messages to
// standard error.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <iostream>
#include <string>

#include "models/steps.h"
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

int wrong_usage(const std::exception& wrong) {
  error(wrong.what());
  std::cerr << "try: thalweg --help\n";
  return kWrongUsage;
}

int parse_and_run(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& request) {  // --help, --version
    return app.exit(request);
  } catch (const CLI::ParseError& wrong) {
    return wrong_usage(wrong);
  } catch (const cli::UsageError& wrong) {
    return wrong_usage(wrong);
  }
  return kGood;
}

constexpr const char* one_object = "one JSON object on one line";

void add_devices(CLI::App& app, cli::DevicesOptions& options) {
  auto* command = app.add_subcommand("devices", "what this machine has, and why a GPU is not used");
  command->add_flag("--json", options.json, one_object);
  command->callback([&] { cli::devices(options); });
}

void add_plan(CLI::App& app, cli::PlanOptions& options) {
  auto* command = app.add_subcommand("plan", "memory of a training step, known without running it");
  command->add_option("model", options.model, "the model")->required()->check(CLI::IsMember(models::step_names()));
  command->add_option("--batch", options.batch, "examples in a batch")->check(CLI::PositiveNumber);
  command->add_option("--memory-budget", options.memory_budget, "bytes, or with KiB, MiB, GiB");
  command->add_option("--precision", options.precision, "f32, bf16 or f16")
      ->check(CLI::IsMember({"f32", "bf16", "f16"}));
  command->add_option("--set", options.settings, "key=value, a size of the model; may be repeated");
  command->add_option("--svg", options.svg, "a file for a picture of memory over the step");
  command->add_flag("--json", options.json, one_object);
  command->callback([&] { cli::plan(options); });
}

}  // namespace

int main(int argc, char** argv) {
  set_log_handler(warning);
  CLI::App app("Thalweg trains models inside a memory budget.", "thalweg");
  app.set_version_flag("--version", std::string("thalweg ") + version());
  app.require_subcommand(1);

  cli::DevicesOptions devices;
  add_devices(app, devices);
  cli::PlanOptions plan;
  add_plan(app, plan);

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
