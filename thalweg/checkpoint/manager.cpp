#include "thalweg/checkpoint/manager.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <set>

#include "thalweg/checkpoint/files.h"
#include "thalweg/core/atomic_file.h"
#include "thalweg/core/check.h"
#include "thalweg/core/log.h"

namespace thalweg::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view prefix = "step-", temporary_mark = ".tmp-", latest_name = "latest";

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

// Names that this process is writing under, which other managers of the same folder leave alone.
struct UnderWay {
  std::mutex mutex;
  std::multiset<std::string> names;
};

UnderWay& under_way() {
  static UnderWay all;
  return all;
}

class Writing {
 public:
  explicit Writing(std::string name) : name_(std::move(name)) {
    const std::lock_guard lock(under_way().mutex);
    under_way().names.insert(name_);
  }
  ~Writing() {
    const std::lock_guard lock(under_way().mutex);
    auto& names = under_way().names;
    names.erase(names.find(name_));
  }
  Writing(const Writing&) = delete;

 private:
  std::string name_;
};

// Left by a process that is gone. One with our own number is gone too, unless it is under way. Other files that have
// the mark in their name are not ours.
bool is_stale(const std::string& name) {
  const auto mark = name.find(temporary_mark);
  if (mark == std::string::npos) return false;
  const std::string of = name.substr(0, mark);
  pid_t process = 0;
  const char* last = name.data() + name.size();
  auto [end, fault] = std::from_chars(name.data() + mark + temporary_mark.size(), last, process);
  if ((of != latest_name && !step_of(of)) || fault != std::errc() || process <= 0 || end == last || *end != '-')
    return false;
  if (++end == last || !std::all_of(end, last, [](char c) { return c >= '0' && c <= '9'; })) return false;
  if (process != ::getpid()) return ::kill(process, 0) != 0 && errno == ESRCH;
  const auto& names = under_way().names;
  return !names.contains(name) && !names.contains(of);
}

// Removes what killed processes left unfinished.
void sweep(const std::string& folder) {
  const std::lock_guard lock(under_way().mutex);
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder))
    if (is_stale(entry.path().filename().string())) fs::remove_all(entry.path(), ignored);
}

// A folder under a temporary name, which goes away unless it is kept.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(std::string path) : path_(std::move(path)), writing_(fs::path(path_).filename()) {
    make_folder("checkpoint", path_);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  Writing writing_;
};

// Names the checkpoint that was saved last.
void write_latest(const std::string& folder, std::int64_t step) {
  const Writing writing{std::string(latest_name)};
  AtomicFile file("checkpoint", fmt::format("{}/{}", folder, latest_name));
  const std::string name = fmt::format("{}{}\n", prefix, step);
  file.write(name.data(), name.size());
  file.commit();
}

// Where the file system cannot exchange names, as those of networks: a crash between the two leaves the checkpoint
// before this step.
void replace_in_two(const std::string& made, const std::string& path) {
  const std::string away = temporary_for(path);
  const Writing writing(fs::path(away).filename());
  std::error_code ignored;
  rename_file("checkpoint", path, away);
  try {
    rename_file("checkpoint", made, path);
  } catch (...) {
    fs::rename(away, path, ignored);
    throw;
  }
  fs::remove_all(away, ignored);
}

// Puts the folder in place of `path`. What stands there already changes places with it, and goes with the temporary.
void publish(const TemporaryFolder& made, const std::string& path) {
  sync_folder("checkpoint", made.path());
  if (!fs::exists(path)) return rename_file("checkpoint", made.path(), path);
  if (::renameat2(AT_FDCWD, made.path().c_str(), AT_FDCWD, path.c_str(), RENAME_EXCHANGE) == 0) return;
  TW_CHECK(unavailable, errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP, "checkpoint",
           "remove the old checkpoint first", "cannot replace {}: {}", path, std::strerror(errno));
  replace_in_two(made.path(), path);
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
  sweep(folder_);
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
  write_latest(folder_, step);
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
    std::error_code ignored;  // what cannot be removed now is swept later
    try {
      rename_file("checkpoint", path_of(list[i]), away);
    } catch (const Error&) {
      if (fs::exists(path_of(list[i]), ignored)) throw;
      continue;  // another manager of the folder was first
    }
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
