#pragma once
#include <istream>
#include <string>
#include <vector>

#include "tilewise/problem.hpp"

namespace tilewise::bench {

/// "nn 4096x4096x4096", "nn 32x32x32*64" (a batch of 64).
std::string shape_text(const Problem& problem);

/// Problems of a CSV with the heading `layout,m,n,k` or `layout,m,n,k,batch`; empty lines and those
/// that begin with # are left out. f32, strict, tightly packed; of_kind() gives them other types.
/// Throws Error(invalid_argument) with the line's number and what it should be.
std::vector<Problem> read_shapes(std::istream& csv);
/// The same of a file. Throws Error(io) when it cannot be read.
std::vector<Problem> read_shapes_file(const std::string& path);

/// Problems of a list: "4096,nt:8x4096x4096,nn:32*64" is layout (nn where none is named), size and
/// batch of each. Throws Error(invalid_argument) naming the item.
std::vector<Problem> parse_shapes(const std::string& list);

/// Those that any item of `filter` names, in their order: a layout (`nt`), a size (`4096` is
/// 4096x4096x4096) with its batch (`32*64`), or both (`nt:8x4096x4096`); several with commas.
/// Without a batch an item names every batch of its size. Empty: all of them. Throws
/// Error(invalid_argument) for an item that names none.
std::vector<Problem> only(const std::vector<Problem>& problems, const std::string& filter);

}  // namespace tilewise::bench
