#include "thalweg/checkpoint/manager.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <filesystem>

#include "thalweg/checkpoint/files.h"
#include "thalweg/core/atomic_file.h"
#include "thalweg/core/check.h"
#include "thalweg/core/log.h"

namespace thalweg::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view prefix = "step-", temporary_mark = ".tmp-";

std::optional<std::int64_t> step_of(const std::string& name) {
  std::int64_t step = 0;
  if (!name.starts_with(prefix)) return {};
  const char* last = name.data() + name.size();
  const auto [end, fault] = std::from_chars(name.data() + prefix.size(), last, step);
  if (fault != std::errc() || end != last || step < 0) return {};
  return step;
}

std::string temporary_for(const std::string& path) {
  static std::atomic<unsigned> made{0};
  return fmt::format("{}{}{}-{}", path, temporary_mark, ::getpid(), made++);
}

// Left by a process that is gone. One with our own number is gone too: a manager is made before it saves.
bool is_stale(const std::string& name) {
  const auto mark = name.find(temporary_mark);
  if (mark == std::string::npos) return false;
  pid_t process = 0;
  std::from_chars(name.data() + mark + temporary_mark.size(), name.data() + name.size(), process);
  return process <= 0 || process == ::getpid() || (::kill(process, 0) != 0 && errno == ESRCH);
}

// A folder under a temporary name, which goes away unless it is kept.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) { make_folder("checkpoint", path_); }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Puts the folder in place of `path`. What stands there already changes places with it, and goes with the temporary.
void publish(const TemporaryFolder& made, const std::string& path) {
  sync_folder("checkpoint", made.path());
  if (!fs::exists(path)) return rename_file("checkpoint", made.path(), path);
  TW_CHECK(unavailable, ::renameat2(AT_FDCWD, made.path().c_str(), AT_FDCWD, path.c_str(), RENAME_EXCHANGE) == 0,
           "checkpoint", "remove the old checkpoint first", "cannot replace {}", path);
}

void check_items(const std::vector<NamedItem>& items) {
  TW_CHECK_USER(!items.empty(), "checkpoint", "name what to keep: {{\"model\", &model}}", "expected items, got none");
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::string& name = items[i].name;
    const bool plain = !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
      return std::isalnum(c) || c == '_' || c == '-';
    });
    TW_CHECK_USER(plain, "checkpoint", "the name is part of a file's name: use letters, digits, _ and -",
                  "expected a plain name of an item, got \"{}\"", name);
    for (std::size_t j = 0; j < i; ++j)
      TW_CHECK_USER(items[j].name != name, "checkpoint", "choose another name",
                    "expected items of different names, got \"{}\" twice", name);
  }
}

}  // namespace

Manager::Manager(std::string folder, ManagerOptions options) : folder_(std::move(folder)), options_(options) {
  TW_CHECK_USER(options_.keep >= 1, "checkpoint", "3 is usual", "expected .keep of 1 or more, got {}", options_.keep);
  std::error_code fault;
  fs::create_directories(folder_, fault);
  TW_CHECK(unavailable, fs::is_directory(folder_), "checkpoint", "choose a folder that can be written to",
           "cannot make the folder {}: {}", folder_, fault.message());
  for (const auto& entry : fs::directory_iterator(folder_))
    if (is_stale(entry.path().filename().string())) fs::remove_all(entry.path(), fault);
}

std::string Manager::path_of(std::int64_t step) const { return fmt::format("{}/{}{}", folder_, prefix, step); }

std::vector<std::int64_t> Manager::steps() const {
  std::vector<std::int64_t> list;
  std::error_code fault;
  const fs::directory_iterator entries(folder_, fault);
  TW_CHECK(unavailable, !fault, "checkpoint", "the manager has made the folder; leave it where it is",
           "cannot read the folder {}: {}", folder_, fault.message());
  for (const auto& entry : entries)
    if (const auto step = step_of(entry.path().filename().string())) list.push_back(*step);
  std::sort(list.begin(), list.end());
  return list;
}

void Manager::save(std::int64_t step, const std::vector<NamedItem>& items) {
  check_items(items);
  TW_CHECK_USER(step >= 0, "checkpoint", "count steps from 0 or 1", "expected a step of 0 or more, got {}", step);
  const std::string path = path_of(step);
  warn_of_later(step);
  {
    const TemporaryFolder made(temporary_for(path));
    write_files(made.path(), step, items);
    publish(made, path);
    sync_folder("checkpoint", folder_);
  }
  AtomicFile latest("checkpoint", folder_ + "/latest");
  const std::string name = fmt::format("{}{}\n", prefix, step);
  latest.write(name.data(), name.size());
  latest.commit();
  prune(step);
}

// A run that went back to an earlier checkpoint, or began anew, beside those of what it left.
void Manager::warn_of_later(std::int64_t step) {
  const auto list = steps();
  if (warned_ || list.empty() || list.back() <= step) return;
  warned_ = true;
  warn(
      fmt::format("checkpoint: {} has checkpoints of later steps than {}, up to {}, which restore_latest prefers; "
                  "remove them, or choose another folder",
                  folder_, step, list.back()));
}

// What was just saved stays, whatever its step. A folder that is going away is first renamed, so that none is ever
// found with some of its files.
void Manager::prune(std::int64_t saved) const {
  auto list = steps();
  std::erase(list, saved);
  list.push_back(saved);
  for (std::size_t i = 0; i + static_cast<std::size_t>(options_.keep) < list.size(); ++i) {
    const std::string away = temporary_for(path_of(list[i]));
    rename_file("checkpoint", path_of(list[i]), away);
    std::error_code ignored;  // what cannot be removed now is swept later
    fs::remove_all(away, ignored);
  }
}

void Manager::restore(std::int64_t step, const std::vector<NamedItem>& items) {
  check_items(items);
  TW_CHECK(not_found, fs::is_directory(path_of(step)), "checkpoint", "steps() lists those that are there",
           "there is no checkpoint {}", path_of(step));
  load(read_files(path_of(step), items), items);
}

std::optional<std::int64_t> Manager::restore_latest(const std::vector<NamedItem>& items) {
  check_items(items);
  auto list = steps();
  std::optional<Error> last;
  for (; !list.empty(); list.pop_back()) {
    std::optional<Contents> contents;
    try {
      contents = read_files(path_of(list.back()), items);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::data_loss) throw;
      ++damaged_;
      warn("skipped a damaged checkpoint: " + std::string(error.what()));
      last = error;
      continue;
    }
    load(*contents, items);
    return list.back();
  }
  if (last) throw *last;
  return {};
}

}  // namespace thalweg::checkpoint
