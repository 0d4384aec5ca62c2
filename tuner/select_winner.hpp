#pragma once
#include <optional>
#include <vector>

#include "vocabulary/record.hpp"

namespace tilewise {

/// Ok records within ObjectiveInfo::within of the best time: the fastest `count`; then up to
/// `count` others, the fastest that differ from every finalist in four parameters or more, or are
/// of another template; then the incumbent's if it is ok and not among them, since the stored
/// winner takes part in every race. The second group is needed because the fastest are often
/// neighbours of one another, and single measurements of a cool GPU rank candidates differently
/// from a race on a hot one. Since the search ranks by time, an objective may ask for more others
/// (ObjectiveInfo::others).
std::vector<Record> pick_finalists(std::vector<Record> records, int count,
                                   const std::optional<Candidate>& incumbent,
                                   Objective objective = Objective::time);

/// Whether the challenger is faster by more than the larger of the two spreads.
bool beats(const Measurement& challenger, const Measurement& incumbent);

/// The record to serve from now on: the fastest of a race, unless the incumbent took part and is
/// not beaten by more than the spread. By another objective: the same among records whose cost is
/// the least or equal to it (ObjectiveInfo::equal_within). Null when none is ok, or no cost was
/// measured.
const Record* select_winner(const std::vector<Record>& raced,
                            const std::optional<Candidate>& incumbent,
                            Objective objective = Objective::time);

}  // namespace tilewise
