// A kernel's source with its headers as one text.
#include <cctype>
#include <set>

#include "templates/sources.hpp"

namespace tilewise {
namespace {

/// The rest of a line after `word`, with blanks around both removed; empty for another line.
std::string_view after(std::string_view line, std::string_view word) {
  const auto trim = [](std::string_view& text) {
    while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())))
      text.remove_prefix(1);
  };
  trim(line);
  if (!line.starts_with('#')) return {};
  line.remove_prefix(1);
  trim(line);
  if (!line.starts_with(word)) return {};
  line.remove_prefix(word.size());
  trim(line);
  return line;
}

class OneFile {
 public:
  explicit OneFile(const KernelSource& source) : source_(source) { add(source.text); }
  std::string text() && { return std::move(text_); }

 private:
  void add(std::string_view text) {
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      add_line(text.substr(at, end - at));
      at = end + 1;
    }
  }

  void add_line(std::string_view line) {
    if (after(line, "pragma") == "once") return;
    const std::string_view named = after(line, "include");
    if (const std::string* header = named.empty() ? nullptr : header_of(named))
      return add_header(std::string(named.substr(1, named.rfind('"') - 1)), *header);
    // #if, #ifdef and #ifndef.
    if (!after(line, "if").empty()) ++conditions_;
    if (line.find("#endif") != line.npos) --conditions_;
    text_.append(line) += '\n';
  }

  /// A header that may have been left out by a condition is there once more, with a guard.
  void add_header(const std::string& name, const std::string& text) {
    if (whole_.contains(name)) return;
    if (conditions_ == 0) whole_.insert(name);
    std::string guard = "IN_ONE_FILE_";
    for (const char c : name)
      guard +=
          std::isalnum(static_cast<unsigned char>(c)) ? static_cast<char>(std::toupper(c)) : '_';
    text_ += "// " + name + "\n#ifndef " + guard + "\n#define " + guard + "\n";
    // Its own headers are within the guard, which is open where the header is read.
    add(text);
    text_ += "#endif\n";
  }

  const std::string* header_of(std::string_view named) const {
    if (!named.starts_with('"')) return nullptr;
    const std::string_view name = named.substr(1, named.rfind('"') - 1);
    for (const auto& [header, text] : source_.headers)
      if (header == name) return &text;
    return nullptr;
  }

  const KernelSource& source_;
  std::string text_;
  std::set<std::string> whole_;  // headers that no condition leaves out
  int conditions_ = 0;           // that are open
};

}  // namespace

std::string text_in_one_file(const KernelSpec& kernel) {
  std::string text;
  for (const auto& [name, value] : kernel.defines)
    text += "#define " + name + " " + std::to_string(value) + "\n";
  const KernelSource source = kernel_source(kernel);
  return text + OneFile(source).text();
}

}  // namespace tilewise
