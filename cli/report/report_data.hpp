#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/common/order_price.hpp"
#include "db/database.hpp"
#include "templates/kernel_template.hpp"
#include "tuner/certainty.hpp"
#include "vocabulary/device_info.hpp"

/// Data of a database for the page of `autotune report`.
namespace tilewise::cli {

/// A candidate of a problem, with facts of its plan.
struct ReportCandidate {
  Record record;
  std::int64_t place = 0;     ///< 1 for the first committed record of the problem
  int search = -1;            ///< index into ReportProblem::searches; -1: in none
  double seconds = -1;        ///< since the start of the search; -1: not known
  double flops_per_byte = 0;  ///< based on requested bytes of global memory; 0: not known
  int shared_bytes = 0;       ///< static and dynamic; 0 where there is no plan
  int resident_blocks = 0;    ///< per multiprocessor; 0: not known
  double occupancy = 0;       ///< resident warps over a multiprocessor's maximum; 0: not known
  std::string occupancy_limit = {};
  std::optional<Plan> plan = {};      ///< only for the winner
  std::vector<TileLevel> tiles = {};  ///< only for the winner
};

/// A bound of a roofline: FLOP/s of a unit, or bytes/s of a memory.
struct Roof {
  std::string name;
  double rate = 0;
};

/// Rejected candidates with one reason; # replaces numbers in the reason.
struct Rejection {
  Outcome outcome = Outcome::ok;
  std::string kernel_template, reason;
  std::string example;  ///< the whole message of one candidate
  std::int64_t count = 0;
};

/// One problem on one GPU.
struct ReportProblem {
  std::string gpu;
  Problem problem;
  std::int64_t records = 0, rejected = 0;         ///< of the whole problem
  std::vector<ReportCandidate> candidates;        ///< the ones on the page, by place
  std::optional<std::size_t> winner;              ///< index into candidates
  std::optional<Certainty> certainty;             ///< that the winner is the fastest of its race
  std::string quarantined;                        ///< why the winner is not served; or empty
  Objective objective = Objective::time;          ///< criterion that chose the winner
  std::vector<Search> searches;                   ///< by end
  std::vector<Baseline> baselines;                ///< fastest first
  std::vector<Rejection> rejections;              ///< the most frequent first
  std::int64_t other_rejections = 0;              ///< candidates with further reasons
  std::vector<Roof> compute_roofs, memory_roofs;  ///< empty where the GPU's facts are not known
  std::vector<OrderPrice> prices;  ///< of the problem's order, at all sizes of its n and k
  std::string limit;  ///< the winner's limit by the cost model; empty without an estimate
};

/// A GPU on the page.
struct ReportGpu {
  std::string key;
  std::optional<DeviceInfo> info;    ///< stored_device()
  std::optional<DeviceFacts> facts;  ///< empty: not stored
};

/// Limits on the contents of one page.
struct ReportLimits {
  std::size_t problems = 3'000;
  std::size_t candidates_of_a_problem = 5'000;
  std::size_t candidates = 100'000;  ///< total of all problems
};

/// The most candidates that each problem may show within the limits. `counts` has the number of
/// records of each problem.
std::size_t candidates_each(const std::vector<std::int64_t>& counts, const ReportLimits& limits);

/// The device of a GPU key, with its stored facts. Without stored facts, clocks, bus, memory and L2
/// are 0. Empty for keys of other versions.
std::optional<DeviceInfo> stored_device(const Database& database, const std::string& gpu);

/// Reads one problem, measured on `device`. More than `most` candidates are thinned: the winner,
/// the 100 fastest, every improvement of a search and an even share of the rest stay.
ReportProblem read_problem_for_report(const Database& database,
                                      const Database::StoredProblem& stored,
                                      const std::optional<Winner>& winner, std::size_t most,
                                      const std::optional<DeviceInfo>& device);

/// Seconds since 1970 of "2026-01-31T12:00:00Z"; -1 for other text.
double seconds_of_date(const std::string& date);

/// The least time that the roofs allow (us); 0 where they are not known.
double roof_us(const ReportProblem& problem);

}  // namespace tilewise::cli
