#pragma once
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "db/database.hpp"
#include "vocabulary/device_info.hpp"

/// Tables of made-up records, and what a choice among their winners takes.
namespace tilewise::bench {

/// A random problem with the types of `kind`: log-uniform sizes up to 8192, any layout, half of
/// them with rows of multiples of 16 elements.
Problem random_problem(const Problem& kind, std::mt19937_64& generator);

struct Filled {
  std::int64_t records = 0, winners = 0;
};
/// Adds `records` made-up records of random problems with the types of `kind`: at most 1,000
/// winners, valid on the device, and as many losers for each.
Filled fill(Database& database, const DeviceInfo& device, const Problem& kind,
            std::int64_t records);

/// Times of choices for problems that were not tuned, in us.
struct ChoiceTimes {
  std::size_t winners = 0;      ///< of the GPU and these types
  bool corrections = false;     ///< whether the database has them
  double first = 0;             ///< that reads the corrections
  double median = 0, most = 0;  ///< of the others
};
/// Of `count` random problems, each chosen for once, by a table that was just read.
ChoiceTimes time_choices(const Database& database, const DeviceInfo& device, const Problem& kind,
                         int count);

}  // namespace tilewise::bench
