#include "tuner/reproduce.hpp"

namespace tilewise {
namespace {

/// The text in single quotes, for a POSIX shell.
std::string quoted(const std::string& text) {
  std::string result = "'";
  for (char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

}  // namespace

std::string reproduce_command(const std::string& prefix, const Candidate& candidate) {
  return prefix + " --only " + quoted(to_string(candidate));
}

}  // namespace tilewise
