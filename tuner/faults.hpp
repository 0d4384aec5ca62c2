#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "vocabulary/record.hpp"

namespace tilewise {

/// Counts faults of the system (a killed compiler or worker, no memory, a full disk) and says what
/// becomes of the candidates that met them. A fault is never a candidate's outcome: that another
/// candidate gets through shows that the system works now, not that it worked a moment ago. After
/// its first fault a candidate is tried again at once, after its second when another candidate got
/// through the same work; after its third it is given up for this run, without a record. When
/// several candidates wait for the same work at a time, the system fails for good.
class Faults {
 public:
  enum class Work { compile, evaluation };  ///< in the order in which a candidate meets them
  enum class Next { try_again, wait, give_up, end_search };
  Next add(const Candidate& candidate, Work work, const std::string& why);
  /// A candidate got through that work without a fault. Returns the candidates that waited for it:
  /// they are to be tried again.
  std::vector<Candidate> got_through(const Candidate& candidate, Work work);

  /// How many faults were met.
  std::int64_t count() const { return count_; }
  /// The last one in words; empty when there was none.
  const std::string& last() const { return last_; }
  /// Candidates that met a fault and did not get through since.
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
