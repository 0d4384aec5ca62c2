#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "db/database.hpp"
#include "tilewise/error.hpp"

// Values and helpers for the tests of db/.
namespace tilewise::samples {

inline const std::string kGpu = "NVIDIA H200|9.0|132";

/// A folder that is removed at the end of the test.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "tilewise_db_XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("no temporary folder: " + name);
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline Problem problem(std::int64_t size = 1024) {
  Problem p;
  p.m = p.n = p.k = size;
  return p;
}

/// A problem whose fields all differ from their defaults and from each other.
inline Problem odd_problem() {
  Problem p;
  set_layout(p, Layout::tn);
  p.m = 1;
  p.n = std::int64_t{1} << 40;
  p.k = 0;
  p.batch = 7;
  set_alignment(p, {4, 8, 2});
  return p;
}

inline Measurement measurement(double median_us = 12.5) {
  Measurement m;
  m.median_us = median_us;
  m.spread = 0.01;
  m.samples = 3;
  m.launches_per_sample = 20;
  m.samples_us = {median_us, 1.0 / 3.0, 1e-300};
  m.cold = false;
  m.method = "graph";
  m.sm_clock_mhz = 1980.5;
  m.power_w = 612.25;
  m.host_us = 3.125;
  return m;
}

inline Environment environment(const std::string& date = "2025-06-01T12:00:00Z") {
  return {"580.159", "NVRTC 13.0", "host \xc3\xa9", date};
}

/// An ok record with TILE_M = `tile`.
inline Record record(int tile = 64, double median_us = 12.5, std::int64_t size = 1024) {
  Record r;
  r.problem = problem(size);
  r.candidate = {"simt", {{"TILE_M", tile}, {"TILE_K", 8}, {"UNROLL", -1}}};
  r.gpu = kGpu;
  r.source_hash = "abc123";
  r.launch_revision = "simt.1 plan.1";
  r.measurement = measurement(median_us);
  r.usage = {168, 16, 1024, 32};
  r.compile_ms = 312.5;
  r.error_ratio = 0.25;
  r.normwise_error = 1e-7;
  r.predicted_us = 11.0;
  r.environment = environment();
  return r;
}

inline Record rejected(int tile, Outcome outcome, const std::string& detail) {
  Record r = record(tile);
  r.outcome = outcome;
  r.detail = detail;
  r.measurement.reset();
  return r;
}

inline Baseline baseline(const std::string& variant = "default", double median_us = 10) {
  return {problem(), kGpu, "cuBLAS", "13.1.0", variant, measurement(median_us), environment()};
}

inline KernelSpec kernel(int tile = 64) {
  return {"simt.cu", "simt", {{"TILE_K", 8}, {"TILE_M", tile}, {"UNROLL", -1}}};
}

inline Image image(int tile = 64, std::size_t bytes = 300) {
  Image i;
  i.kernel = kernel(tile);
  i.target = {9, 0, true};
  i.source_hash = "abc123";
  i.launch_revision = "simt.1 plan.1";
  for (std::size_t at = 0; at < bytes; ++at) i.binary.push_back(static_cast<std::uint8_t>(at * 7));
  i.log = "ptxas info: used 168 registers\n\"quoted\"";
  i.usage = {168, 16, 1024, 32};
  i.compile_ms = 312.5;
  return i;
}

inline Search search() {
  Search s;
  s.problem = problem();
  s.gpu = kGpu;
  s.strategy = "local";
  s.seed = 0xffff'ffff'ffff'fff0u;
  s.space = "space-hash";
  s.budget_seconds = 60.5;
  s.max_evaluations = 1000;
  s.evaluations = 77;
  s.seconds = 12.25;
  s.date = "2025-06-01T12:00:00Z";
  return s;
}

/// The message of the Error(kind) that `body` throws; if it throws none, the test fails.
template <class Body>
std::string error_of(ErrorKind kind, Body body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(to_string(error.kind()), std::string(to_string(kind))) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

/// Runs `body`, which returns an exit status, in a child process.
template <class Body>
pid_t start(Body body) {
  const pid_t child = fork();
  if (child != 0) return child;
  int status = 99;
  try {
    status = body();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "child: %s\n", error.what());
  }
  _exit(status);
}

/// The child's exit status, or minus the signal that ended it.
inline int finish(pid_t child) {
  int status = 0;
  if (waitpid(child, &status, 0) != child) return -1000;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

template <class Body>
int in_child(Body body) {
  return finish(start(body));
}

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void write_file(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

}  // namespace tilewise::samples
