#pragma once
#include <filesystem>
#include <string>

#include "api/matmul_parts.hpp"
#include "db/database.hpp"
#include "tilewise/problem.hpp"
#include "vocabulary/device_info.hpp"

namespace tilewise {

/// The program `autotune` as a child process, for OnMiss::tune: a candidate that faults ends that
/// process, not the caller's. Immutable; thread-safe.
class TuningProgram {
 public:
  struct Settings {
    std::filesystem::path program;  ///< empty: see find_autotune()
    double seconds = 10;            ///< budget of a search
    std::filesystem::path database;
    Trust trust = Trust::owner;
    std::string nvrtc;
    /// Seconds that a search may take in addition to four budgets before it is ended. The context,
    /// the reference and the race of the finalists are outside of the budget.
    double beside_seconds = 300;
  };
  /// Throws Error(invalid_argument) for a budget of 0 or less, and Error(not_found) if the program
  /// is missing.
  explicit TuningProgram(Settings settings);

  /// Tunes a problem and waits. Returns "", or the reason for a failure: how the program ended and
  /// its last line. Throws no errors of its own.
  std::string operator()(const Problem& problem, const DeviceInfo& device) const;

 private:
  Settings settings_;
};

/// The path of `autotune`. `named`: its path; it is not checked. Empty: the program next to this
/// library (in its folder, or in `bin` of its installation), otherwise the one on PATH. The result
/// is absolute. A program that distrust() refuses, by itself or for its folder, is skipped unless
/// `trust` is Trust::anyone. Throws Error(not_found) with the places searched and these reasons.
std::filesystem::path find_autotune(const std::filesystem::path& named, Trust trust);

/// Adds the parts for OnMiss::tune: the program, and a database, which is created if there is none.
/// If it cannot be created, a note is added and nothing is tuned. Throws as TuningProgram does.
void add_tuning(MatmulParts& parts, const MatmulOptions& options,
                const std::filesystem::path& database, Trust trust);

}  // namespace tilewise
