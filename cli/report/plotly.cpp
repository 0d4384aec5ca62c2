// Finds plotly.js, a part of pip's package plotly.
#include <filesystem>
#include <fstream>
#include <iterator>

#include "cli/common/program_output.hpp"
#include "cli/report/report_page.hpp"
#include "tilewise/error.hpp"
#include "vocabulary/text.hpp"

namespace tilewise::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFile = "plotly.min.js";

/// The file at a path or in a folder: plotly.js itself, a package, or an environment.
std::string file_at(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_regular_file(path, ignored)) return path;
  for (const char* inside : {"", "package_data", "plotly/package_data"})
    if (const fs::path file = path / inside / kFile; fs::is_regular_file(file, ignored))
      return file;
  for (const auto& entry : fs::directory_iterator(path / "lib", ignored))
    if (const fs::path file = entry.path() / "site-packages" / "plotly" / "package_data" / kFile;
        fs::is_regular_file(file, ignored))
      return file;
  return "";
}

/// A Python's package plotly, found without importing it.
std::string package_of(const std::string& python) {
  const auto found = output_of({python, "-c",
                                "import importlib.util as u; s = u.find_spec('plotly'); "
                                "print(list(s.submodule_search_locations)[0] if s else '')"});
  if (!found || found->status != 0) return "";
  return found->text.substr(0, found->text.find('\n'));
}

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file) throw Error(ErrorKind::io, "cannot read " + path);
  return text;
}

Plotly read_plotly(const std::string& path) {
  Plotly plotly{path, text_of(path), "", ""};
  const std::string head = plotly.text.substr(0, 1000);
  if (const auto at = head.find("plotly.js v"); at != std::string::npos) {
    const auto begin = at + 11;
    plotly.version = head.substr(begin, head.find_first_not_of("0123456789.", begin) - begin);
  }
  if (const auto at = head.find("Copyright"); at != std::string::npos)
    plotly.copyright = head.substr(at, head.find_first_of("\r\n", at) - at);
  if (plotly.text.find("Plotly") == std::string::npos)
    throw Error(ErrorKind::io, path + " is not plotly.js");
  return plotly;
}

}  // namespace

Plotly find_plotly(const std::string& named) {
  const std::string variable = environment_variable("TILEWISE_PLOTLY");
  for (const auto& [origin, path] :
       {std::pair<std::string, std::string>{"--plotly", named}, {"TILEWISE_PLOTLY", variable}}) {
    if (path.empty()) continue;
    const std::string file = file_at(path);
    if (file.empty())
      throw Error(ErrorKind::io, origin + ": there is no " + kFile + " at '" + path + "'");
    return read_plotly(file);
  }
  if (const std::string active = environment_variable("VIRTUAL_ENV"); !active.empty())
    if (const std::string file = file_at(active); !file.empty()) return read_plotly(file);
  if (const std::string python = find_program("python3"); !python.empty())
    if (const std::string package = package_of(python); !package.empty())
      if (const std::string file = file_at(package); !file.empty()) return read_plotly(file);
  throw Error(ErrorKind::unsupported,
              "the report's figures are drawn by plotly.js, which was not found; pip's package "
              "plotly has it: python3 -m venv .tilewise/plotly && .tilewise/plotly/bin/pip install "
              "plotly, then TILEWISE_PLOTLY=.tilewise/plotly autotune report ... (./autotune finds "
              "it there by itself)");
}

}  // namespace tilewise::cli
