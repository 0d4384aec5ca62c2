#pragma once
#include <optional>
#include <string>

#include "matmul/emulated_counts.hpp"
#include "tilewise/match.hpp"
#include "vocabulary/record.hpp"

namespace tilewise {

/// A lookup's result: the candidate to launch and its record. Match is the public form.
struct Resolution {
  MatchKind kind = MatchKind::default_;
  Candidate candidate;
  double distance = 0;           ///< see Match
  std::optional<Record> record;  ///< none for default_
  bool stale = false;
  double predicted_us = 0;
  double model_us = 0;  ///< the cost model's, without measurements and corrections
  std::string limited_by;
  std::string why;
  EmulatedCounts counts;  ///< of the mode `emulated`, in this process
};

/// The public form of the resolution of `problem`.
Match match_of(const Resolution& resolution, const Problem& problem);

/// {"match", "distance", "stale", "why", "predicted_us", "limited_by", "candidate", "record" or
/// null, "emulated_runs", "native_runs"}.
std::string to_json(const Resolution& resolution);

}  // namespace tilewise
