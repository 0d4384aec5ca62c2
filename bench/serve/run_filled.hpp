#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tilewise/problem.hpp"

namespace tilewise::bench {

/// Runs this program again on a copy of the database, with `records` further made-up records and
/// the problem's kernel stored. `words`: makes the arguments for a database. Returns the exit
/// status. The new process has used neither the database nor the device before.
int run_filled(const std::string& database, const std::string& device, const Problem& problem,
               std::int64_t records,
               const std::function<std::vector<std::string>(const std::string&)>& words);

}  // namespace tilewise::bench
