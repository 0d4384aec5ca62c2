#pragma once
#include <string>

#include "vocabulary/record.hpp"

namespace tilewise {

/// The command that validates and times one candidate again:
/// "PREFIX --only 'simt {"TILE_K":8,...}'". `prefix` names the program, device and problem, as in
/// "autotune tune --device 0 --sizes 1024x1024x1024 --layout nn --align 4,4,4".
std::string reproduce_command(const std::string& prefix, const Candidate& candidate);

}  // namespace tilewise
