#pragma once
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "db/database.hpp"
#include "vocabulary/device_info.hpp"

/// Tables of made-up records, and the time of a choice among their winners.
namespace tilewise::bench {

/// A random problem with the types of `kind`: log-uniform sizes up to 8192 and any layout. In half
/// of the problems rows are multiples of 16 elements.
Problem random_problem(const Problem& kind, std::mt19937_64& generator);

struct Filled {
  std::int64_t records = 0, winners = 0;
};
/// Adds `records` made-up records of random problems with the types of `kind`: at most 1,000
/// winners, valid on the device, and the same number of losers for each.
Filled fill(Database& database, const DeviceInfo& device, const Problem& kind,
            std::int64_t records);

/// Times of choices for problems that were not tuned, in us.
struct ChoiceTimes {
  std::size_t winners = 0;      ///< number for the GPU and these types
  bool corrections = false;     ///< whether the database has corrections
  double first = 0;             ///< time of the choice that reads the corrections
  double median = 0, most = 0;  ///< of the other choices
};
/// Times of choices for `count` random problems, once each, from a table that was just read.
ChoiceTimes time_choices(const Database& database, const DeviceInfo& device, const Problem& kind,
                         int count);

}  // namespace tilewise::bench
