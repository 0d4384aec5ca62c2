#include "cli/help.hpp"

#include <algorithm>
#include <sstream>
#include <vector>

#include "cli/common/output.hpp"

namespace tilewise::cli {
namespace {

constexpr int kUsual = 80, kNarrowest = 20, kWidest = 100;
constexpr std::size_t kLeastDescription = 24;  // columns; less room: below the name
constexpr std::size_t kBelowName = 6, kContinued = 4;
constexpr std::size_t kDeep = 20;  // least indentation of the column of descriptions

/// The words of a text. In a command, a quoted part is one word.
std::vector<std::string> words_of_line(const std::string& text, bool command) {
  std::vector<std::string> words;
  std::string word;
  char quote = 0;
  for (const char c : text) {
    if (command && (c == '"' || c == '\'')) quote = quote == 0 ? c : quote == c ? '\0' : quote;
    if (c != ' ' || quote != 0) {
      word += c;
    } else if (!word.empty()) {
      words.push_back(std::move(word));
      word.clear();
    }
  }
  if (!word.empty()) words.push_back(std::move(word));
  return words;
}

/// A word in parts of at most `room` characters, split after commas where possible.
std::vector<std::string> parts_of(std::string word, std::size_t room) {
  std::vector<std::string> parts;
  while (word.size() > room) {
    const std::size_t comma = word.rfind(',', room - 1);
    const std::size_t end = comma == std::string::npos ? room : comma + 1;
    parts.push_back(word.substr(0, end));
    word.erase(0, end);
  }
  parts.push_back(std::move(word));
  return parts;
}

/// `first` and the words of `text`, wrapped; further lines are indented by `indent`.
std::string filled(const std::string& first, const std::string& text, std::size_t indent,
                   std::size_t width) {
  const bool command = text.rfind("autotune ", 0) == 0;
  const std::string ending = command ? " \\" : "";
  const std::size_t end = width - std::min(width - 1, ending.size());
  const std::size_t room = end > indent + 1 ? end - indent : 1;
  std::string result, line = first;
  bool begun = false;  // whether the line has a word
  const auto add = [&](const std::string& word, bool last) {
    const std::size_t limit = last ? width : end;
    if (begun && line.size() + 1 + word.size() > limit) {
      result += line + ending + "\n";
      line = std::string(indent, ' ');
      begun = false;
    }
    line += (begun ? " " : "") + word;
    begun = true;
  };
  const std::vector<std::string> words = words_of_line(text, command);
  for (std::size_t i = 0; i < words.size(); ++i) {
    const auto parts = command ? std::vector{words[i]} : parts_of(words[i], room);
    for (const std::string& part : parts) add(part, i + 1 == words.size());
  }
  return result + line + "\n";
}

/// One line of help, wrapped.
std::string wrapped_line(const std::string& line, std::size_t width) {
  if (line.size() <= width) return line + "\n";
  const std::size_t lead = std::min(line.find_first_not_of(' '), line.size());
  const std::string text = line.substr(lead);
  const std::size_t gap = text.find("  ");
  if (gap == std::string::npos) {
    const bool description = lead >= kDeep;
    const std::size_t column = !description                        ? lead
                               : lead + kLeastDescription <= width ? lead
                                                                   : kBelowName;
    const std::size_t further = description || lead == 0 ? column : lead + kContinued;
    return filled(std::string(column, ' '), text, further, width);
  }
  const std::string name = text.substr(0, gap);
  const std::size_t column = lead + text.find_first_not_of(' ', gap);
  const std::string description = line.substr(column);
  if (column + kLeastDescription <= width)
    return filled(line.substr(0, column), description, column, width);
  return filled(std::string(lead, ' '), name, lead + kContinued, width) +
         filled(std::string(kBelowName, ' '), description, kBelowName, width);
}

}  // namespace

int help_width() {
  const int width = terminal_width();
  return width > 0 ? std::clamp(width, kNarrowest, kWidest) : kUsual;
}

std::string wrapped_help(const std::string& text, int width) {
  std::string result;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    result += wrapped_line(line, static_cast<std::size_t>(width));
  return result;
}

}  // namespace tilewise::cli
