#pragma once
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>
#include <vector>

/// Shared by the tests of this folder: programs that run with a time limit or are killed, and a
/// tuned database. Each test has its own folder for all files.
#include "tests/support/argv.hpp"

namespace tilewise::proof {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

/// Whether to run the long forms of the tests: `./check --full`.
inline bool full() { return std::getenv("TILEWISE_FULL") != nullptr; }

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}
inline void sleep_seconds(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

inline std::string read_file(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// How a program ended.
struct End {
  int status = -1;    ///< exit status, or the negative number of a signal
  bool late = false;  ///< killed at its time limit
  double seconds = 0;
  std::string out, err;
  Json json() const { return Json::parse(out, nullptr, false); }
};

class Programs : public testing::Test {
 protected:
  static constexpr double kLongest = 200;  ///< seconds; a longer run counts as a hang

  Programs() {
    std::string pattern = (fs::temp_directory_path() / "proof-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    fs::create_directory(temporary());
    settings_ = {{"PATH", "/usr/bin:/bin"},      {"HOME", folder_.string()},
                 {"TMPDIR", temporary()},        {"TILEWISE_DB", database()},
                 {"CUDA_VISIBLE_DEVICES", ""},   {"LC_ALL", "C"},
                 {"XDG_CACHE_HOME", in("cache")}};
    for (const char* name : {"LD_LIBRARY_PATH", "ASAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS"})
      if (const char* value = std::getenv(name)) settings_[name] = value;
  }
  ~Programs() override {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }

  fs::path in(const std::string& name) const { return folder_ / name; }
  fs::path temporary() const { return in("temporary"); }
  fs::path database() const { return in("test.db"); }

  pid_t start(const std::string& program, const std::vector<std::string>& arguments) const {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    constexpr int kNew = O_WRONLY | O_CREAT | O_TRUNC;
    posix_spawn_file_actions_addopen(&actions, 1, in("stdout").c_str(), kNew, 0600);
    posix_spawn_file_actions_addopen(&actions, 2, in("stderr").c_str(), kNew, 0600);
    std::vector<std::string> words{program}, settings;
    words.insert(words.end(), arguments.begin(), arguments.end());
    for (const auto& [name, value] : settings_) settings.push_back(name + "=" + value);
    pid_t pid = -1;
    const int error =
        posix_spawn(&pid, program.c_str(), &actions, nullptr, tilewise::test::argv_of(words).data(),
                    tilewise::test::argv_of(settings).data());
    posix_spawn_file_actions_destroy(&actions);
    EXPECT_EQ(error, 0) << "cannot start " << program;
    return pid;
  }

  End finish(pid_t pid, Clock::time_point started, double longest = kLongest) const {
    End end;
    int status = 0;
    while (waitpid(pid, &status, WNOHANG) == 0) {
      if (!end.late && seconds_since(started) > longest) {
        end.late = true;
        kill(pid, SIGKILL);
      }
      sleep_seconds(0.001);
    }
    end.seconds = seconds_since(started);
    end.status = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    end.out = read_file(in("stdout")), end.err = read_file(in("stderr"));
    return end;
  }

  End run(const std::string& program, const std::vector<std::string>& arguments,
          double longest = kLongest) const {
    const auto started = Clock::now();
    return finish(start(program, arguments), started, longest);
  }

  /// Sends SIGKILL after `seconds`.
  End run_and_kill(const std::string& program, const std::vector<std::string>& arguments,
                   double seconds, const std::function<void()>& just_before) const {
    const auto started = Clock::now();
    const pid_t pid = start(program, arguments);
    sleep_seconds(seconds);
    just_before();
    kill(pid, SIGKILL);
    return finish(pid, started);
  }

  /// Tunes forms of "stored" (random_product.hpp) and compiles the default configurations of the
  /// others. Winners and images are in the database, images also in its cache.
  void prepare_database() const {
    const End tuned =
        run(TILEWISE_AUTOTUNE, {"tune", "--device", "host", "--sizes", "24,40", "--layout", "nn,nt",
                                "--align", "4", "--templates", "naive,tiled", "--max-evaluations",
                                "3", "--strategy", "random", "-q", "--db", database()});
    ASSERT_EQ(tuned.status, 0) << tuned.err;
    const End served = run(TILEWISE_SERVE_PRODUCTS, {database(), "80", "1", "stored"}, 120);
    ASSERT_EQ(served.status, 0) << served.err;
    ASSERT_EQ(served.json().at("right"), 80) << served.out;
  }

  /// Copies the files of a database, except the shared-memory index.
  static void copy_files(const fs::path& from, const fs::path& to) {
    for (const char* suffix : {"", "-wal", ".cache", ".cache-wal"}) {
      fs::remove(to.string() + suffix);
      if (fs::exists(from.string() + suffix))
        fs::copy_file(from.string() + suffix, to.string() + suffix);
    }
    for (const char* suffix : {"-shm", ".cache-shm"}) fs::remove(to.string() + suffix);
  }

  /// Processes with this test's settings: workers, compilers and their children.
  int processes() const {
    int count = 0;
    std::error_code error;
    for (fs::directory_iterator entry("/proc", error), end; !error && entry != end;
         entry.increment(error))
      count += read_file(entry->path() / "environ").find(temporary().string()) != std::string::npos;
    return count;
  }

 private:
  fs::path folder_;
  std::map<std::string, std::string> settings_;
};

/// Totals of serve_products' output.
struct Served {
  std::int64_t right = 0, wrong = 0;
  std::map<std::string, std::int64_t> errors;
  void add(const Json& json) {
    right += json.at("right").get<std::int64_t>(), wrong += json.at("wrong").get<std::int64_t>();
    for (const auto& [kind, error] : json.at("errors").items())
      errors[kind] += error.at("count").get<std::int64_t>();
  }
  std::string text() const {
    std::string text = std::to_string(right) + " right, " + std::to_string(wrong) + " wrong";
    for (const auto& [kind, count] : errors)
      text += ", " + std::to_string(count) + " errors of kind " + kind;
    return text;
  }
};

}  // namespace tilewise::proof
