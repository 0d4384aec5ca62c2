#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tilewise/problem.hpp"
#include "vocabulary/configuration.hpp"
#include "vocabulary/image.hpp"
#include "vocabulary/objective.hpp"

namespace tilewise {

/// A candidate's result. A rejected candidate is data, not an exception.
enum class Outcome : std::uint8_t { ok, compile_error, launch_error, wrong_result, timeout };
std::string_view to_string(Outcome outcome);
/// Throws Error(invalid_argument).
Outcome parse_outcome(std::string_view name);

/// A record's source. Only a record measured here may displace one measured here.
enum class Origin : std::uint8_t { measured, imported, shipped };
std::string_view to_string(Origin origin);
/// Throws Error(invalid_argument).
Origin parse_origin(std::string_view name);

/// The method of a measurement from a race: samples are its rounds.
inline constexpr std::string_view kRaceMethod = "graph, race";

/// Times of one candidate: GPU time per product, in microseconds.
struct Measurement {
  double median_us = 0;
  double spread = 0;  ///< relative: half the interquartile range over the median
  int samples = 0;    ///< timed groups
  int launches_per_sample = 0;
  std::vector<double> samples_us;  ///< the first 32 samples at most
  bool cold = true;                ///< operands read from DRAM (buffers rotated past twice the L2)
  std::string method;        ///< "graph": a CUDA graph of launches between two events; kRaceMethod
  double sm_clock_mhz = 0;   ///< 0 when not known
  double power_w = 0;        ///< 0 when not known
  double host_us = 0;        ///< host time per enqueued launch; 0 when not measured
  double energy_mj = 0;      ///< energy per product, idle power included; 0 when not measured
  double power_limit_w = 0;  ///< the power limit in force; 0 when not known
  bool operator==(const Measurement&) const = default;
};

/// The machine's state at the time of a record; not part of the key.
struct Environment {
  std::string driver;    ///< "580.159" or CUDA driver API version "13.0"
  std::string compiler;  ///< "NVRTC 13.0"
  std::string host;
  std::string date;  ///< ISO 8601, UTC
  bool operator==(const Environment&) const = default;
};

/// problem + candidate + outcome + measurement + environment.
struct Record {
  std::int64_t id = 0;  ///< assigned by the database
  Problem problem;
  Candidate candidate;
  std::string gpu;  ///< gpu_key()
  std::string source_hash;
  std::string launch_revision;
  /// Hash of the measured machine code of all steps; empty when not known. A measurement is current
  /// while its kernels compile to this code, even from other source text.
  std::string code_hash;
  Origin origin = Origin::measured;
  Outcome outcome = Outcome::ok;
  std::string detail;  ///< the rejection: compiler's or driver's message, or worst element
  std::optional<Measurement> measurement;
  ResourceUsage usage;
  double compile_ms = 0;
  double error_ratio = 0;     ///< largest |got - ref| over its bound, at most 1 for ok
  double normwise_error = 0;  ///< ||got - ref|| / ||ref||
  double predicted_us = 0;    ///< from the cost model; 0 without it
  Environment environment;
  bool operator==(const Record&) const = default;
};

/// A time of another library for the same problem in the same run.
struct Baseline {
  Problem problem;
  std::string gpu;
  std::string library;  ///< "cuBLAS"
  std::string version;  ///< "13.1.0"
  std::string variant;  ///< "default", "lt_best"
  Measurement measurement;
  Environment environment;
  bool operator==(const Baseline&) const = default;
};

/// The order of sums that is kept for invariant products (set_invariant()) on a GPU model.
struct KeptOrder {
  Problem problem;  ///< order_key()
  std::string gpu;
  std::string sum_order;  ///< to_string() of a SumOrder
  std::string date;       ///< of the choice; ISO 8601 UTC
  bool operator==(const KeptOrder&) const = default;
};

/// A search. Repeating a finished search does nothing.
struct Search {
  std::int64_t id = 0;
  Problem problem;
  std::string gpu;
  std::string strategy;  ///< "local"
  std::uint64_t seed = 0;
  std::string space;    ///< hash of the templates and parameters searched
  std::string sources;  ///< hash of the kernel sources and the compiler
  Objective objective = Objective::time;
  double budget_seconds = 0;
  std::int64_t max_evaluations = 0;  ///< 0 = no limit
  bool finished = false;
  std::int64_t evaluations = 0;
  double seconds = 0;
  std::string date;
};

/// The shortest median time in us; 0 without one.
double fastest_us(const std::vector<Baseline>& baselines);

/// Energy per product in millijoules, from one reading of the power and the median time; 0 when the
/// power is not known. Coarser than energy_mj: the reading may be the mean of a second.
double estimated_energy_mj(const Measurement& measurement);

/// TFLOP/s of a median time for a problem.
double tflops_of(const Problem& problem, double microseconds);

// JSON forms: one object each, with the fields' names as keys; enums by name, without binaries. A
// Problem is {"layout":"nn","m":..,"n":..,"k":..,"dtype":"f32","math":"strict","batch":1,
// "align":[16,16,16]}, a Candidate {"kernel_template":"simt","configuration":{..}}; a Record has
// them as the values of "problem" and "candidate". Doubles keep every bit; NaN and infinity are the
// strings "nan", "inf", "-inf". The interface is text: no header needs a JSON library. The from_
// functions throw Error(invalid_argument) on bad input, ignore unknown keys, and leave the default
// of an absent optional key. Text whose brackets nest deeper than kMostJsonDepth is refused
// unparsed.
inline constexpr int kMostJsonDepth = 32;
/// Whether brackets outside of strings nest deeper than `most`.
bool nests_deeper(std::string_view json, int most = kMostJsonDepth);
std::string to_json(const Problem& problem);
std::string to_json(const Candidate& candidate);
std::string to_json(const Measurement& measurement);
std::string to_json(const Environment& environment);
std::string to_json(const Record& record);
std::string to_json(const Baseline& baseline);
std::string to_json(const Search& search);
std::string to_json(const KeptOrder& order);
std::string to_json(const DeviceInfo& info);
std::string to_json(const Plan& plan);
Problem problem_from_json(std::string_view text);
Plan plan_from_json(std::string_view text);
Measurement measurement_from_json(std::string_view text);
Record record_from_json(std::string_view text);
Baseline baseline_from_json(std::string_view text);
KeptOrder kept_order_from_json(std::string_view text);
DeviceInfo device_info_from_json(std::string_view text);

/// Whether the candidate was timed and may be served: outcome ok and a time above 0.
bool is_ok(const Record& record);
/// The median in microseconds; infinity when the record is not ok.
double time_of(const Record& record);
/// Compares by time_of().
bool faster(const Record& x, const Record& y);

}  // namespace tilewise
