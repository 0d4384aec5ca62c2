#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "vocabulary/record.hpp"

namespace tilewise {

/// Counts faults of the system (a killed compiler or worker, no memory, a full disk) and decides
/// what becomes of the candidates that met them. A fault is never a candidate's outcome. After its
/// first fault a candidate is tried again at once; after its second, when another candidate got
/// through the same work; after its third it is given up for this run, without a record. When three
/// candidates wait for the same work at a time, the search ends.
class Faults {
 public:
  enum class Work { compile, evaluation };  ///< in the order in which a candidate meets them
  enum class Next { try_again, wait, give_up, end_search };
  Next add(const Candidate& candidate, Work work, const std::string& why);
  /// Call when a candidate got through that work without a fault. Returns the candidates that
  /// waited for it; the caller tries them again.
  std::vector<Candidate> got_through(const Candidate& candidate, Work work);

  /// How many faults were met.
  std::int64_t count() const { return count_; }
  /// The last fault in words; empty when there was none.
  const std::string& last() const { return last_; }
  /// Candidates that met a fault and have not got through since.
  std::int64_t without_outcome() const { return static_cast<std::int64_t>(met_.size()); }

 private:
  struct Met {
    Candidate candidate;
    Work work;
    int faults;
    bool waits;
  };
  std::vector<Met> met_;
  std::int64_t count_ = 0;
  std::string last_;
};

}  // namespace tilewise
