#include "tests/kernels/mutation.hpp"

#include "tests/kernels/markers.hpp"
#include "tilewise/error.hpp"

namespace tilewise::check {
namespace {

/// The checker's option that plants the mistake.
std::string option_of(const Mutation& mutation) {
  return (mutation.from ? "--mutate-in " : "--mutate ") + mutation.marker;
}

[[noreturn]] void refuse(const Mutation& mutation, const std::string& why) {
  throw Error(ErrorKind::invalid_argument, option_of(mutation) + ": " + why);
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t occurrences = 0;
  for (auto at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++occurrences;
  return occurrences;
}

/// The line's code with the mistake.
std::string mutated(const Mutation& mutation, std::string code) {
  if (mutation.to.find('\n') != mutation.to.npos)
    refuse(mutation, "the replacement has to be one line, so that line numbers stay");
  if (mutation.from) {
    if (const std::size_t times = count(code, *mutation.from); times != 1)
      refuse(mutation, "\"" + *mutation.from +
                           "\" has to occur exactly once in the line, and occurs " +
                           std::to_string(times) + " times: " + code);
    return code.replace(code.find(*mutation.from), mutation.from->size(), mutation.to);
  }
  const std::string place = "{line}";
  std::string made = mutation.to;
  for (auto at = made.find(place); at != made.npos; at = made.find(place, at + code.size()))
    made.replace(at, place.size(), code);
  return made;
}

}  // namespace

void plant(const Mutation& mutation, std::string& text) {
  for (const MarkedLine& line : marked_lines(text)) {
    if (!line.has(mutation.marker)) continue;
    const std::size_t size = line.end - line.begin;
    text.replace(line.begin, size, mutated(mutation, text.substr(line.begin, size)));
    return;
  }
}

void expect_plantable(const Mutation& mutation,
                      const std::vector<std::pair<std::string, std::string>>& sources) {
  std::vector<std::string> places;
  for (const auto& [name, text] : sources)
    for (const MarkedLine& line : marked_lines(text))
      if (line.has(mutation.marker)) places.push_back(name + ':' + std::to_string(line.number));
  if (places.empty())
    refuse(mutation, "no line of a kernel source has this marker, a comment \"//@ " +
                         mutation.marker + "\" at its end");
  if (places.size() > 1)
    refuse(mutation, "one line of the kernel sources has to have this marker, and " +
                         std::to_string(places.size()) + " have it: " + places[0] + " and " +
                         places[1]);
  for (auto [name, text] : sources) plant(mutation, text);
}

}  // namespace tilewise::check
