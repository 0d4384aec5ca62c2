#pragma once
#include <istream>
#include <string>
#include <vector>

#include "tilewise/problem.hpp"

namespace tilewise::bench {

/// "nn 4096x4096x4096", "nn 32x32x32*64" (a batch of 64).
std::string shape_text(const Problem& problem);

/// Reads problems from a CSV with the heading `layout,m,n,k` or `layout,m,n,k,batch`. Skips empty
/// lines and lines that begin with #. The problems are f32, strict and tightly packed; of_kind()
/// gives them other types. Throws Error(invalid_argument) with the line's number and the expected
/// form.
std::vector<Problem> read_shapes(std::istream& csv);
/// The same for a file. Throws Error(io) if it cannot be read.
std::vector<Problem> read_shapes_file(const std::string& path);

/// Reads products of several kinds from a CSV with a heading of column names: m, n, k and layout
/// (lists in quotes: "1,2,4"), dtype, and optionally math, weight and source, which are not read
/// except math. It is the list of `autotune cover --problems`, with numbers only. Every combination
/// of a row is one problem, tightly packed; m varies fastest. Throws Error(invalid_argument) with
/// the line and what is allowed.
std::vector<Problem> read_products(std::istream& csv);
/// The same for a file. Throws Error(io) if it cannot be read.
std::vector<Problem> read_products_file(const std::string& path);

/// Problems of a list such as "4096,nt:8x4096x4096,nn:32*64": each item is a layout (default nn), a
/// size and a batch. Throws Error(invalid_argument) with the item.
std::vector<Problem> parse_shapes(const std::string& list);

/// The problems that match any item of `filter`, in their order. An item is a layout (`nt`), a size
/// (`4096` is 4096x4096x4096) with its batch (`32*64`), or both (`nt:8x4096x4096`); commas separate
/// items. An item without a batch matches every batch of its size. An empty filter matches all.
/// Throws Error(invalid_argument) for an item that matches no problem.
std::vector<Problem> only(const std::vector<Problem>& problems, const std::string& filter);

}  // namespace tilewise::bench
