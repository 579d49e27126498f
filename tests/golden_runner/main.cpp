// Runs golden cases: golden_runner DIR [--group NAME] [--filter TEXT] [-v]
// Exit: 0 nothing failed, 1 a case failed, 2 wrong usage or a directory that is not of the format.
#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

#include "tests/golden_runner/report.h"
#include "thalweg/core/error.h"

namespace thalweg::golden {
namespace {

struct Options {
  std::filesystem::path directory;
  std::string group, filter;  // empty: all
  bool verbose = false;
};

struct WrongUsage : std::runtime_error {
  using std::runtime_error::runtime_error;
};

Options parse_options(const std::vector<std::string>& arguments) {
  Options options;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const auto& argument = arguments[i];
    if (argument == "-v") {
      options.verbose = true;
    } else if (argument == "--group" || argument == "--filter") {
      if (i + 1 == arguments.size()) throw WrongUsage(argument + " needs a value");
      (argument == "--group" ? options.group : options.filter) = arguments[++i];
    } else if (argument.starts_with("-") || !options.directory.empty()) {
      throw WrongUsage("unexpected argument " + argument);
    } else {
      options.directory = argument;
    }
  }
  if (options.directory.empty()) throw WrongUsage("a directory is missing");
  return options;
}

// The directories of groups, in the order of their names.
std::vector<std::filesystem::path> group_directories(const std::filesystem::path& directory) {
  if (!std::filesystem::is_directory(directory)) throw Malformed(directory.string() + " is not a directory");
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::directory_iterator(directory))
    if (std::filesystem::exists(entry.path() / "cases.json")) found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  return found;
}

void run_group(const Group& group, const Options& options, Report& report) {
  const SafetensorsFile tensors(group.tensors.string());
  for (const auto& c : group.cases) {
    if (c.name.find(options.filter) == std::string::npos) continue;
    for (const auto dtype : {DType::f32, DType::f64}) {
      const auto result = run_case(group.name, c, tensors, dtype);
      if (!result) {
        report.skip("op " + full_name(group.name, c.op), 1);
        break;
      }
      report.add(group.name, c, dtype, *result);
    }
  }
}

int run(const Options& options) {
  Report report;
  int groups = 0;
  for (const auto& directory : group_directories(options.directory)) {
    const Group group = load_group(directory);
    if (!options.group.empty() && group.name != options.group) continue;
    ++groups;
    if (is_run(group.name)) {
      run_group(group, options, report);
    } else {
      const auto selected = [&](const Case& c) { return c.name.find(options.filter) != std::string::npos; };
      report.skip("group " + group.name,
                  static_cast<int>(std::count_if(group.cases.begin(), group.cases.end(), selected)));
    }
  }
  if (groups == 0)
    throw Malformed(options.directory.string() + " has no group" +
                    (options.group.empty() ? "" : " \"" + options.group + "\""));
  report.print_skipped();
  if (options.verbose) report.print_table();
  report.print_totals();
  return report.all_good() ? 0 : 1;
}

}  // namespace
}  // namespace thalweg::golden

int main(int count, char** values) {
  using namespace thalweg::golden;
  try {
    return run(parse_options(std::vector<std::string>(values + 1, values + count)));
  } catch (const WrongUsage& error) {
    std::cerr << error.what() << "\nusage: golden_runner DIR [--group NAME] [--filter TEXT] [-v]\n";
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
  }
  return 2;
}
