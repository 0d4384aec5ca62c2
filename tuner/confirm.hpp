#pragma once
#include "matmul/build.hpp"
#include "tuner/evaluate/evaluator.hpp"
#include "tuner/session.hpp"

namespace tilewise {

/// The winner runs alone for this share of a search's time.
inline constexpr double kConfirmShare = 0.05;

/// Decides whether a candidate may be stored as a winner or together with one. The candidate is
/// pressed, then runs alone with every launch compared: for kConfirmShare of the time since the
/// search began, from kObserveSeconds to a minute; after Ctrl-C for kObserveSeconds. If its size is
/// not constant, it is also validated at an edge size. `transient`: undecided, because the
/// evaluator failed. Afterwards the evaluator is at the session's problem, except after Ctrl-C.
Evaluation confirm(Session& session, const Built& built);

}  // namespace tilewise
