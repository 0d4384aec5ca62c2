#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <optional>
#include <sstream>

#include "device/host/embedded.hpp"
#include "device/host/facts.hpp"
#include "device/host/files.hpp"
#include "device/host/host.hpp"
#include "tilewise/error.hpp"

namespace tilewise::host {
namespace {

// C++ as the kernel dialect is written; float vectors alias plain floats; nothing is contracted
// behind the kernel's back; a frame that is larger than a page cannot step over a stack's guard. A
// parameter that a kernel asks for and its plan does not give is an error, not 0: NVRTC would say
// nothing.
const std::vector<std::string> kFlags{"-std=c++17",
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

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

/// The first line of what a compiler says its version is; nothing when it does not run.
std::optional<std::string> version_of(const std::vector<std::string>& compiler) {
  const TemporaryFolder folder;
  std::vector<std::string> words = compiler;
  words.push_back("--version");
  std::string log;
  if (run_program(words, folder.path(), log) != 0) return std::nullopt;
  return log.substr(0, log.find('\n'));
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (auto at = text.find(from); at != text.npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

/// Kernels are C++ to this compiler, behind CUDA's built-ins; `entry` is what the program asks for.
std::string translation_unit(const KernelSpec& kernel) {
  std::string text = R"(#include "cuda_on_cpu.hpp"
#include "SOURCE"
extern "C" __attribute__((visibility("default"))) const tilewise_host::Exports tilewise_image = {
    tilewise_host::kImageRevision, tilewise_host::bytes_of_argument(ENTRY), tilewise_host::kCpu,
    &tilewise_host::runtime, [](const void* arguments) { tilewise_host::call(ENTRY, arguments); }};
)";
  replace_all(text, "SOURCE", kernel.source);
  replace_all(text, "ENTRY", kernel.entry);
  return text;
}

class HostCompiler final : public Compiler {
 public:
  HostCompiler(std::vector<std::string> program, std::string version, CompilerOptions options)
      : program_(std::move(program)), version_(std::move(version)), keep_in_(options.keep_in) {
    flags_ = kFlags;
    if (processor() == "x86-64 avx2 fma") flags_.insert(flags_.end(), {"-mavx2", "-mfma"});
    for (const std::string& flag : words_of(options.flags)) flags_.push_back(flag);
    std::string text;
    for (int i = 0; i < kEmbeddedHeaderCount; ++i) text += kEmbeddedHeaders[i].text;
    built_ins_ = std::to_string(std::hash<std::string>{}(text));
  }

  std::string identity() const override {
    return version_ + " " + joined(flags_) + " built-ins " + built_ins_;
  }
  std::string version() const override { return version_; }
  std::vector<Target> targets() const override {
    std::vector<Target> targets = known_targets();
    for (Target& target : targets) target.host = true;
    return targets;
  }
  CompileResult compile(const CompileRequest& request) const override;

 private:
  std::vector<std::string> command(const CompileRequest& request) const;
  void write_sources(const CompileRequest& request, const std::filesystem::path& folder) const;

  std::vector<std::string> program_;
  std::string version_, keep_in_, built_ins_;
  std::vector<std::string> flags_;
};

std::vector<std::string> HostCompiler::command(const CompileRequest& request) const {
  std::vector<std::string> words = program_;
  words.insert(words.end(), flags_.begin(), flags_.end());
  // What the emulated GPU lacks must be lacking here too.
  words.push_back("-D__CUDA_ARCH__=" +
                  std::to_string(request.target.major * 100 + request.target.minor * 10));
  for (const auto& [name, value] : request.kernel.defines)
    words.push_back("-D" + name + "=" + std::to_string(value));
  words.insert(words.end(), {"-o", "image.so", "kernel.cpp"});
  return words;
}

void HostCompiler::write_sources(const CompileRequest& request,
                                 const std::filesystem::path& folder) const {
  const auto write = [&folder](const std::string& name, const std::string& text) {
    write_file(folder / name, text.data(), text.size());
  };
  write("kernel.cpp", translation_unit(request.kernel));
  write(request.kernel.source, request.text);
  for (const auto& [name, text] : request.headers) write(name, text);
  for (int i = 0; i < kEmbeddedHeaderCount; ++i)
    write(kEmbeddedHeaders[i].name, kEmbeddedHeaders[i].text);
}

CompileResult HostCompiler::compile(const CompileRequest& request) const {
  if (!request.target.host)
    throw Error(ErrorKind::unsupported,
                version_ + " compiles for the CPU (host), not for " + to_string(request.target));
  const auto start = std::chrono::steady_clock::now();
  const TemporaryFolder temporary;
  std::filesystem::path folder = temporary.path();
  if (!keep_in_.empty()) {
    folder = std::filesystem::absolute(keep_in_) /
             (request.kernel.entry + "-" +
              std::to_string(std::hash<std::string>{}(to_string(request.kernel))));
    std::filesystem::create_directories(folder);
  }
  write_sources(request, folder);
  CompileResult compiled;
  const int status = run_program(command(request), folder, compiled.log);
  const auto finish = [&] {
    const std::chrono::duration<double, std::milli> taken =
        std::chrono::steady_clock::now() - start;
    compiled.milliseconds = taken.count();
  };
  if (status < 0)
    throw Error(ErrorKind::compiler,
                "compiling " + to_string(request.kernel) + ": " + compiled.log);
  if (status != 0) {
    finish();
    if (compiled.log.empty()) compiled.log = program_.front() + " failed and gave no reason";
    return compiled;
  }
  const std::string binary = read_file(folder / "image.so");
  finish();
  Image image;
  image.binary.assign(binary.begin(), binary.end());
  image.kernel = request.kernel;
  image.target = request.target;
  image.log = compiled.log;
  image.compile_ms = compiled.milliseconds;
  compiled.image = std::move(image);
  return compiled;
}

}  // namespace

CompilerOptions compiler_options_from_environment() {
  CompilerOptions options;
  if (const std::string flags = variable("TILEWISE_HOST_FLAGS"); !flags.empty())
    options.flags = flags;
  options.keep_in = variable("TILEWISE_HOST_KEEP");
  return options;
}

std::unique_ptr<Compiler> load_compiler(const CompilerOptions& options) {
  std::vector<std::string> candidates{"c++", "g++", "clang++"};
  for (const char* name : {"CXX", "TILEWISE_CXX"})
    if (const std::string named = variable(name); !named.empty()) candidates = {named};
  for (const std::string& candidate : candidates) {
    const std::vector<std::string> program = words_of(candidate);
    if (program.empty()) continue;
    if (const auto version = version_of(program))
      return std::make_unique<HostCompiler>(program, *version, options);
  }
  throw Error(ErrorKind::compiler,
              "no C++ compiler to compile kernels for the CPU with; tried " + joined(candidates) +
                  "; install one (g++ or clang++), or name it by TILEWISE_CXX");
}

}  // namespace tilewise::host
