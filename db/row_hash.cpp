#include "db/row_hash.hpp"

#include <cmath>
#include <concepts>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

#include "db/rows.hpp"
#include "vocabulary/hash.hpp"

namespace tilewise {
namespace {

/// Adds a struct's fields. Fields with the same `since` are added if one of them is not zero.
class HashFields {
 public:
  explicit HashFields(RowHash& hash) : hash_(hash) {}
  template <class T>
  void operator()(const char*, const T& value, const Field& about = {}) {
    if (about.since != since_) flush();
    since_ = about.since;
    if (since_ > 0) {
      used_ |= value != T{};
      add(later_, value);
    } else if (!about.id) {
      add(hash_, value);
    }
  }
  void flush() {
    if (used_) hash_.add(later_);
    later_ = {};
    used_ = false;
  }

 private:
  template <class T>
  static void add(RowHash& hash, const T& value) {
    if constexpr (requires { hash.add(value); }) {
      hash.add(value);
    } else if constexpr (std::integral<T>) {
      hash.add(static_cast<std::int64_t>(value));
    } else if constexpr (Enumeration<T>) {
      hash.add(to_string(value));
    } else if constexpr (std::same_as<T, Configuration>) {
      hash.add(value.text());
    } else if constexpr (std::same_as<T, std::vector<double>>) {
      hash.add(static_cast<std::int64_t>(value.size()));
      for (const double x : value)
        hash.add(std::isfinite(x) ? x : std::numeric_limits<double>::quiet_NaN());
    } else if constexpr (std::same_as<T, std::optional<Measurement>>) {
      hash.add(std::int64_t{value.has_value()});
      if (value) add(hash, *value);
    } else {
      HashFields inner(hash);
      fields(inner, value);
      inner.flush();
    }
  }

  RowHash& hash_;
  RowHash later_;
  int since_ = 0;
  bool used_ = false;
};

template <class T>
std::string hash_of(const T& value) {
  RowHash hash(2048);  // more than most rows need
  HashFields visit(hash);
  fields(visit, value);
  visit.flush();
  return hash.hex();
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

RowHash& RowHash::add(const RowHash& values) {
  values_ += values.values_;
  return *this;
}

std::string RowHash::hex() const { return hash_text(values_); }

std::string row_hash(const Record& record) { return hash_of(record); }
std::string row_hash(const Baseline& baseline) { return hash_of(baseline); }
std::string row_hash(const Search& search) { return hash_of(search); }
std::string row_hash(const DeviceFacts& facts) { return hash_of(facts); }
std::string row_hash(const KeptOrder& order) { return hash_of(order); }

std::string row_hash(const Winner& winner) {
  const Record& r = winner.record;
  RowHash hash;
  HashFields visit(hash);
  visit("problem", r.problem);
  visit("gpu", r.gpu);
  visit("candidate", r.candidate);
  visit("source_hash", r.source_hash);
  fields(visit, winner);
  visit.flush();
  return hash.hex();
}

std::string row_hash(const StoredCorrections& corrections) {
  RowHash hash;
  hash.add(corrections.gpu).add(corrections.kind).add(corrections.samples);
  return hash.add(std::span<const std::uint8_t>(corrections.trees)).hex();
}

std::string row_hash(const Image& image) {
  RowHash hash;
  hash.add(to_string(image.kernel)).add(to_string(image.target)).add(image.launch_revision);
  hash.add(image.source_hash);
  HashFields visit(hash);
  fields(visit, image.usage);
  return hash.add(image.compile_ms).add(image.log).add(image.binary).hex();
}

}  // namespace tilewise
