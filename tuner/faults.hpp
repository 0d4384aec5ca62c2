#pragma once
#include <string>
#include <vector>

#include "vocabulary/record.hpp"

namespace tilewise {

/// Tells faults of the system (a killed compiler or worker, no memory, a full disk) from faults of
/// candidates. A candidate that met a fault is tried once more. One that met two is a suspect: when
/// another candidate gets through, the system works and the fault was the candidate's own; when
/// several suspects follow one another, the system is at fault and a search cannot go on.
class Faults {
 public:
  enum class Next { try_again, go_on, end_search };
  /// `record` says which candidate met a fault, and how: it is what is stored if the fault is the
  /// candidate's own.
  Next add(Record record);
  /// A candidate was evaluated without a fault. Returns the records of suspects, whose faults are
  /// thereby their own.
  std::vector<Record> acquit_system();

  /// How many faults were met.
  std::int64_t count() const { return count_; }
  /// The last one in words; empty when there was none.
  const std::string& last() const { return last_; }
  bool any_suspect() const { return !suspects_.empty(); }

 private:
  std::vector<Candidate> tried_again_;
  std::vector<Record> suspects_;
  std::int64_t count_ = 0;
  std::string last_;
};

}  // namespace tilewise
