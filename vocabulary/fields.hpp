#pragma once
#include <concepts>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

#include "vocabulary/device_facts.hpp"
#include "vocabulary/problem.hpp"
#include "vocabulary/record.hpp"

// The fields of each struct, in one list for all uses: a visitor is called with a name, the field
// and its allowed values. The visitors are the JSON forms (json.cpp), and the columns, hashes and
// checks of the database (db/columns.hpp, db/row_hash.hpp, db/import_checks.hpp).
namespace tilewise {

/// The version of the database's schema. Raise it with every added table and every added field of a
/// stored struct.
inline constexpr int kSchema = 9;

/// The allowed values of a field.
struct Field {
  enum class Text : std::uint8_t {
    name,           ///< at most 256 bytes without control characters
    required_name,  ///< the same, not empty
    identifier,     ///< letters, digits, '_', '-' and '.'
    date,           ///< 2025-06-01T12:34:56Z, or empty
    message         ///< any text
  };
  bool required = false;                                             ///< in a JSON form
  double least = 0, most = std::numeric_limits<double>::infinity();  ///< of a number
  bool above_least = false;                                          ///< excludes `least` itself
  Text text = Text::name;
  bool id = false;       ///< assigned by the database: not a value of the row
  bool per_row = false;  ///< for Environment: a column of the row that refers to it
  /// The version of the schema that added the field to stored structs; 0 for the first one. Earlier
  /// rows keep their hashes: the fields of a version are hashed if at least one of them is not its
  /// type's zero.
  int since = 0;
};
inline constexpr Field kRequired{.required = true};
inline constexpr Field kMicroseconds{.most = 1e12};  // eleven days
inline constexpr Field kWatts{.most = 1e6};

/// `Of`, const or not: an argument type of fields().
template <class T, class Of>
concept Some = std::same_as<std::remove_const_t<T>, Of>;

/// The columns of a problem. Its JSON form has one key for all types.
template <class Visit>
void fields(Visit& visit, Some<Problem> auto& x) {
  Layout layout = layout_of(x);
  visit("layout", layout);
  if constexpr (!std::is_const_v<std::remove_reference_t<decltype(x)>>) set_layout(x, layout);
  visit("m", x.m, {.least = 1});
  visit("n", x.n, {.least = 1});
  visit("k", x.k, {.least = 1});
  visit("a_type", x.a.type);
  visit("b_type", x.b.type);
  visit("c_type", x.c.type);
  visit("accumulator", x.accumulator);
  visit("math", x.math);
  visit("batch", x.batch);
  visit("align_a", x.a.alignment);
  visit("align_b", x.b.alignment);
  visit("align_c", x.c.alignment);
  std::string variant = variant_text(x);
  visit("variant", variant, {.text = Field::Text::message, .since = 8});
  if constexpr (!std::is_const_v<std::remove_reference_t<decltype(x)>>) set_variant(x, variant);
}

template <class Visit>
void fields(Visit& visit, Some<Candidate> auto& x) {
  visit("kernel_template", x.kernel_template, {.required = true, .text = Field::Text::identifier});
  visit("configuration", x.configuration, kRequired);
}

template <class Visit>
void fields(Visit& visit, Some<Measurement> auto& x) {
  visit("median_us", x.median_us, {.required = true, .most = 1e12, .above_least = true});
  visit("spread", x.spread, {.most = 100});
  visit("samples", x.samples);
  visit("launches_per_sample", x.launches_per_sample);
  visit("samples_us", x.samples_us, kMicroseconds);
  visit("cold", x.cold);
  visit("method", x.method);
  visit("sm_clock_mhz", x.sm_clock_mhz, {.most = 1e6});
  visit("power_w", x.power_w, kWatts);
  visit("host_us", x.host_us, kMicroseconds);
  visit("energy_mj", x.energy_mj, {.most = 1e18, .since = 6});
  visit("power_limit_w", x.power_limit_w, {.most = 1e6, .since = 6});
}

template <class Visit>
void fields(Visit& visit, Some<Environment> auto& x) {
  visit("driver", x.driver);
  visit("compiler", x.compiler);
  visit("host", x.host);
  visit("date", x.date, {.text = Field::Text::date, .per_row = true});
}

template <class Visit>
void fields(Visit& visit, Some<ResourceUsage> auto& x) {
  visit("registers", x.registers);
  visit("spill_bytes", x.spill_bytes);
  visit("static_shared_bytes", x.static_shared_bytes);
  visit("stack_bytes", x.stack_bytes);
}

template <class Visit>
void fields(Visit& visit, Some<Record> auto& x) {
  visit("id", x.id, {.id = true});
  visit("problem", x.problem, kRequired);
  visit("gpu", x.gpu, {.required = true, .text = Field::Text::required_name});
  visit("candidate", x.candidate, kRequired);
  visit("source_hash", x.source_hash);
  visit("launch_revision", x.launch_revision);
  visit("code_hash", x.code_hash);
  visit("origin", x.origin);
  visit("outcome", x.outcome, kRequired);
  visit("detail", x.detail, {.text = Field::Text::message});
  visit("measurement", x.measurement);
  visit("usage", x.usage);
  visit("compile_ms", x.compile_ms, {.most = 1e9});
  visit("error_ratio", x.error_ratio);
  visit("normwise_error", x.normwise_error);
  visit("predicted_us", x.predicted_us);
  visit("environment", x.environment);
}

template <class Visit>
void fields(Visit& visit, Some<Baseline> auto& x) {
  visit("problem", x.problem, kRequired);
  visit("gpu", x.gpu, {.required = true, .text = Field::Text::required_name});
  visit("library", x.library, {.required = true, .text = Field::Text::required_name});
  visit("version", x.version);
  visit("variant", x.variant);
  visit("measurement", x.measurement, kRequired);
  visit("environment", x.environment);
}

template <class Visit>
void fields(Visit& visit, Some<KeptOrder> auto& x) {
  visit("problem", x.problem, kRequired);
  visit("gpu", x.gpu, {.required = true, .text = Field::Text::required_name});
  visit("sum_order", x.sum_order, {.required = true, .text = Field::Text::required_name});
  visit("date", x.date, {.text = Field::Text::date});
}

template <class Visit>
void fields(Visit& visit, Some<Search> auto& x) {
  visit("id", x.id, {.id = true});
  visit("problem", x.problem, kRequired);
  visit("gpu", x.gpu, {.required = true, .text = Field::Text::required_name});
  visit("strategy", x.strategy);
  visit("seed", x.seed);
  visit("space", x.space);
  visit("sources", x.sources);
  visit("budget_seconds", x.budget_seconds);
  visit("max_evaluations", x.max_evaluations);
  visit("finished", x.finished);
  visit("evaluations", x.evaluations);
  visit("seconds", x.seconds);
  visit("date", x.date, {.text = Field::Text::date});
  visit("objective", x.objective, {.since = 6});
}

template <class Visit>
void fields(Visit& visit, Some<DeviceInfo> auto& x) {
  visit("name", x.name, kRequired);
  visit("uuid", x.uuid);
  visit("target", x.target, kRequired);
  visit("features", x.features);
  visit("multiprocessors", x.multiprocessors);
  visit("clock_khz", x.clock_khz);
  visit("memory_clock_khz", x.memory_clock_khz);
  visit("memory_bus_bits", x.memory_bus_bits);
  visit("memory_bytes", x.memory_bytes);
  visit("l2_bytes", x.l2_bytes);
  visit("shared_per_block", x.shared_per_block);
  visit("shared_per_multiprocessor", x.shared_per_multiprocessor);
  visit("shared_reserved_per_block", x.shared_reserved_per_block);
  visit("registers_per_multiprocessor", x.registers_per_multiprocessor);
  visit("registers_per_block", x.registers_per_block);
  visit("threads_per_multiprocessor", x.threads_per_multiprocessor);
  visit("threads_per_block", x.threads_per_block);
  visit("blocks_per_multiprocessor", x.blocks_per_multiprocessor);
  visit("fp32_lanes", x.fp32_lanes);
}

template <class Visit>
void fields(Visit& visit, Some<DeviceFacts> auto& x) {
  visit("gpu", x.gpu, {.required = true, .text = Field::Text::required_name});
  visit("clock_khz", x.clock_khz);
  visit("memory_clock_khz", x.memory_clock_khz);
  visit("memory_bus_bits", x.memory_bus_bits);
  visit("memory_bytes", x.memory_bytes);
  visit("l2_bytes", x.l2_bytes);
  visit("power_limit_w", x.power_limit_w, kWatts);
  visit("date", x.date, {.text = Field::Text::date});
}

template <class Visit>
void fields(Visit& visit, Some<KernelSpec> auto& x) {
  visit("source", x.source, kRequired);
  visit("entry", x.entry, kRequired);
  visit("defines", x.defines);
  visit("epilogue", x.epilogue);
}

template <class Visit>
void fields(Visit& visit, Some<Argument> auto& x) {
  visit("kind", x.kind, kRequired);
  visit("value", x.value);
}

template <class Visit>
void fields(Visit& visit, Some<Work> auto& x) {
  visit("flops", x.flops);
  visit("issued_flops", x.issued_flops);
  visit("global_bytes", x.global_bytes);
  visit("compulsory_bytes", x.compulsory_bytes);
  visit("shared_bytes", x.shared_bytes);
  visit("instructions", x.instructions);
}

template <class Visit>
void fields(Visit& visit, Some<Schedule> auto& x) {
  visit("rounds", x.rounds);
  visit("passes", x.passes);
  visit("ahead", x.ahead);
  visit("multiply_add_rate", x.multiply_add_rate);
  visit("registers", x.registers);
  visit("resident_blocks", x.resident_blocks);
  visit("imbalance", x.imbalance);
  visit("working", x.working);
  visit("tiles", x.tiles);
  visit("tile_bytes", x.tile_bytes);
  visit("tile_slots", x.tile_slots);
  visit("overlapped", x.overlapped);
}

template <class Visit>
void fields(Visit& visit, Some<Packing> auto& x) {
  visit("role", x.role, kRequired);
  visit("transposed", x.transposed);
  visit("rounded", x.rounded);
  visit("split", x.split);
  visit("rows", x.rows);
  visit("columns", x.columns);
  visit("packed_rows", x.packed_rows);
  visit("ld", x.ld);
  visit("bytes", x.bytes);
}

template <class Visit>
void fields(Visit& visit, Some<LaunchStep> auto& x) {
  visit("role", x.role, kRequired);
  visit("kernel", x.kernel, kRequired);
  visit("grid", x.grid, kRequired);
  visit("block", x.block, kRequired);
  visit("cluster", x.cluster);
  visit("shared_bytes", x.shared_bytes);
  visit("programmatic", x.programmatic);
  visit("packs", x.packs);
  visit("arguments", x.arguments, kRequired);
  visit("work", x.work);
  visit("schedule", x.schedule);
}

template <class Visit>
void fields(Visit& visit, Some<TensorMapRecipe> auto& x) {
  visit("base", x.base, kRequired);
  visit("stride", x.stride, kRequired);
  visit("type", x.type);
  visit("dims", x.dims, kRequired);
  visit("box", x.box, kRequired);
  visit("batch_stride", x.batch_stride);
  visit("swizzle_bytes", x.swizzle_bytes);
  visit("l2_promotion_bytes", x.l2_promotion_bytes);
  visit("row classes", x.row_classes);
  visit("row class", x.row_class);
  visit("rounded", x.rounded);
}

template <class Visit>
void fields(Visit& visit, Some<Plan> auto& x) {
  visit("steps", x.steps, kRequired);
  visit("workspace_bytes", x.workspace_bytes);
  visit("tensor_maps", x.tensor_maps);
  visit("work", x.work);
}

}  // namespace tilewise
