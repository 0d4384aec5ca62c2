#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "templates/space/search_space.hpp"

namespace tilewise {

/// Configurations with measured times, for replaying strategies without a GPU.
struct RecordedSpace {
  std::string name;  ///< "nn 1024x1024x1024 on NVIDIA H200", or a kernel's name
  std::vector<KernelTemplate> templates;
  /// Microseconds of every configuration; empty where it failed.
  std::map<Candidate, std::optional<double>> times;

  double best() const;          ///< the least time; infinity where every configuration failed
  std::int64_t failed() const;  ///< configurations without a time
  SearchSpace space() const;    ///< uses `templates`, which must outlive it
  /// Shuffles the order of each parameter's values.
  void shuffle_values(std::uint64_t seed);
};

/// A table of configurations as text: the common form of the file formats below.
struct RecordedTable {
  struct Row {
    std::vector<std::string> values;  ///< one for each parameter
    std::optional<double> microseconds;
  };
  std::string name;  ///< of the template
  std::vector<std::string> parameters;
  std::vector<Row> rows;  ///< the last row of a repeated configuration counts
};

/// Adds a template for the rows, and their times, to `space`. Whole numbers and true/false keep
/// their value; other numbers become their rank; other texts become labels in their order. Throws
/// Error(invalid_argument) for a row of another length.
void add_table(RecordedSpace& space, const RecordedTable& table);

/// Reads a file's text: CSV, Kernel Tuner's cache, results in the T4 format, or an export of
/// Tilewise. An export has a space for each GPU and problem with at least two timed candidates, the
/// largest first; other files have one space. `name` is the file's name. T4 times are the objective
/// if that is a time, otherwise the mean of the runtimes. Values of 1e20 or more (Kernel Tuner's
/// mark), NaN and Infinity are failures. Throws Error(invalid_argument) that names the missing
/// part.
std::vector<RecordedSpace> read_recorded(std::string_view text, const std::string& name);

/// The table of another tuner's file: Kernel Tuner's cache, or results in the T4 format. Throws
/// Error(invalid_argument), also for other files.
RecordedTable read_foreign(std::string_view text, const std::string& name);

}  // namespace tilewise
