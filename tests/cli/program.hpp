#pragma once
#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

/// Runs the real program. Each test has its own folder for the database, the home directory and all
/// files.
#include "tests/support/argv.hpp"

namespace cli_test {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

struct Result {
  int status = -1;
  std::string out, err;

  Json json() const {
    const Json parsed = Json::parse(out, nullptr, false);
    EXPECT_FALSE(parsed.is_discarded()) << "stdout is not one JSON document:\n" << out;
    return parsed;
  }
};

class ProgramTest : public testing::Test {
 protected:
  ProgramTest() {
    std::string pattern = (fs::temp_directory_path() / "autotune-test-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    variables_ = {{"PATH", "/usr/bin:/bin"},
                  {"HOME", folder_.string()},
                  {"TILEWISE_DB", database().string()},
                  {"LC_ALL", "C"}};
    for (const char* name : {"LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH", "TILEWISE_NVRTC",
                             "CUDA_VISIBLE_DEVICES", "VIRTUAL_ENV"})
      if (const char* value = std::getenv(name)) variables_[name] = value;
  }
  ~ProgramTest() override {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }

  fs::path database() const { return folder_ / "test.db"; }
  fs::path file(const std::string& name) const { return folder_ / name; }
  void set(const std::string& name, const std::string& value) { variables_[name] = value; }
  void unset(const std::string& name) { variables_.erase(name); }
  const std::map<std::string, std::string>& settings() const { return variables_; }
  void hide_gpus() { set("CUDA_VISIBLE_DEVICES", ""); }

  void write(const fs::path& path, const std::string& text) const {
    std::ofstream(path, std::ios::binary) << text;
  }
  std::string read(const fs::path& path) const {
    std::ifstream stream(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  /// Starts the program. stdin is `input`, which may be missing; stderr is `errors`, or a file if
  /// it is empty.
  pid_t start(const std::vector<std::string>& arguments, const fs::path& input,
              const fs::path& errors = {}) const {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, input.c_str(), O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, file("stdout").c_str(),
                                     O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_addopen(&actions, 2,
                                     (errors.empty() ? file("stderr") : errors).c_str(),
                                     O_WRONLY | O_CREAT | O_TRUNC | O_NOCTTY, 0600);
    std::vector<std::string> words{program_}, settings;
    words.insert(words.end(), arguments.begin(), arguments.end());
    for (const auto& [name, value] : variables_) settings.push_back(name + "=" + value);
    // Signals that the tests themselves ignore (nohup, a background job) are not ignored by the
    // program.
    sigset_t ordinary;
    sigemptyset(&ordinary);
    for (const int signal : {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGPIPE, SIGCHLD})
      sigaddset(&ordinary, signal);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigdefault(&attributes, &ordinary);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    pid_t pid = -1;
    const int error = posix_spawn(&pid, program_.c_str(), &actions, &attributes,
                                  tilewise::test::argv_of(words).data(),
                                  tilewise::test::argv_of(settings).data());
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    // Never returns -1, which kill() would apply to every process.
    if (error != 0) throw std::runtime_error("cannot start " + program_);
    return pid;
  }

  Result finish(pid_t pid) const {
    int status = 0;
    waitpid(pid, &status, 0);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), read(file("stdout")),
            read(file("stderr"))};
  }

  Result run(const std::vector<std::string>& arguments, const fs::path& input = "/dev/null") const {
    return finish(start(arguments, input));
  }

  /// The same. If a budget is too short for this machine (status 6: it found nothing valid),
  /// repeats with a longer budget and an empty database.
  Result run_with_budget(std::vector<std::string> arguments) const {
    arguments.insert(arguments.end(), {"--budget", ""});
    Result result;
    for (const char* budget : {"5s", "30s", "180s", "1080s"}) {
      fs::remove(database());
      arguments.back() = budget;
      result = run(arguments);
      if (result.status != 6) break;
    }
    return result;
  }

  /// The same for another program.
  Result run_program(const std::string& program, const std::vector<std::string>& arguments) {
    program_ = program;
    const Result result = run(arguments);
    program_ = TILEWISE_AUTOTUNE;
    return result;
  }

  /// The output of lines of bash, including standard error. $AUTOTUNE is the program.
  std::string bash(const std::string& lines) {
    write(file("script"), "exec 2>&1\nexport AUTOTUNE=" TILEWISE_AUTOTUNE "\n" + lines + "\n");
    const Result result = run_program("/bin/bash", {file("script").string()});
    EXPECT_EQ(result.status, 0) << result.out;
    return result.out;
  }

  /// The same with stderr on a terminal of `columns` columns (0: not known). Status -1 without
  /// terminals. `while_reading`: called with the terminal and the text so far.
  Result run_on_terminal(
      const std::vector<std::string>& arguments, int columns = 0,
      const std::function<void(int terminal, const std::string& text)>& while_reading = {}) const {
    const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
    if (terminal < 0 || grantpt(terminal) != 0 || unlockpt(terminal) != 0) return {};
    resize(terminal, columns);
    const std::string name = ptsname(terminal);
    const int kept_open = open(name.c_str(), O_RDWR | O_NOCTTY);  // until the program has opened it
    const pid_t pid = start(arguments, "/dev/null", name);
    close(kept_open);
    std::string text(4096, ' '), errors;
    for (ssize_t n; (n = read_some(terminal, text)) > 0;) {
      errors.append(text, 0, static_cast<std::size_t>(n));
      if (while_reading) while_reading(terminal, errors);
    }
    close(terminal);
    Result result = finish(pid);
    result.err = errors;
    return result;
  }
  static void resize(int terminal, int columns) {
    winsize size{};
    size.ws_col = static_cast<unsigned short>(columns);
    size.ws_row = columns > 0 ? 24 : 0;
    ioctl(terminal, TIOCSWINSZ, &size);
  }

 private:
  static ssize_t read_some(int file, std::string& text) {
    return ::read(file, text.data(), text.size());
  }

  std::string program_ = TILEWISE_AUTOTUNE;
  fs::path folder_;
  std::map<std::string, std::string> variables_;
};

/// The length of the longest line, in characters.
inline std::size_t widest_line(const std::string& text) {
  std::size_t widest = 0, start = 0;
  for (std::size_t end; (end = text.find('\n', start)) != std::string::npos; start = end + 1)
    widest = std::max(widest, end - start);
  return widest;
}

}  // namespace cli_test
