#include "templates/sources.hpp"

#include <algorithm>
#include <cctype>
#include <deque>
#include <mutex>

#include "templates/embedded_sources.hpp"
#include "templates/plan/pointwise.hpp"
#include "tilewise/error.hpp"

namespace tilewise {
namespace {

/// Headers are all files of templates/ but kernels: sources include no headers of the machine.
bool is_header(std::string_view name) { return !name.ends_with(".cu"); }

std::deque<KernelSource> built_in() {
  std::vector<std::pair<std::string, std::string>> headers;
  std::deque<KernelSource> sources;
  for (int i = 0; i < kEmbeddedSourceCount; ++i) {
    const EmbeddedSource& file = kEmbeddedSources[i];
    if (is_header(file.name))
      headers.emplace_back(file.name, file.text);
    else
      sources.push_back({file.name, file.text, {}});
  }
  for (KernelSource& source : sources) source.headers = headers;
  return sources;
}

std::deque<KernelSource>& sources() {
  static std::deque<KernelSource> all = built_in();
  return all;
}

/// The text without comments and empty lines, and with every run of blanks as one space.
std::string essence(std::string_view text) {
  std::string out;
  const auto blank = [&] {
    if (!out.empty() && out.back() != ' ' && out.back() != '\n') out += ' ';
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i, 2) == "//") {
      i = std::min(text.find('\n', i), text.size()) - 1;
      continue;
    }
    if (text.substr(i, 2) == "/*") {
      i = std::min(text.find("*/", i), text.size()) + 1;
      blank();
    } else if (text[i] == '\n') {
      // Line ends matter to the preprocessor; empty lines do not.
      while (!out.empty() && out.back() == ' ') out.pop_back();
      if (!out.empty() && out.back() != '\n') out += '\n';
    } else if (std::isspace(static_cast<unsigned char>(text[i]))) {
      blank();
    } else if (text[i] == '"') {
      const std::size_t end = text.find('"', i + 1);
      const std::size_t stop = end == text.npos ? text.size() - 1 : end;
      out += text.substr(i, stop - i + 1);
      i = stop;
    } else {
      out += text[i];
    }
  }
  return out;
}

bool names(std::string_view text, const std::string& header) {
  return text.find("#include \"" + header + '"') != text.npos;
}

/// The headers that a source includes, directly or through others, as indices in source.headers.
std::vector<std::size_t> included(const KernelSource& source) {
  std::vector<std::size_t> found;
  std::vector<bool> taken(source.headers.size(), false);
  const auto add_from = [&](std::string_view text) {
    for (std::size_t i = 0; i < source.headers.size(); ++i)
      if (!taken[i] && names(text, source.headers[i].first)) taken[i] = true, found.push_back(i);
  };
  add_from(source.text);
  for (std::size_t i = 0; i < found.size(); ++i) add_from(source.headers[found[i]].second);
  return found;
}

/// The essence of a source and of the headers it includes.
std::string with_includes(const KernelSource& source) {
  std::string all = essence(source.text);
  for (const std::size_t i : included(source)) all += essence(source.headers[i].second);
  return all;
}

/// Hash of a source and its headers. Cached: the tuner needs it for every candidate.
const std::string& text_hash(const KernelSource& source) {
  static std::mutex mutex;
  static std::deque<std::pair<const KernelSource*, std::string>> known;
  const std::lock_guard lock(mutex);
  for (const auto& [of, hash] : known)
    if (of == &source) return hash;
  const std::string all = with_includes(source);
  known.emplace_back(&source, hash_text(all));
  return known.back().second;
}

}  // namespace

const KernelSource& kernel_source(std::string_view name) {
  for (const KernelSource& source : sources())
    if (source.name == name) return source;
  throw Error(ErrorKind::not_found, "no kernel source '" + std::string(name) + "' in this program");
}

KernelSource kernel_source(const KernelSpec& kernel) {
  KernelSource source = kernel_source(kernel.source);
  if (!kernel.epilogue.empty())
    source.headers.emplace_back("pointwise_source.cuh",
                                pointwise_header(*interned(kernel.epilogue)));
  return source;
}

void add_kernel_source(KernelSource source) {
  for (const KernelSource& known : sources())
    if (known.name == source.name)
      throw Error(ErrorKind::invalid_argument, "a kernel source '" + source.name + "' exists");
  sources().push_back(std::move(source));
}

std::vector<std::string> kernel_source_names() {
  std::vector<std::string> names;
  for (const KernelSource& source : sources()) names.push_back(source.name);
  return names;
}

bool includes(const KernelSource& source, std::string_view header) {
  const std::vector<std::size_t> all = included(source);
  return std::any_of(all.begin(), all.end(),
                     [&](std::size_t i) { return source.headers[i].first == header; });
}

std::string kernel_text_hash(std::string_view name) { return text_hash(kernel_source(name)); }

std::string source_hash(const KernelSpec& kernel, std::string_view compiler) {
  std::string all = text_hash(kernel_source(kernel.source)) + '\n' + to_string(kernel) + '\n';
  if (!kernel.epilogue.empty()) all += pointwise_header(*interned(kernel.epilogue));
  all += compiler;
  return hash_text(all);
}

}  // namespace tilewise
