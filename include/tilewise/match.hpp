#pragma once
#include <optional>
#include <string>

#include "vocabulary/record.hpp"

namespace tilewise {

enum class MatchKind : std::uint8_t { exact, nearest, default_ };
/// "exact", "nearest", "default".
std::string_view to_string(MatchKind kind);

/// How a lookup was answered.
struct Match {
  MatchKind kind = MatchKind::default_;
  Candidate candidate;
  /// |log2 m'/m| + |log2 n'/n| + |log2 k'/k| + |log2 b'/b|, b being the batch; 0 for exact
  double distance = 0;
  std::optional<Record> record;  ///< what it stands on; none for default
  bool stale = false;            ///< the measurement was of another source or compiler
  double predicted_us = 0;       ///< the cost model's, for the problem asked; 0: not known
  std::string limited_by;        ///< what the cost model says limits it: "multiply-adds"
  std::string why;               ///< one sentence for people
};

}  // namespace tilewise
