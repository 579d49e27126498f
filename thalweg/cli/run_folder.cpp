#include "thalweg/cli/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <sstream>

#include "thalweg/cli/fingerprints.h"
#include "thalweg/cli/messages.h"

namespace thalweg::cli {
namespace {

using nlohmann::ordered_json;
namespace fs = std::filesystem;

// Names of files may be any bytes; JSON has them as text.
std::string as_text(const std::string& path) {
  return ordered_json::parse(ordered_json(path).dump(-1, ' ', false, ordered_json::error_handler_t::replace));
}

// The file that the run could not read when it ended, if that was noted.
std::optional<BrokenFile> broken_of(const ordered_json& before, const std::string& folder, const Datasets& datasets) {
  if (!before.contains("broken") || !before["broken"].is_object()) return {};
  const std::string name = before["broken"].value("file", "");
  for (const auto& path : datasets.files)
    if (as_text(path) == name) return BrokenFile{path, before["broken"].value("bytes", std::uint64_t{0})};
  throw Error(ErrorCode::failed_precondition, "train",
              name + ", which the run in " + folder +
                  " could not read, is no longer there: without it the others would come in another order",
              "put an image of its class in its place, under the same name, or begin another run without --resume");
}

void check_files(const std::string& folder, const ordered_json& before, const Datasets& datasets,
                 const std::optional<BrokenFile>& broken) {
  auto lengths = datasets.lengths;
  for (std::size_t i = 0; broken && i < lengths.size(); ++i)
    if (datasets.files[i] == broken->path) lengths[i] = broken->bytes;
  Fingerprints now;
  for (const auto& [path, content] : fingerprints(datasets.files, lengths)) now[as_text(path)] = content;
  std::optional<BrokenFile> named = broken;
  if (named) named->path = as_text(named->path);
  check_unchanged(folder, before["files"].get<Fingerprints>(), now, named);
}

// Of a run that was begun; no object: it is damaged.
ordered_json config_of(const std::string& folder) {
  std::ifstream file(folder + "/config.json");
  if (!file.good())
    throw Error(ErrorCode::not_found, "train", "there is no run in " + folder, "leave --resume out to begin one");
  return ordered_json::parse(file, nullptr, false);
}

void check_resumed(const std::string& folder, const Run& run) {
  auto before = config_of(folder);
  const auto now = ordered_json::parse(run.config());
  if (!before.is_object())
    throw Error(ErrorCode::data_loss, "train", folder + "/config.json is damaged: it is no JSON object",
                "bring the file back, or begin another run without --resume");
  if (before.contains("loss") && before["loss"] == "the model's own")
    before["loss"] = run.own_loss();  // older versions
  const auto broken = broken_of(before, folder, run.datasets());
  for (const char* key :
       {"model", "settings", "data", "examples", "batch", "optimizer", "lr", "schedule", "weight_decay", "clip_norm",
        "clip_value", "global_clip_norm", "accumulate", "seed", "loss", "precision"})
    if (!before.contains(key) || before[key] != now[key])
      throw Error(ErrorCode::invalid_argument, "train",
                  "the run in " + folder + " has " + key + " " +
                      (before.contains(key) ? before[key].dump() : "unknown") + ", got " + now[key].dump(),
                  "go on with the options that it was begun with");
  if (before.contains("files") && before["files"].is_object())  // runs of older versions have none
    check_files(folder, before, run.datasets(), broken);
}

// A run that failed before its first step has left nothing that could be lost.
bool has_run(const std::string& folder) {
  std::error_code fault;
  const fs::path checkpoints = fs::path(folder) / "checkpoints", lines = fs::path(folder) / "log.jsonl";
  const auto is_empty = [&](const fs::path& path) { return !fs::exists(path, fault) || fs::is_empty(path, fault); };
  return fs::exists(checkpoints, fault) && !(is_empty(checkpoints) && is_empty(lines));
}

// What the log tells of: the last step, and whether the run came to its end, which is saved unless its weights were not
// finite.
struct Logged {
  std::int64_t steps = 0;
  bool ended = false, lost = false;
};

Logged logged(const std::string& folder) {
  std::ifstream file(folder + "/log.jsonl");
  Logged found;
  for (std::string line; std::getline(file, line);) {
    const auto values = ordered_json::parse(line, nullptr, false);
    if (!values.is_object()) continue;
    if (values.contains("step") && values["step"].is_number()) values["step"].get_to(found.steps);
    found.ended = found.ended || values.contains("final");
    found.lost = values.contains("loss") && values["loss"].is_null();
  }
  return found;
}

// The step whose checkpoint is the first of the run.
std::int64_t first_checkpoint(const std::string& folder, const Run& run) {
  const auto config = config_of(folder);
  const auto every = config.is_object() ? config.value("checkpoint_every", std::int64_t{0}) : 0;
  return every > 0 ? every : run.epoch_steps();
}

// Without a checkpoint a run begins anew, and its log with it: only one that was killed before the first may.
std::int64_t saved_steps(const std::string& folder, const Run& run) {
  const auto saved = checkpoint::Manager(folder + "/checkpoints").steps();
  if (!saved.empty()) return saved.back();
  const Logged log = logged(folder);
  if (log.ended || log.steps > first_checkpoint(folder, run))
    throw Error(ErrorCode::failed_precondition, "train",
                "the run in " + folder + " has " + counted(log.steps, "step") +
                    " in its log, but there is no checkpoint in " + folder + "/checkpoints to go on from",
                log.lost ? "its loss was not finite before the first checkpoint: begin another run with another --out"
                         : "bring the checkpoints back, begin another run with another --out, or remove the folder");
  if (log.steps > 0) print_warning("the run in " + folder + " ended before its first checkpoint: it begins anew");
  return 0;
}

// A run cannot be made shorter: what is done stays.
std::int64_t steps_done(const std::string& folder, const Run& run) {
  const std::int64_t done = saved_steps(folder, run);
  if (done > run.steps())
    print_warning("the run in " + folder + " has " + counted(done, "step") + " already, more than the " +
                  std::to_string(run.steps()) + " asked for: it stays as it is");
  return done;
}

// Files that a process which was killed had not finished.
void sweep(const std::string& folder) {
  std::error_code fault;
  for (const auto& entry : fs::directory_iterator(folder, fault)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("report.html.tmp-") || name.starts_with("plan.svg.tmp-") || name == "config.json.new" ||
        name == "log.jsonl.new")
      fs::remove(entry.path(), fault);
  }
}

}  // namespace

FolderLock::FolderLock(const std::string& folder) : file_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (file_ < 0) throw Error(ErrorCode::unavailable, "train", "cannot write to " + folder, "choose another --out");
  if (::flock(file_, LOCK_EX | LOCK_NB) == 0) return;
  ::close(file_);
  throw Error(ErrorCode::failed_precondition, "train", "another process trains in " + folder,
              "wait until it has ended, or choose another --out");
}

FolderLock::~FolderLock() {
  if (file_ >= 0) ::close(file_);
}

std::string new_folder(const std::string& model) {
  const std::time_t now = std::time(nullptr);
  std::ostringstream name;
  name << "runs/" << model << std::put_time(std::localtime(&now), "-%Y%m%d-%H%M%S");
  std::string folder = name.str();
  std::error_code fault;
  fs::create_directories("runs", fault);
  for (int i = 2; !fs::create_directory(folder, fault); ++i) {
    if (fault) throw Error(ErrorCode::unavailable, "train", "cannot write to " + folder, "choose another --out");
    folder = name.str() + '-' + std::to_string(i);
  }
  return folder;
}

void replace_file(const std::string& path, const std::string& text) {
  const std::string beside = path + ".new";
  std::ofstream file(beside, std::ios::trunc);
  file << text;
  file.close();
  std::error_code fault;
  if (file.good()) fs::rename(beside, path, fault);
  if (file.good() && !fault) return;
  fs::remove(beside, fault);
  throw Error(ErrorCode::unavailable, "train", "cannot write " + path, "check the free space, or choose another --out");
}

FolderLock prepare(const std::string& folder, const Run& run, bool resume) {
  std::error_code fault;
  if (resume)
    check_resumed(folder, run);
  else
    fs::create_directories(folder, fault);  // the lock tells whether it is there
  FolderLock lock(folder);
  if (!resume && has_run(folder))  // not before: another process may just have ended there
    throw Error(ErrorCode::failed_precondition, "train", "there is a run in " + folder + " already",
                "go on with it by --resume, or choose another --out");
  sweep(folder);
  replace_file(folder + "/config.json", run.config(resume ? steps_done(folder, run) : 0));
  return lock;
}

std::string note_damage(const std::string& folder, const Datasets& datasets, const std::string& error) {
  const std::string go_on = "then go on with --out " + folder + " --resume";
  const auto broken = datasets.one_example_a_file ? broken_file(datasets.files, datasets.lengths, error) : std::nullopt;
  try {
    auto config = config_of(folder);
    if (!broken || !config.is_object()) return "bring the data back as they were, " + go_on;
    config["broken"] = {{"file", as_text(broken->path)}, {"bytes", broken->bytes}};
    replace_file(folder + "/config.json", config.dump(1) + "\n");
  } catch (const Error&) {  // what could not be read matters more
    return "bring the data back as they were, " + go_on;
  }
  return "fetch the file again, or put another image of its class in its place, under the same name; " + go_on;
}

}  // namespace thalweg::cli
