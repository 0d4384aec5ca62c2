#pragma once
#include <istream>
#include <string>
#include <vector>

#include "tilewise/problem.hpp"

namespace tilewise::bench {

/// Problems of a CSV with the heading `layout,m,n,k`; empty lines and those that begin with # are
/// left out. f32, strict, tightly packed. Throws Error(invalid_argument) with the line's number and
/// what it should be.
std::vector<Problem> read_shapes(std::istream& csv);
/// The same of a file. Throws Error(io) when it cannot be read.
std::vector<Problem> read_shapes_file(const std::string& path);

/// Those that any item of `filter` names, in their order: a layout (`nt`), a size (`4096` is
/// 4096x4096x4096), or both (`nt:8x4096x4096`); several with commas. Empty: all of them. Throws
/// Error(invalid_argument) for an item that names none.
std::vector<Problem> only(const std::vector<Problem>& problems, const std::string& filter);

}  // namespace tilewise::bench
