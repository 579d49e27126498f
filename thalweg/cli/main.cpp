// thalweg [--version] COMMAND. Exit status: 0 good, 1 failed, 2 wrong usage, 130 interrupted
// (143 by SIGTERM). Data goes to standard output, messages to standard error.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <string>

#include "models/workloads.h"
#include "thalweg/cli/arguments.h"
#include "thalweg/cli/commands.h"
#include "thalweg/cli/messages.h"
#include "thalweg/thalweg.h"

namespace {

using namespace thalweg;

// What is wrong, and the help to look at: that of the command, if there is one.
int refuse(const CLI::App& app, const std::string& wrong) {
  cli::print_error(wrong);
  const auto chosen = app.get_subcommands();
  std::cerr << "try: thalweg " << (chosen.empty() ? "" : chosen[0]->get_name() + " ") << "--help\n";
  return cli::wrong_usage;
}

std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const auto* option : command.get_options())
    for (const auto& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const auto* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

// A first word that is no command is what is wrong, whatever else is missing; an unknown option matters more than
// its value, which is left over too.
std::string text_of(const CLI::App& app, const CLI::ParseError& wrong) {
  const auto rest = app.remaining(true);
  const auto chosen = app.get_subcommands();
  if (chosen.empty() && !rest.empty() && !rest[0].starts_with("-"))
    return "there is no command \"" + rest[0] + "\"" + cli::suggestion(rest[0], command_names(app));
  for (const auto& word : rest)
    if (const std::string name = word.substr(0, word.find('=')); name.starts_with("-")) {
      const auto known = option_names(chosen.empty() ? app : *chosen[0]);
      if (std::find(known.begin(), known.end(), name) != known.end()) return "expected " + name + " behind the command";
      return "there is no option " + name + cli::suggestion(name, known);
    }
  return wrong.what();
}

int parse_and_run(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& request) {  // --help, --version
    return app.exit(request);
  } catch (const CLI::ParseError& wrong) {
    return refuse(app, text_of(app, wrong));
  } catch (const cli::UsageError& wrong) {
    return refuse(app, cli::in_own_words(wrong.what()));
  }
  return cli::good;
}

constexpr const char* one_object = "one JSON object on one line";

void add_devices(CLI::App& app, cli::DevicesOptions& options) {
  auto* command = app.add_subcommand("devices", "what this machine has, and why a GPU is not used");
  command->add_flag("--json", options.json, one_object);
  command->callback([&] { cli::devices(options); });
}

void add_plan(CLI::App& app, cli::PlanOptions& options, int& status) {
  auto* command = app.add_subcommand("plan", "memory of a training step, known without running it");
  cli::add_model(*command, options.model);
  command->add_option("--batch", options.batch, "examples in a batch")->transform(cli::count());
  command->add_option("--memory-budget", options.memory_budget, "bytes, or with KiB, MiB, GiB")->check(cli::wrong_size);
  command->add_option("--precision", options.precision, "f32, bf16 or f16")
      ->check(CLI::IsMember({"f32", "bf16", "f16"}));
  cli::add_settings(*command, options.settings);
  command->add_option("--svg", options.svg, "a file for a picture of memory over the step")->check(cli::no_text);
  command->add_flag("--json", options.json, one_object);
  command->callback([&] { status = cli::plan(options); });
}

void add_train(CLI::App& app, cli::TrainOptions& options, int& status) {
  auto* command = app.add_subcommand("train", "trains a model and writes a run folder");
  cli::add_training(*command, options);
  command->get_option("--steps")->description("steps in all, those before --resume too");
  command->add_option("--out", options.out, "the run folder; otherwise a new one under runs/")->check(cli::no_text);
  command->add_flag("--resume", options.resume, "go on with the run of --out");
  command->add_option("--checkpoint-every", options.checkpoint_every, "steps; otherwise after every epoch")
      ->transform(cli::count());
  command->add_option("--monitor-every", options.monitor_every, "steps between gradient norms of all layers")
      ->transform(cli::count());
  command->add_flag("--json", options.json, "one JSON object on a line for every step, and one at the end");
  command->callback([&] { status = cli::train(options); });
}

void add_tune(CLI::App& app, cli::TuneOptions& options, int& status) {
  auto* command = app.add_subcommand("tune", "tries settings: a learning rate and a batch size, or a grid");
  cli::add_training(*command, options.train);
  command->get_option("--steps")->description("steps of every run of a grid, or of the search for a rate (100)");
  command->add_option("--grid", options.grid, "option=value,value: any of train's, or a size; may be repeated")
      ->allow_extra_args(false);
  auto* out = command->add_option("--out", options.out, "a folder for the pictures; otherwise a new one under runs/")
                  ->check(cli::no_text);
  command->add_option("--svg", options.svg, "a file for the picture, instead of a folder")
      ->check(cli::no_text)
      ->excludes(out);
  command->add_flag("--json", options.json, "one JSON object on a line for every run of a grid, and one at the end");
  command->callback([&] { status = cli::tune(options); });
}

// Asked for workloads that are not there, the list of those that are is the answer.
std::string unknown_workload(const std::string& name) {
  try {
    models::workload_kind(name);
  } catch (const Error& none) {
    return none.what();
  }
  return {};
}

void add_bench(CLI::App& app, cli::BenchOptions& o, int& status) {
  auto* command =
      app.add_subcommand("bench", "times the workloads, after a check of compiled steps against eager ones");
  command->add_option("workload", o.workloads, "those to time; --list names all")->check(unknown_workload);
  command->add_option("--mode", o.mode, "compiled steps, or op by op")->check(CLI::IsMember({"compiled", "eager"}));
  command->add_option("--precision", o.precision, "of the computation; bf16 for mlp, cnn, gpt-nano and resnet50")
      ->check(CLI::IsMember({"f32", "bf16"}));
  command->add_option("--device", o.device, "where to compute");
  command->add_option("--threads", o.threads, "that compute; 2 otherwise")->transform(cli::count());
  command->add_option("--seconds", o.seconds, "to time; 5 otherwise")->check(cli::zero_or_more());
  command->add_flag("--no-check", o.no_check, "time at once: the results were checked before");
  command->add_flag("--list", o.list, "the workloads, and nothing else");
  command->add_flag("--json", o.json, "one JSON object on a line for every workload");
  command->callback([&] { status = cli::bench(o); });
}

}  // namespace

int main(int argc, char** argv) {
  set_log_handler(cli::print_warning);
  CLI::App app("Thalweg trains models inside a memory budget.", "thalweg");
  app.set_version_flag("--version", std::string("thalweg ") + version());
  app.require_subcommand(1);

  cli::DevicesOptions devices;
  add_devices(app, devices);
  int status = cli::good;
  cli::PlanOptions plan;
  add_plan(app, plan, status);
  cli::TrainOptions train;
  add_train(app, train, status);
  cli::TuneOptions tune;
  add_tune(app, tune, status);
  cli::BenchOptions bench;
  add_bench(app, bench, status);

  try {
    if (const int parsed = parse_and_run(app, argc, argv); parsed != cli::good) status = parsed;
    std::cout.flush();
    if (status == cli::good && !std::cout) {
      cli::print_error("could not write to standard output");
      return cli::failed;
    }
    return status;
  } catch (const std::exception& failure) {
    cli::print_error(cli::in_own_words(failure.what()));
    return cli::failed;
  }
}
