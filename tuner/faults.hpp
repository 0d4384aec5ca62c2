#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "vocabulary/record.hpp"

namespace tilewise {

/// Counts faults of the system (a killed compiler or worker, no memory, a full disk) and decides
/// about the affected candidates. A fault is never a candidate's outcome. After its first fault a
/// candidate is tried again at once. After its second, it is tried again when another candidate has
/// passed the same work. After its third, this run drops it without a record. When three candidates
/// wait for the same work, the search ends.
class Faults {
 public:
  enum class Work { compile, evaluation };  ///< in the order of a candidate's evaluation
  enum class Next { try_again, wait, give_up, end_search };
  Next add(const Candidate& candidate, Work work, const std::string& why);
  /// Call when a candidate passed that work without a fault. Returns the candidates that waited for
  /// it; the caller tries them again.
  std::vector<Candidate> got_through(const Candidate& candidate, Work work);

  /// The number of faults.
  std::int64_t count() const { return count_; }
  /// The message of the last fault; empty when there was none.
  const std::string& last() const { return last_; }
  /// Candidates that met a fault and have not passed that work since.
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
