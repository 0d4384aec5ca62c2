#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>

#include "device/cpu/cpu.hpp"
#include "device/cpu/embedded.hpp"
#include "device/cpu/facts.hpp"
#include "device/cpu/files.hpp"
#include "device/cpu/program.hpp"
#include "device/elf.hpp"
#include "tilewise/error.hpp"
#include "vocabulary/text.hpp"

namespace tilewise::cpu {
namespace {

// C++17 as in the kernel dialect; float vectors may alias floats; no contraction into fma; stack
// probes, so that a large frame cannot skip a stack's guard page. An undefined parameter of a
// kernel is an error (NVRTC would use 0 without a warning).
const std::vector<std::string> kFlags{"-std=c++17",
                                      "-I.",
                                      "-fmacro-prefix-map=./=",
                                      "-fPIC",
                                      "-shared",
                                      "-fvisibility=hidden",
                                      "-fno-strict-aliasing",
                                      "-ffp-contract=off",
                                      "-fstack-clash-protection",
                                      "-fno-exceptions",
                                      "-fno-rtti",
                                      "-Werror=undef",
                                      "-Wno-psabi"};

constexpr int kTries = 2;  // if a fault of the system ends a compile

/// The first line of a compiler's --version; empty when it does not run.
std::optional<std::string> version_of(const std::vector<std::string>& compiler) {
  std::vector<std::string> words = compiler;
  words.push_back("--version");
  for (int i = 0; i < kTries; ++i) {
    const ProgramEnd end = run_program(words, "/", {});
    if (!outside_fault(end).empty()) continue;
    if (end.start_error != 0 || end.signal != 0 || end.status != 0) return std::nullopt;
    return end.log.substr(0, end.log.find('\n'));
  }
  return std::nullopt;
}

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (auto at = text.find(from); at != text.npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

/// The kernel after CUDA's built-ins, as C++, with the mark that check_mark() reads before loading.
std::string translation_unit(const KernelSpec& kernel) {
  std::string text = R"(#include "cuda_on_cpu.hpp"
#include "SOURCE"
__attribute__((section(TILEWISE_MARK_SECTION), used)) static const tilewise_host::ImageMark tilewise_mark = {
    TILEWISE_MARK, tilewise_host::kImageRevision, TILEWISE_CPU};
extern "C" __attribute__((visibility("default"))) const tilewise_host::Exports tilewise_image = {
    tilewise_host::kImageRevision, tilewise_host::bytes_of_argument(ENTRY), TILEWISE_CPU,
    &tilewise_host::runtime, [](const void* arguments) { tilewise_host::call(ENTRY, arguments); }};
)";
  replace_all(text, "SOURCE", kernel.source);
  replace_all(text, "ENTRY", kernel.entry);
  return text;
}

class CpuCompiler final : public Compiler {
 public:
  CpuCompiler(std::vector<std::string> program, std::string version, CompilerOptions options)
      : program_(std::move(program)), version_(std::move(version)), keep_in_(options.keep_in) {
    flags_ = kFlags;
    if (processor() == "x86-64 avx2 fma") flags_.insert(flags_.end(), {"-mavx2", "-mfma"});
    for (const std::string& flag : words_of(options.flags)) flags_.push_back(flag);
    std::string text;
    for (int i = 0; i < kEmbeddedHeaderCount; ++i) text += kEmbeddedHeaders[i].text;
    built_ins_ = std::to_string(std::hash<std::string>{}(text));
  }

  std::string identity() const override {
    return version_ + " " + join(flags_, " ") + " built-ins " + built_ins_;
  }
  std::string version() const override { return version_; }
  std::vector<Target> targets() const override {
    std::vector<Target> targets = known_targets();
    for (Target& target : targets) target.host = true;
    return targets;
  }
  CompileResult compile(const CompileRequest& request) const override;

 private:
  CompileResult compile_in(const std::filesystem::path& place, const CompileRequest& request) const;
  std::filesystem::path kept_folder(const CompileRequest& request) const;
  std::vector<std::string> command(const CompileRequest& request) const;
  void write_sources(const CompileRequest& request, const std::filesystem::path& folder) const;

  std::vector<std::string> program_;
  std::string version_, keep_in_, built_ins_;
  std::vector<std::string> flags_;
};

std::vector<std::string> CpuCompiler::command(const CompileRequest& request) const {
  std::vector<std::string> words = program_;
  words.insert(words.end(), flags_.begin(), flags_.end());
  // Features missing on the emulated GPU must also be missing here.
  words.push_back("-D__CUDA_ARCH__=" +
                  std::to_string(request.target.major * 100 + request.target.minor * 10));
  for (const auto& [name, value] : request.kernel.defines)
    words.push_back("-D" + name + "=" + std::to_string(value));
  words.insert(words.end(), {"-o", "image.so", "kernel.cpp"});
  return words;
}

std::filesystem::path CpuCompiler::kept_folder(const CompileRequest& request) const {
  const std::filesystem::path folder =
      std::filesystem::absolute(keep_in_) /
      (request.kernel.entry + "-" +
       std::to_string(std::hash<std::string>{}(to_string(request.kernel))));
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    throw Error(ErrorKind::io, "cannot make the folder " + folder.string() + ": " +
                                   error.message() + " (TILEWISE_HOST_KEEP)");
  return folder;
}

void CpuCompiler::write_sources(const CompileRequest& request,
                                const std::filesystem::path& folder) const {
  const auto write = [&folder](const std::string& name, const std::string& text) {
    const std::filesystem::path file = folder / name;
    std::error_code ignored;  // write_file() reports the error
    std::filesystem::create_directories(file.parent_path(), ignored);
    write_file(file, text.data(), text.size());
  };
  write("kernel.cpp", translation_unit(request.kernel));
  write(request.kernel.source, request.text);
  for (const auto& [name, text] : request.headers) write(name, text);
  for (int i = 0; i < kEmbeddedHeaderCount; ++i)
    write(kEmbeddedHeaders[i].name, kEmbeddedHeaders[i].text);
}

/// Makes one attempt, with its temporary files in `place`. Throws Error(transient) for a fault of
/// the system.
CompileResult CpuCompiler::compile_in(const std::filesystem::path& place,
                                      const CompileRequest& request) const {
  const TemporaryFolder temporary(place);
  const std::filesystem::path folder = keep_in_.empty() ? temporary.path() : kept_folder(request);
  write_sources(request, folder);
  const ProgramEnd end = run_program(command(request), folder, temporary.path());
  if (const std::string fault = outside_fault(end); !fault.empty())
    throw Error(ErrorKind::transient, fault);
  if (!std::filesystem::exists(temporary.path()))
    throw Error(ErrorKind::transient, "the folder " + temporary.path().string() + " is gone");
  if (end.start_error != 0) throw Error(ErrorKind::compiler, end.log);
  CompileResult compiled;
  compiled.log = end.log;
  if (end.signal != 0 || end.status != 0) {
    if (compiled.log.empty()) compiled.log = program_.front() + " failed and gave no reason";
    return compiled;
  }
  const std::string binary = read_file(folder / "image.so");
  Image image;
  image.binary.assign(binary.begin(), binary.end());
  if (!is_whole_elf(image.binary))
    throw Error(ErrorKind::transient, "the compiled binary (" + std::to_string(binary.size()) +
                                          " bytes) is no shared library or is cut short");
  image.kernel = request.kernel;
  image.target = request.target;
  image.log = compiled.log;
  compiled.image = std::move(image);
  return compiled;
}

/// Compiles once more, in another temporary place if there is one, if the compiler was killed or
/// ran out of space or memory: such an end is no verdict on the kernel.
CompileResult CpuCompiler::compile(const CompileRequest& request) const {
  if (!request.target.host)
    throw Error(ErrorKind::unsupported,
                version_ + " compiles for the CPU (host), not for " + to_string(request.target));
  const auto start = std::chrono::steady_clock::now();
  const std::string compiling = "compiling " + to_string(request.kernel) + ": ";
  const std::vector<std::filesystem::path> places = temporary_places();
  std::string faults = places.empty() ? "no place for temporary files" : "";
  for (std::size_t i = 0; i < kTries && !places.empty(); ++i) {
    const std::filesystem::path& place = places[std::min(i, places.size() - 1)];
    try {
      CompileResult compiled = compile_in(place, request);
      const std::chrono::duration<double, std::milli> taken =
          std::chrono::steady_clock::now() - start;
      compiled.milliseconds = taken.count();
      if (compiled.image) compiled.image->compile_ms = compiled.milliseconds;
      return compiled;
    } catch (const Error& error) {
      const bool may_pass = error.kind() == ErrorKind::transient ||
                            (error.kind() == ErrorKind::io && keep_in_.empty());
      if (!may_pass) throw Error(error.kind(), compiling + error.what());
      faults += (faults.empty() ? "" : "; then ") + std::string(error.what()) +
                " (temporary files in " + place.string() + ")";
    }
  }
  throw Error(ErrorKind::transient, compiling + faults);
}

}  // namespace

CompilerOptions compiler_options_from_environment() {
  CompilerOptions options;
  if (const std::string flags = environment_variable("TILEWISE_HOST_FLAGS"); !flags.empty())
    options.flags = flags;
  options.keep_in = environment_variable("TILEWISE_HOST_KEEP");
  return options;
}

std::unique_ptr<Compiler> load_compiler(const CompilerOptions& options) {
  std::vector<std::string> candidates{"c++", "g++", "clang++"};
  for (const char* name : {"CXX", "TILEWISE_CXX"})
    if (const std::string named = environment_variable(name); !named.empty()) candidates = {named};
  for (const std::string& candidate : candidates) {
    const std::vector<std::string> program = words_of(candidate);
    if (program.empty()) continue;
    if (const auto version = version_of(program))
      return std::make_unique<CpuCompiler>(program, *version, options);
  }
  throw Error(ErrorKind::compiler,
              "no C++ compiler to compile kernels for the CPU with; tried " +
                  join(candidates, " ") +
                  "; install one (g++ or clang++), or name it by TILEWISE_CXX");
}

}  // namespace tilewise::cpu
