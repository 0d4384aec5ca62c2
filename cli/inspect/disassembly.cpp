#include "cli/inspect/disassembly.hpp"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <string_view>

#include "cli/common/program_output.hpp"
#include "tilewise/error.hpp"

namespace tilewise::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTools[] = {"nvdisasm", "cuobjdump"};

/// The first tool that one of the folders contains.
std::string tool_in(const std::vector<fs::path>& folders) {
  for (const char* tool : kTools)
    for (const fs::path& folder : folders)
      if (is_program(folder / tool)) return folder / tool;
  return "";
}

/// Adds the program folders of NVIDIA's wheels in an environment.
void add_wheels(std::vector<fs::path>& folders, const fs::path& environment) {
  std::error_code ignored;
  for (const auto& python : fs::directory_iterator(environment / "lib", ignored))
    for (const auto& wheel :
         fs::directory_iterator(python.path() / "site-packages" / "nvidia", ignored))
      folders.push_back(wheel.path() / "bin");
}

std::vector<fs::path> disassembler_folders() {
  std::vector<fs::path> folders = toolkit_folders();
  if (const char* active = std::getenv("VIRTUAL_ENV"); active && *active)
    add_wheels(folders, active);
  std::error_code ignored;
  const fs::path own = fs::read_symlink("/proc/self/exe", ignored);
  for (fs::path above = own.parent_path(); above.has_relative_path(); above = above.parent_path())
    for (const auto& environment : fs::directory_iterator(above / ".tilewise", ignored))
      add_wheels(folders, environment.path());
  return folders;
}

/// A file with a cubin, removed by the destructor.
class CubinFile {
 public:
  explicit CubinFile(const std::vector<std::uint8_t>& cubin) {
    std::error_code ignored;
    path_ = (fs::temp_directory_path(ignored) / "tilewise-cubin-XXXXXX").string();
    const int file = mkstemp(path_.data());
    const bool whole =
        file >= 0 && write(file, cubin.data(), cubin.size()) == static_cast<ssize_t>(cubin.size());
    const std::string why = std::strerror(errno);
    if (file >= 0) close(file);
    if (whole) return;
    unlink(path_.c_str());
    throw Error(ErrorKind::io, "cannot write " + path_ + ": " + why);
  }
  CubinFile(const CubinFile&) = delete;
  CubinFile& operator=(const CubinFile&) = delete;
  ~CubinFile() { unlink(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

InstructionMix sorted(const std::map<std::string, std::int64_t>& counts) {
  InstructionMix mix(counts.begin(), counts.end());
  std::stable_sort(mix.begin(), mix.end(),
                   [](const auto& x, const auto& y) { return x.second > y.second; });
  return mix;
}

/// The next word of a line from `at`, which moves to the end of the word.
std::string_view word_of(std::string_view line, std::size_t& at) {
  at = std::min(line.find_first_not_of(" \t", at), line.size());
  const std::size_t begin = at;
  at = std::min(line.find_first_of(" \t;", at), line.size());
  return line.substr(begin, at - begin);
}

/// Calls `visit` for each line.
template <class Visit>
void for_each_line(const std::string& text, Visit visit) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    visit(std::string_view(text).substr(at, end - at));
    at = end + 1;
  }
}

/// Counts the instruction whose first word begins at `at`, after a predicate ("@!P0").
void count_at(std::string_view line, std::size_t at, std::map<std::string, std::int64_t>& counts) {
  std::string_view word = word_of(line, at);
  if (word.starts_with('@')) word = word_of(line, at);
  const std::string name(word.substr(0, word.find('.')));
  if (!name.empty() && std::isalpha(static_cast<unsigned char>(name[0]))) ++counts[name];
}

}  // namespace

std::string find_disassembler(const std::string& named) {
  if (!named.empty()) {
    if (is_program(named)) return named;
    if (const std::string found = tool_in({named}); !found.empty()) return found;
    throw Error(ErrorKind::io,
                "--disassembler: there is no nvdisasm or cuobjdump at '" + named + "'");
  }
  for (const char* tool : kTools)
    if (std::string found = find_program(tool); !found.empty()) return found;
  if (std::string found = tool_in(disassembler_folders()); !found.empty()) return found;
  throw Error(
      ErrorKind::unsupported,
      "SASS is printed by NVIDIA's nvdisasm or cuobjdump, and neither was found on PATH, in "
      "CUDA_HOME, in /usr/local/cuda or in pip's wheels; a CUDA toolkit has both, and so "
      "has `pip install nvidia-cuda-nvdisasm`; --disassembler names one (--ptx needs "
      "neither)");
}

std::string disassemble(const std::string& tool, const std::vector<std::uint8_t>& cubin) {
  const CubinFile file(cubin);
  const bool dump = fs::path(tool).filename().string().find("cuobjdump") != std::string::npos;
  const auto output = output_of({tool, dump ? "-sass" : "-c", file.path()}, true);
  if (!output) throw Error(ErrorKind::io, "cannot start " + tool);
  if (output->status != 0)
    throw Error(ErrorKind::io, tool + " failed: " + output->text.substr(0, 500));
  return output->text;
}

// Instruction lines look like "        /*0010*/              @!P0 FFMA R1, R2, R3, R4 ;". In
// cuobjdump's output, lines with only an encoding ("/* 0x000 */") are in between.
InstructionMix mix_of_sass(const std::string& text) {
  std::map<std::string, std::int64_t> counts;
  for_each_line(text, [&](std::string_view line) {
    const std::size_t open = line.find("/*");
    if (open == line.npos || line.find_first_not_of(" \t") != open) return;
    const std::size_t close = line.find("*/", open);
    if (close == line.npos || close == open + 2) return;
    const std::string_view address = line.substr(open + 2, close - open - 2);
    if (address.find_first_not_of("0123456789abcdef") != address.npos) return;
    count_at(line, close + 2, counts);
  });
  return sorted(counts);
}

// "	@%p1 bra 	$L__BB0_2;". Directives begin with a dot, labels end with a colon.
InstructionMix mix_of_ptx(const std::string& text) {
  std::map<std::string, std::int64_t> counts;
  int depth = 0;
  for_each_line(text, [&](std::string_view line) {
    const std::size_t begin = line.find_first_not_of(" \t{");
    for (const char c : line) depth += c == '{' ? 1 : c == '}' ? -1 : 0;
    if (begin == line.npos || depth < 1 || line.find(';') == line.npos) return;
    if (line.substr(begin, 2) == "//" || line.find(':') < line.find(';')) return;
    count_at(line, begin, counts);
  });
  return sorted(counts);
}

}  // namespace tilewise::cli
