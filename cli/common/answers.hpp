#pragma once
#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/common/gpus.hpp"
#include "cli/common/inputs.hpp"
#include "db/database.hpp"
#include "matmul/resolution.hpp"

/// Finds the stored record that would serve a product, for query, source and explain.
namespace tilewise::cli {

/// The GPU of an answer: its key and its facts. The facts are the stored ones when the GPU is
/// absent; a listing needs none.
struct Subject {
  std::string key;
  DeviceInfo info;
  bool typical = false;  ///< `info` is that of a typical GPU of its capability
};

/// Options of subcommands that answer for products: --device, --gpu, the problems, --db.
struct AnswerOptions {
  ProblemOptions problems;
  std::string device;
  std::string gpu;
  std::string database;
  std::string nvrtc;
};
/// Adds --device and --gpu, which exclude each other.
void add_subject_options(CLI::App& app, AnswerOptions& options);

/// The GPUs in `gpus` when --device chose them, otherwise the stored ones that --gpu selects.
std::vector<Subject> subjects_of(const AnswerOptions& options, const std::vector<Gpu>& gpus,
                                 const std::optional<Database>& database, bool with_facts);

struct Answer {
  Subject subject;
  Problem problem;
  Resolution resolution;
};
/// The record that serves each problem on each subject. `stale` marks measurements of other sources
/// or compilers, which loads the compiler.
std::vector<Answer> answers_for(const std::optional<Database>& database,
                                const std::vector<Subject>& subjects, const AnswerOptions& options,
                                bool stale);

}  // namespace tilewise::cli
