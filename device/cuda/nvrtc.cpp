#include <nvrtc.h>

#include <algorithm>
#include <chrono>

#include "device/cuda/cuda.hpp"
#include "device/cuda/driver.hpp"
#include "device/cuda/library.hpp"
#include "device/cuda/ptxas_log.hpp"
#include "tilewise/error.hpp"
#include "vocabulary/text.hpp"

namespace tilewise::cuda {
namespace {

constexpr int kOldestNvrtc = 12;

/// The functions of NVRTC in use; their signatures are the same from version 12.0 on.
struct NvrtcApi {
  Library library;
  decltype(&::nvrtcVersion) version = nullptr;
  decltype(&::nvrtcGetNumSupportedArchs) architecture_count = nullptr;
  decltype(&::nvrtcGetSupportedArchs) architectures = nullptr;
  decltype(&::nvrtcGetErrorString) error_string = nullptr;
  decltype(&::nvrtcCreateProgram) create_program = nullptr;
  decltype(&::nvrtcDestroyProgram) destroy_program = nullptr;
  decltype(&::nvrtcCompileProgram) compile_program = nullptr;
  decltype(&::nvrtcGetProgramLogSize) log_size = nullptr;
  decltype(&::nvrtcGetProgramLog) log = nullptr;
  decltype(&::nvrtcGetCUBINSize) cubin_size = nullptr;
  decltype(&::nvrtcGetCUBIN) cubin = nullptr;
  decltype(&::nvrtcGetPTXSize) ptx_size = nullptr;
  decltype(&::nvrtcGetPTX) ptx = nullptr;

  explicit NvrtcApi(Library opened) : library(std::move(opened)) {
    const auto need = [this](auto& function, const char* symbol) {
      if (!library.get(function, symbol)) {
        throw Error(ErrorKind::compiler, "it lacks " + std::string(symbol));
      }
    };
    need(version, "nvrtcVersion");
    need(architecture_count, "nvrtcGetNumSupportedArchs");
    need(architectures, "nvrtcGetSupportedArchs");
    need(error_string, "nvrtcGetErrorString");
    need(create_program, "nvrtcCreateProgram");
    need(destroy_program, "nvrtcDestroyProgram");
    need(compile_program, "nvrtcCompileProgram");
    need(log_size, "nvrtcGetProgramLogSize");
    need(log, "nvrtcGetProgramLog");
    need(cubin_size, "nvrtcGetCUBINSize");
    need(cubin, "nvrtcGetCUBIN");
    // Needed only by ptx().
    if (!library.get(ptx_size, "nvrtcGetPTXSize") || !library.get(ptx, "nvrtcGetPTX"))
      ptx_size = nullptr, ptx = nullptr;
  }

  void check(nvrtcResult result, const std::string& tried) const {
    if (result != NVRTC_SUCCESS) {
      const ErrorKind kind =
          result == NVRTC_ERROR_OUT_OF_MEMORY ? ErrorKind::out_of_memory : ErrorKind::compiler;
      throw Error(kind, tried + " failed: " + error_string(result));
    }
  }
};

std::vector<const char*> pointers(const std::vector<std::string>& texts) {
  std::vector<const char*> result;
  for (const std::string& text : texts) result.push_back(text.c_str());
  return result;
}

/// One NVRTC program, from source to binary.
class Program {
 public:
  using Headers = std::vector<std::pair<std::string, std::string>>;

  Program(const NvrtcApi& api, const std::string& name, const std::string& text,
          const Headers& headers)
      : api_(api) {
    std::vector<const char*> names, texts;
    for (const auto& [header, content] : headers) {
      names.push_back(header.c_str());
      texts.push_back(content.c_str());
    }
    api_.check(api_.create_program(&program_, text.c_str(), name.c_str(),
                                   static_cast<int>(names.size()), texts.data(), names.data()),
               "giving " + name + " to NVRTC");
  }
  ~Program() { api_.destroy_program(&program_); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  nvrtcResult compile(const std::vector<std::string>& options) {
    return api_.compile_program(program_, static_cast<int>(options.size()),
                                pointers(options).data());
  }

  std::string log() const {
    std::size_t size = 0;
    api_.check(api_.log_size(program_, &size), "reading NVRTC's log");
    std::string text(size, '\0');
    if (size > 0) api_.check(api_.log(program_, text.data()), "reading NVRTC's log");
    while (!text.empty() && (text.back() == '\0' || text.back() == '\n')) text.pop_back();
    return text;
  }

  std::vector<std::uint8_t> binary() const {
    std::size_t size = 0;
    api_.check(api_.cubin_size(program_, &size), "reading NVRTC's binary");
    std::vector<std::uint8_t> bytes(size);
    api_.check(api_.cubin(program_, reinterpret_cast<char*>(bytes.data())),
               "reading NVRTC's binary");
    return bytes;
  }

  std::string ptx() const {
    std::size_t size = 0;
    api_.check(api_.ptx_size(program_, &size), "reading NVRTC's PTX");
    std::string text(size, '\0');
    if (size > 0) api_.check(api_.ptx(program_, text.data()), "reading NVRTC's PTX");
    while (!text.empty() && text.back() == '\0') text.pop_back();
    return text;
  }

 private:
  const NvrtcApi& api_;
  nvrtcProgram program_ = nullptr;
};

/// Whether a binary has a kernel of this name: its code is in a section named after it.
bool has_kernel(const std::vector<std::uint8_t>& binary, const std::string& entry) {
  const std::string section = ".text." + entry;
  const auto* begin = reinterpret_cast<const std::uint8_t*>(section.c_str());
  // Includes the terminating zero, so that "simt" is not found in "simt_wide".
  return std::search(binary.begin(), binary.end(), begin, begin + section.size() + 1) !=
         binary.end();
}

class Nvrtc final : public Compiler {
 public:
  explicit Nvrtc(Library library) : api_(std::move(library)) {
    api_.check(api_.version(&major_, &minor_), "reading NVRTC's version");
    if (major_ < kOldestNvrtc) {
      throw Error(ErrorKind::compiler, "it is " + version() + ", and " +
                                           std::to_string(kOldestNvrtc) + ".0 or newer is needed");
    }
    read_architectures();
    // Options of later versions; an unknown option is an error, so each is tried.
    for (const char* option : {"--modify-stack-limit=false", "--no-cache"}) {
      if (Program(api_, "option.cu", "", {}).compile({option}) == NVRTC_SUCCESS) {
        options_.push_back(option);
      }
    }
  }

  std::string identity() const override { return version() + " " + join(options_, " "); }
  std::string version() const override {
    return "NVRTC " + std::to_string(major_) + "." + std::to_string(minor_);
  }
  std::vector<Target> targets() const override { return targets_; }

  CompileResult compile(const CompileRequest& request) const override;
  std::string ptx(const CompileRequest& request) const override;

 private:
  void check_target(const Target& target) const;
  void read_architectures();
  std::vector<std::string> options_for(const CompileRequest& request) const;

  NvrtcApi api_;
  int major_ = 0, minor_ = 0;
  std::vector<Target> targets_;
  std::vector<std::string> options_{"-default-device", "-std=c++17", "--ptxas-options=-v"};
};

void Nvrtc::read_architectures() {
  int count = 0;
  api_.check(api_.architecture_count(&count), "reading NVRTC's targets");
  std::vector<int> numbers(static_cast<std::size_t>(count));
  api_.check(api_.architectures(numbers.data()), "reading NVRTC's targets");
  for (const int number : numbers) {
    const Target plain{number / 10, number % 10, false};
    targets_.push_back(plain);
    // From 9.0 on, the 'a' target has additional instructions.
    if (plain.major >= 9) targets_.push_back({plain.major, plain.minor, true});
  }
}

std::vector<std::string> Nvrtc::options_for(const CompileRequest& request) const {
  std::vector<std::string> options = options_;
  options.push_back("-arch=" + to_string(request.target));
  for (const auto& [name, value] : request.kernel.defines) {
    options.push_back("-D" + name + "=" + std::to_string(value));
    if (name == kMaxRegisters && value > 0)
      options.push_back("--maxrregcount=" + std::to_string(value));
  }
  return options;
}

/// Why a compiled kernel is refused; empty if it is accepted.
std::string slowed(const ResourceUsage& usage, const KernelSpec& kernel, const std::string& log) {
  const auto no_spills = kernel.defines.find(std::string(kNoSpills));
  if (no_spills != kernel.defines.end() && no_spills->second == 1 && usage.spill_bytes > 0)
    return "it spills " + std::to_string(usage.spill_bytes) + " bytes of registers per thread";
  return serialisation_in_log(log);
}

void Nvrtc::check_target(const Target& target) const {
  if (std::find(targets_.begin(), targets_.end(), target) != targets_.end()) return;
  std::vector<std::string> names;
  for (const Target& known : targets_) names.push_back(to_string(known));
  throw Error(ErrorKind::unsupported, version() + " cannot compile for " + to_string(target) +
                                          "; it can for " + join(names));
}

std::string Nvrtc::ptx(const CompileRequest& request) const {
  check_target(request.target);
  if (!api_.ptx) throw Error(ErrorKind::unsupported, "this NVRTC lacks nvrtcGetPTX");
  Program program(api_, request.kernel.source, request.text, request.headers);
  const nvrtcResult result = program.compile(options_for(request));
  api_.check(result, "compiling " + to_string(request.kernel) + " (" + program.log() + ")");
  return program.ptx();
}

CompileResult Nvrtc::compile(const CompileRequest& request) const {
  check_target(request.target);
  const auto start = std::chrono::steady_clock::now();
  Program program(api_, request.kernel.source, request.text, request.headers);
  const nvrtcResult result = program.compile(options_for(request));
  CompileResult compiled;
  compiled.log = program.log();
  const auto finish = [&] {
    const std::chrono::duration<double, std::milli> taken =
        std::chrono::steady_clock::now() - start;
    compiled.milliseconds = taken.count();
  };
  if (result == NVRTC_ERROR_COMPILATION) {
    finish();
    return compiled;
  }
  // The source does not cause any other failure.
  api_.check(result, "compiling " + to_string(request.kernel) +
                         (compiled.log.empty() ? "" : " (" + compiled.log + ")"));
  Image image;
  image.binary = program.binary();
  finish();
  if (!has_kernel(image.binary, request.kernel.entry)) {
    compiled.log += "\n" + request.kernel.source + ": no kernel extern \"C\" __global__ named \"" +
                    request.kernel.entry + "\"";
    return compiled;
  }
  image.kernel = request.kernel;
  image.target = request.target;
  image.log = compiled.log;
  image.usage = usage_in_log(compiled.log, request.kernel.entry);
  if (const std::string why = slowed(image.usage, request.kernel, compiled.log); !why.empty()) {
    compiled.log += "\n" + request.kernel.source + ": refused: " + why;
    return compiled;
  }
  image.compile_ms = compiled.milliseconds;
  compiled.image = std::move(image);
  return compiled;
}

}  // namespace

std::unique_ptr<Compiler> load_compiler(const std::string& path) {
  const LibrarySearch search =
      find_library({"libnvrtc", {13, 12}, path, "TILEWISE_NVRTC"}, driver_major());
  std::vector<std::string> refused;
  for (const LibraryCandidate& candidate : search.candidates) {
    std::string why;
    Library library = open_with_neighbours(candidate, {"libnvrtc-builtins"}, why);
    if (!library) {
      refused.push_back(why);
      continue;
    }
    try {
      return std::make_unique<Nvrtc>(std::move(library));
    } catch (const Error& error) {
      refused.push_back(candidate.path + ": " + error.what());
    }
  }
  std::string message = "no NVRTC (libnvrtc.so.13 or libnvrtc.so.12) to compile kernels with";
  message += "; looked in " + join(search.places);
  if (!refused.empty()) message += "; tried: " + join(refused, "; ");
  message +=
      "; install a CUDA toolkit, or NVRTC alone with `pip install nvidia-cuda-nvrtc`, or name "
      "its file or folder by TILEWISE_NVRTC";
  throw Error(ErrorKind::compiler, message);
}

}  // namespace tilewise::cuda
