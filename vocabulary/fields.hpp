#pragma once
#include <concepts>
#include <type_traits>

#include "vocabulary/device_facts.hpp"
#include "vocabulary/record.hpp"

// The keys of each struct's JSON form, one list for reading and writing: a visitor is called with
// each key and field. required() marks keys that must be present.
namespace tilewise {

/// `Of`, const or not: an argument of fields().
template <class T, class Of>
concept Some = std::same_as<std::remove_const_t<T>, Of>;

template <class Visit>
void fields(Visit& visit, Some<Candidate> auto& x) {
  visit.required("kernel_template", x.kernel_template);
  visit.required("configuration", x.configuration);
}

template <class Visit>
void fields(Visit& visit, Some<Measurement> auto& x) {
  visit.required("median_us", x.median_us);
  visit("spread", x.spread);
  visit("samples", x.samples);
  visit("launches_per_sample", x.launches_per_sample);
  visit("samples_us", x.samples_us);
  visit("cold", x.cold);
  visit("method", x.method);
  visit("sm_clock_mhz", x.sm_clock_mhz);
  visit("power_w", x.power_w);
  visit("host_us", x.host_us);
  visit("energy_mj", x.energy_mj);
  visit("power_limit_w", x.power_limit_w);
}

template <class Visit>
void fields(Visit& visit, Some<Environment> auto& x) {
  visit("driver", x.driver);
  visit("compiler", x.compiler);
  visit("host", x.host);
  visit("date", x.date);
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
  visit("id", x.id);
  visit.required("problem", x.problem);
  visit.required("candidate", x.candidate);
  visit.required("gpu", x.gpu);
  visit("source_hash", x.source_hash);
  visit("launch_revision", x.launch_revision);
  visit("code_hash", x.code_hash);
  visit("origin", x.origin);
  visit.required("outcome", x.outcome);
  visit("detail", x.detail);
  visit("measurement", x.measurement);
  visit("usage", x.usage);
  visit("compile_ms", x.compile_ms);
  visit("error_ratio", x.error_ratio);
  visit("normwise_error", x.normwise_error);
  visit("predicted_us", x.predicted_us);
  visit("environment", x.environment);
}

template <class Visit>
void fields(Visit& visit, Some<Baseline> auto& x) {
  visit.required("problem", x.problem);
  visit.required("gpu", x.gpu);
  visit.required("library", x.library);
  visit("version", x.version);
  visit("variant", x.variant);
  visit.required("measurement", x.measurement);
  visit("environment", x.environment);
}

template <class Visit>
void fields(Visit& visit, Some<DeviceInfo> auto& x) {
  visit.required("name", x.name);
  visit("uuid", x.uuid);
  visit.required("target", x.target);
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
  visit.required("gpu", x.gpu);
  visit("clock_khz", x.clock_khz);
  visit("memory_clock_khz", x.memory_clock_khz);
  visit("memory_bus_bits", x.memory_bus_bits);
  visit("memory_bytes", x.memory_bytes);
  visit("l2_bytes", x.l2_bytes);
  visit("power_limit_w", x.power_limit_w);
  visit("date", x.date);
}

template <class Visit>
void fields(Visit& visit, Some<KernelSpec> auto& x) {
  visit.required("source", x.source);
  visit.required("entry", x.entry);
  visit("defines", x.defines);
}

template <class Visit>
void fields(Visit& visit, Some<Argument> auto& x) {
  visit.required("kind", x.kind);
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
}

template <class Visit>
void fields(Visit& visit, Some<Packing> auto& x) {
  visit.required("role", x.role);
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
  visit.required("role", x.role);
  visit.required("kernel", x.kernel);
  visit.required("grid", x.grid);
  visit.required("block", x.block);
  visit("cluster", x.cluster);
  visit("shared_bytes", x.shared_bytes);
  visit("programmatic", x.programmatic);
  visit("packs", x.packs);
  visit.required("arguments", x.arguments);
  visit("work", x.work);
  visit("schedule", x.schedule);
}

template <class Visit>
void fields(Visit& visit, Some<TensorMapRecipe> auto& x) {
  visit.required("base", x.base);
  visit.required("stride", x.stride);
  visit("type", x.type);
  visit.required("dims", x.dims);
  visit.required("box", x.box);
  visit("batch_stride", x.batch_stride);
  visit("swizzle_bytes", x.swizzle_bytes);
  visit("l2_promotion_bytes", x.l2_promotion_bytes);
  visit("row classes", x.row_classes);
  visit("row class", x.row_class);
  visit("rounded", x.rounded);
}

template <class Visit>
void fields(Visit& visit, Some<Plan> auto& x) {
  visit.required("steps", x.steps);
  visit("workspace_bytes", x.workspace_bytes);
  visit("tensor_maps", x.tensor_maps);
  visit("work", x.work);
}

}  // namespace tilewise
