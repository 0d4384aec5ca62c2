#include "bench/serve/run_filled.hpp"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "bench/serve/table.hpp"
#include "device/cpu/files.hpp"
#include "device/machines.hpp"
#include "tilewise/error.hpp"
#include "tilewise/matmul.hpp"

namespace tilewise::bench {
namespace {

namespace fs = std::filesystem;

/// Copies a database and its log, if it has one. No process may write to it meanwhile.
void copy_database(const fs::path& from, const fs::path& to) {
  for (const char* part : {"", "-wal"})
    if (const fs::path file = from.string() + part; fs::exists(file))
      fs::copy_file(file, to.string() + part);
}

void fill_and_prepare(const fs::path& database, const std::string& device, const Problem& problem,
                      std::int64_t records) {
  const auto begin = std::chrono::steady_clock::now();
  Filled filled;
  {
    Database copy = Database::open(database);
    filled = fill(copy, open_device(device)->info(), problem, records);
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  std::fprintf(stderr, "serve: %lld records and %lld winners were added in %.1f s\n",
               static_cast<long long>(filled.records), static_cast<long long>(filled.winners),
               seconds.count());
  MatmulOptions options;
  options.device = device;
  options.database = database;
  Matmul(options).prepare(problem);
}

int run_self(std::vector<std::string> words) {
  std::vector<char*> list;
  for (std::string& word : words) list.push_back(word.data());
  list.push_back(nullptr);
  pid_t program = -1;
  const int failed =
      posix_spawn(&program, "/proc/self/exe", nullptr, nullptr, list.data(), environ);
  if (failed != 0)
    throw Error(ErrorKind::io,
                std::string("cannot start /proc/self/exe: ") + std::strerror(failed));
  int status = 0;
  while (waitpid(program, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

}  // namespace

int run_filled(const std::string& database, const std::string& device, const Problem& problem,
               std::int64_t records,
               const std::function<std::vector<std::string>(const std::string&)>& words) {
  const cpu::TemporaryFolder folder;
  const fs::path copy = folder.path() / "serve.db";
  copy_database(default_database_path(database), copy);
  fill_and_prepare(copy, device, problem, records);
  return run_self(words(copy.string()));
}

}  // namespace tilewise::bench
