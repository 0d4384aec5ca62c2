#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "templates/space/search_space.hpp"

namespace tilewise {

/// Configurations with measured times: strategies are replayed on it without a GPU.
struct RecordedSpace {
  std::string name;  ///< of what was measured: "nn 1024x1024x1024 on NVIDIA H200", a kernel's name
  std::vector<KernelTemplate> templates;
  /// Of every configuration in microseconds; empty where it failed.
  std::map<Candidate, std::optional<double>> times;

  double best() const;          ///< the least time; infinity where every configuration failed
  std::int64_t failed() const;  ///< configurations without a time
  SearchSpace space() const;    ///< uses `templates`, which must outlive it
  /// The same configurations, the values of every parameter listed in a random order.
  void shuffle_values(std::uint64_t seed);
};

/// A table of configurations as text: the common form of the files below.
struct RecordedTable {
  struct Row {
    std::vector<std::string> values;  ///< one for each parameter
    std::optional<double> microseconds;
  };
  std::string name;  ///< of the template
  std::vector<std::string> parameters;
  std::vector<Row> rows;  ///< where a configuration is repeated, the last row counts
};

/// A template for the rows, and their times, are added to `space`. Whole numbers and true/false
/// keep their value; other numbers become their rank; other texts become labels, in their order.
/// Throws Error(invalid_argument) for a row of another length.
void add_table(RecordedSpace& space, const RecordedTable& table);

/// Reads a file's text: CSV, Kernel Tuner's cache, results in the T4 form, or an export of
/// Tilewise. An export has a space for each GPU and problem that has two timed candidates or more,
/// the largest first; the others have one. `name` is the file's. Times of T4 are its objective
/// where that is a time, else the mean of the runtimes. A value of 1e20 or more (Kernel Tuner's
/// mark), NaN and Infinity are failures. Throws Error(invalid_argument), which says what is
/// missing.
std::vector<RecordedSpace> read_recorded(std::string_view text, const std::string& name);

/// The table of a file of another tuner: Kernel Tuner's cache, or results in the T4 form. Throws
/// Error(invalid_argument), for other files too.
RecordedTable read_foreign(std::string_view text, const std::string& name);

}  // namespace tilewise
