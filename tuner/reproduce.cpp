#include "tuner/reproduce.hpp"

namespace tilewise {
namespace {

/// In single quotes, as every POSIX shell reads it.
std::string quoted(const std::string& text) {
  std::string result = "'";
  for (char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

}  // namespace

std::string problem_options(const Problem& problem) {
  const Alignment& align = problem.alignment;
  std::string options = "--sizes " + size_text(problem) + " --layout " +
                        std::string(to_string(problem.layout)) + " --align " +
                        std::to_string(align.a) + "," + std::to_string(align.b) + "," +
                        std::to_string(align.c);
  const auto add = [&options](const char* option, std::string_view value) {
    options += std::string(" --") + option + " " + std::string(value);
  };
  if (problem.a != DType::f32) add("dtype", to_string(problem.a));
  if (problem.c != default_result(problem.a)) add("out", to_string(problem.c));
  if (problem.math != MathMode::strict) add("math", to_string(problem.math));
  if (problem.batch != 1) add("batch", std::to_string(problem.batch));
  return options;
}

std::string reproduce_command(const std::string& prefix, const Candidate& candidate) {
  return prefix + " --only " + quoted(to_string(candidate));
}

}  // namespace tilewise
