#pragma once
// Markers: comments at the ends of lines of kernel sources, `//@ name`. Planted mistakes and
// expected line numbers refer to them, so that both stay valid when a kernel is rearranged.
#include <algorithm>
#include <cstddef>
#include <sstream>
#include <string>
#include <vector>

namespace tilewise::check {

struct MarkedLine {
  std::size_t number = 0;  ///< number of the line, from 1
  /// The range of the line's code in the text, without indentation and comments.
  std::size_t begin = 0, end = 0;
  std::vector<std::string> markers;

  bool has(const std::string& marker) const {
    return std::find(markers.begin(), markers.end(), marker) != markers.end();
  }
};

/// The marked lines of a kernel source.
inline std::vector<MarkedLine> marked_lines(const std::string& text) {
  const std::string sign = "//@";
  std::vector<MarkedLine> lines;
  std::size_t begin = 0;
  for (std::size_t number = 1; begin < text.size(); ++number) {
    const std::size_t stop = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, stop - begin);
    if (const std::size_t at = line.find(sign); at != line.npos) {
      MarkedLine marked;
      marked.number = number;
      const std::size_t first = line.find_first_not_of(' ');
      std::size_t last = line.find("//");
      while (last > first && line[last - 1] == ' ') --last;
      marked.begin = begin + first;
      marked.end = begin + last;
      std::istringstream names(line.substr(at + sign.size()));
      for (std::string name; names >> name;) marked.markers.push_back(name);
      lines.push_back(marked);
    }
    begin = stop + 1;
  }
  return lines;
}

}  // namespace tilewise::check
