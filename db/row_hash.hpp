#pragma once
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "db/database.hpp"

// A hash of each row's contents, stored with the row: a row that does not match its hash is damaged
// and not used. XXH3 detects damage; it is no protection against an attacker (docs/security.md).
namespace tilewise {

/// A row that does not match its hash; what() names it.
class DamagedRow : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// hash_text() of values in order of addition. Values with the same form in SQLite or JSON have one
/// hash: every NaN, and both zeros.
class RowHash {
 public:
  RowHash() = default;
  explicit RowHash(std::size_t expected) { values_.reserve(expected); }
  RowHash& add(std::string_view text);
  RowHash& add(std::span<const std::uint8_t> bytes);
  RowHash& add(std::int64_t value);
  RowHash& add(double value);
  /// Adds the values of another RowHash.
  RowHash& add(const RowHash& values);
  std::string hex() const;

 private:
  void add_bytes(char type, const void* data, std::size_t bytes);
  std::string values_;
};

/// Hash of the fields() in their order; ids are replaced by the problem and the environment.
std::string row_hash(const Record& record);
/// Hash of the record's key and the winner's own columns.
std::string row_hash(const Winner& winner);
std::string row_hash(const Baseline& baseline);
std::string row_hash(const Search& search);
std::string row_hash(const StoredCorrections& corrections);
std::string row_hash(const DeviceFacts& facts);
std::string row_hash(const KeptOrder& order);
/// Hash of key, source hash, usage, log and binary.
std::string row_hash(const Image& image);

/// Throws DamagedRow with `what` unless `row` matches the stored hash.
template <class Row>
void require_hash(const Row& row, const std::string& stored, const std::string& what) {
  if (row_hash(row) != stored) throw DamagedRow(what + " does not match its hash");
}

}  // namespace tilewise
