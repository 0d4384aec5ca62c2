#pragma once
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>

#include "db/sqlite.hpp"
#include "vocabulary/record.hpp"

// Values of several tables, to and from columns. The read_ functions take the columns named here,
// in this order, and throw Error(invalid_argument) for an unknown name.
namespace tilewise {

/// Of the table `problems` AS p.
inline const std::string kProblemColumns =
    "p.layout, p.m, p.n, p.k, p.a_type, p.b_type, p.c_type, p.accumulator, p.math, p.batch, "
    "p.align_a, p.align_b, p.align_c";
Problem read_problem(Query& row);
/// The problem's id; adds the row when absent.
std::int64_t put_problem(const Connection& connection, const Problem& problem);
std::optional<std::int64_t> find_problem(const Connection& connection, const Problem& problem);

/// Of the table `environments` AS e. The date is a column of the referring row.
inline const std::string kEnvironmentColumns = "e.driver, e.compiler, e.host";
Environment read_environment(Query& row);
std::int64_t put_environment(const Connection& connection, const Environment& environment);

/// Columns of records and baselines.
inline const std::string kMeasurementColumns =
    "samples, median_us, spread, launches_per_sample, samples_us, cold, method, sm_clock_mhz, "
    "power_w, host_us, energy_mj, power_limit_w";
std::optional<Measurement> read_measurement(Query& row);
void bind_measurement(Query& query, const std::optional<Measurement>& measurement);

/// Columns of records and images.
inline const std::string kUsageColumns = "registers, spill_bytes, static_shared_bytes, stack_bytes";
ResourceUsage read_usage(Query& row);
void bind_usage(Query& query, const ResourceUsage& usage);

/// "INSERT INTO table (keys, values) VALUES (?, ...)", replacing `values` where `keys` (the table's
/// unique key) exist. Both are comma-separated lists of columns.
std::string upsert(const std::string& table, const std::string& keys, const std::string& values);

/// The time now as ISO 8601 in UTC: "2025-06-01T12:34:56Z".
std::string utc_now();

}  // namespace tilewise
