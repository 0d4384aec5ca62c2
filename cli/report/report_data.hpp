#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "db/database.hpp"
#include "templates/kernel_template.hpp"
#include "tuner/certainty.hpp"
#include "vocabulary/device_info.hpp"

/// What the page of `autotune report` shows of a database.
namespace tilewise::cli {

/// A candidate of a problem, and what its plan says.
struct ReportCandidate {
  Record record;
  std::int64_t place = 0;     ///< 1 for the first record of the problem, in the order of commits
  int search = -1;            ///< index into ReportProblem::searches; -1: within none
  double seconds = -1;        ///< since the search's start; -1: not known
  double flops_per_byte = 0;  ///< over the bytes requested from global memory; 0: not known
  int shared_bytes = 0;       ///< static and dynamic; 0 where there is no plan
  int resident_blocks = 0;    ///< on a multiprocessor; 0: not known
  double occupancy = 0;       ///< warps over the most that a multiprocessor holds; 0: not known
  std::string occupancy_limit = {};
  std::optional<Plan> plan = {};      ///< of the winner alone
  std::vector<TileLevel> tiles = {};  ///< of the winner alone
};

/// A bound of a roofline: FLOP/s of a unit, or bytes/s of a memory.
struct Roof {
  std::string name;
  double rate = 0;
};

/// Rejected candidates with one reason, in which numbers are written as #.
struct Rejection {
  Outcome outcome = Outcome::ok;
  std::string kernel_template, reason;
  std::string example;  ///< the whole message of one of them
  std::int64_t count = 0;
};

/// One problem on one GPU.
struct ReportProblem {
  std::string gpu;
  Problem problem;
  std::int64_t records = 0, rejected = 0;         ///< all of them
  std::vector<ReportCandidate> candidates;        ///< by place; those that the page shows
  std::optional<std::size_t> winner;              ///< index into candidates
  std::optional<Certainty> certainty;             ///< that the winner is the fastest of its race
  std::string quarantined;                        ///< why the winner is not served; empty: it is
  Objective objective = Objective::time;          ///< what the winner was chosen by
  std::vector<Search> searches;                   ///< by their end
  std::vector<Baseline> baselines;                ///< fastest first
  std::vector<Rejection> rejections;              ///< the most frequent first
  std::int64_t other_rejections = 0;              ///< candidates of further reasons
  std::vector<Roof> compute_roofs, memory_roofs;  ///< empty where the GPU's facts are not known
  std::string limit;  ///< of the winner by the cost model; empty where there is no estimate
};

/// A GPU of the page.
struct ReportGpu {
  std::string key;
  std::optional<DeviceInfo> info;    ///< stored_device()
  std::optional<DeviceFacts> facts;  ///< empty: not stored
};

/// Bounds on what one page holds.
struct ReportLimits {
  std::size_t problems = 3'000;
  std::size_t candidates_of_a_problem = 5'000;
  std::size_t candidates = 100'000;  ///< of all problems
};

/// Of `counts` records each, how many a problem may show so that all together are within the
/// limits.
std::size_t candidates_each(const std::vector<std::int64_t>& counts, const ReportLimits& limits);

/// The device of a GPU key, with the facts that are stored of it: without them its clocks, bus,
/// memory and L2 are 0. Empty for keys of other versions.
std::optional<DeviceInfo> stored_device(const Database& database, const std::string& gpu);

/// Reads one problem, measured on `device`. More than `most` candidates are thinned: the winner,
/// the 100 fastest and every improvement of a search stay, and of the others an even share.
ReportProblem read_problem_for_report(const Database& database,
                                      const Database::StoredProblem& stored,
                                      const std::optional<Winner>& winner, std::size_t most,
                                      const std::optional<DeviceInfo>& device);

/// Seconds since 1970 of "2026-01-31T12:00:00Z"; -1 for another text.
double seconds_of_date(const std::string& date);

/// The least time that the roofs allow (us); 0 where they are not known.
double roof_us(const ReportProblem& problem);

}  // namespace tilewise::cli
