#pragma once
#include <filesystem>
#include <string>

#include "api/matmul_parts.hpp"
#include "db/database.hpp"
#include "tilewise/problem.hpp"
#include "vocabulary/device_info.hpp"

namespace tilewise {

/// The program `autotune` as a child process, for OnMiss::tune: a candidate that faults ends a
/// process that is not the caller's. Immutable; thread-safe.
class TuningProgram {
 public:
  struct Settings {
    std::filesystem::path program;  ///< empty: see find_autotune()
    double seconds = 10;            ///< budget of a search
    std::filesystem::path database;
    Trust trust = Trust::owner;
    std::string nvrtc;
    /// How much longer than four budgets a search may take before it is ended. The context, the
    /// reference and the race of the finalists are outside of the budget.
    double beside_seconds = 300;
  };
  /// Throws Error(invalid_argument) for a budget that is not above 0, and Error(not_found) without
  /// the program.
  explicit TuningProgram(Settings settings);

  /// Tunes a problem and waits. Returns "", or why it failed: the end of the program and the last
  /// line that it wrote. Throws nothing of its own.
  std::string operator()(const Problem& problem, const DeviceInfo& device) const;

 private:
  Settings settings_;
};

/// The program that tunes. `named`: its path. Empty: the one beside this library (in its folder, or
/// in `bin` of its installation), else the one on PATH. Absolute. Where distrust() has a reason
/// against it or its folder, it is skipped unless `trust` is Trust::anyone; a named one is not
/// checked. Throws Error(not_found) with the places searched and those reasons.
std::filesystem::path find_autotune(const std::filesystem::path& named, Trust trust);

/// The parts of OnMiss::tune: the program, and a database, which is made where there is none. A
/// database that cannot be made is a note, and nothing is tuned. Throws as TuningProgram does.
void add_tuning(MatmulParts& parts, const MatmulOptions& options,
                const std::filesystem::path& database, Trust trust);

}  // namespace tilewise
