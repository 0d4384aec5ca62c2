#include "db/row_hash.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "vocabulary/hash.hpp"

namespace tilewise {
namespace {

RowHash& operator<<(RowHash& hash, const Problem& p) {
  hash.add(to_string(p.layout)).add(p.m).add(p.n).add(p.k);
  for (const DType type : {p.a, p.b, p.c, p.accumulator}) hash.add(to_string(type));
  hash.add(to_string(p.math)).add(p.batch);
  for (const int alignment : {p.alignment.a, p.alignment.b, p.alignment.c})
    hash.add(std::int64_t{alignment});
  return hash;
}

RowHash& operator<<(RowHash& hash, const Environment& e) {
  return hash.add(e.driver).add(e.compiler).add(e.host).add(e.date);
}

RowHash& operator<<(RowHash& hash, const ResourceUsage& usage) {
  for (const int value :
       {usage.registers, usage.spill_bytes, usage.static_shared_bytes, usage.stack_bytes})
    hash.add(std::int64_t{value});
  return hash;
}

RowHash& operator<<(RowHash& hash, const Measurement& m) {
  hash.add(m.median_us).add(m.spread).add(std::int64_t{m.samples});
  hash.add(std::int64_t{m.launches_per_sample});
  hash.add(static_cast<std::int64_t>(m.samples_us.size()));
  for (const double sample : m.samples_us)
    hash.add(std::isfinite(sample) ? sample : std::numeric_limits<double>::quiet_NaN());
  hash.add(std::int64_t{m.cold}).add(m.method).add(m.sm_clock_mhz).add(m.power_w);
  hash.add(m.host_us);
  // Rows of before schema version 6 have neither, and keep their hashes.
  if (m.energy_mj != 0 || m.power_limit_w != 0) hash.add(m.energy_mj).add(m.power_limit_w);
  return hash;
}

RowHash& operator<<(RowHash& hash, const Record& r) {
  hash << r.problem;
  hash.add(r.gpu).add(r.candidate.kernel_template).add(r.candidate.configuration.text());
  hash.add(r.source_hash).add(r.launch_revision).add(r.code_hash).add(to_string(r.origin));
  hash.add(to_string(r.outcome)).add(r.detail).add(std::int64_t{r.measurement.has_value()});
  if (r.measurement) hash << *r.measurement;
  hash << r.usage;
  hash.add(r.compile_ms).add(r.error_ratio).add(r.normwise_error).add(r.predicted_us);
  return hash << r.environment;
}

/// Rows of before schema version 6 are by time, and keep their hashes.
void add_objective(RowHash& hash, Objective objective) {
  if (objective != Objective::time) hash.add(to_string(objective));
}

}  // namespace

void RowHash::add_bytes(char type, const void* data, std::size_t bytes) {
  const auto count = static_cast<std::uint64_t>(bytes);
  char start[1 + sizeof count] = {type};
  std::memcpy(start + 1, &count, sizeof count);
  values_.append(start, sizeof start);
  values_.append(static_cast<const char*>(data), bytes);
}

RowHash& RowHash::add(std::string_view text) {
  add_bytes('t', text.data(), text.size());
  return *this;
}

RowHash& RowHash::add(std::span<const std::uint8_t> bytes) {
  add_bytes('b', bytes.data(), bytes.size());
  return *this;
}

RowHash& RowHash::add(std::int64_t value) {
  add_bytes('i', &value, sizeof value);
  return *this;
}

RowHash& RowHash::add(double value) {
  if (std::isnan(value)) value = std::numeric_limits<double>::quiet_NaN();
  if (value == 0) value = 0;  // -0 becomes 0
  add_bytes('d', &value, sizeof value);
  return *this;
}

std::string RowHash::hex() const { return hash_text(values_); }

std::string row_hash(const Record& record) {
  RowHash hash;
  return (hash << record).hex();
}

std::string row_hash(const Winner& winner) {
  const Record& r = winner.record;
  RowHash hash;
  hash << r.problem;
  hash.add(r.gpu).add(r.candidate.kernel_template).add(r.candidate.configuration.text());
  hash.add(r.source_hash).add(winner.since).add(winner.quarantined);
  add_objective(hash, winner.objective);
  return hash.hex();
}

std::string row_hash(const Baseline& b) {
  RowHash hash;
  hash << b.problem;
  hash.add(b.gpu).add(b.library).add(b.version).add(b.variant);
  hash << b.measurement;
  return (hash << b.environment).hex();
}

std::string row_hash(const Search& s) {
  RowHash hash;
  hash << s.problem;
  hash.add(s.gpu).add(s.strategy).add(std::bit_cast<std::int64_t>(s.seed)).add(s.space);
  hash.add(s.sources).add(s.budget_seconds).add(s.max_evaluations).add(std::int64_t{s.finished});
  hash.add(s.evaluations).add(s.seconds).add(s.date);
  add_objective(hash, s.objective);
  return hash.hex();
}

std::string row_hash(const StoredCorrections& corrections) {
  RowHash hash;
  hash.add(corrections.gpu).add(corrections.kind).add(corrections.samples);
  return hash.add(std::span<const std::uint8_t>(corrections.trees)).hex();
}

std::string row_hash(const DeviceFacts& facts) {
  RowHash hash;
  hash.add(facts.gpu).add(std::int64_t{facts.clock_khz}).add(std::int64_t{facts.memory_clock_khz});
  hash.add(std::int64_t{facts.memory_bus_bits}).add(facts.memory_bytes).add(facts.l2_bytes);
  return hash.add(facts.power_limit_w).add(facts.date).hex();
}

std::string row_hash(const Image& image) {
  RowHash hash;
  hash.add(to_string(image.kernel)).add(to_string(image.target)).add(image.launch_revision);
  hash.add(image.source_hash);
  hash << image.usage;
  return hash.add(image.compile_ms).add(image.log).add(image.binary).hex();
}

}  // namespace tilewise
