// Host time of cublasGemmEx by itself and through the drop-in: 64 x 64 x 64 in bf16. Without a
// record the drop-in passes it through; with TILEWISE_DROP_IN_ALWAYS=1, or a record that is faster
// than cuBLAS, it answers. Both are measured alternately in one process.
#include <dlfcn.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "device/device.hpp"
#include "device/machines.hpp"
#include "drop_in/abi.hpp"
#include "vocabulary/record.hpp"

using namespace tilewise;
using drop_in::Handle;
using drop_in::Status;

namespace {

using GemmEx = Status(Handle, int, int, int, int, int, const void*, const void*, int, int,
                      const void*, int, int, const void*, void*, int, int, int, int);

template <class Function>
Function* function_of(void* library, const char* name) {
  void* const found = library ? dlsym(library, name) : nullptr;
  if (!found) throw std::runtime_error(std::string("no ") + name + ": " + dlerror());
  return reinterpret_cast<Function*>(found);
}

/// Host time of a call in us, the mean of `calls` calls on an initially empty stream.
double host_us(Device& device, GemmEx* multiply, Handle handle, void* matrix, int calls) {
  const float alpha = 1, beta = 0;
  constexpr int kSize = 64;
  device.synchronize(nullptr);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i) {
    const Status status = multiply(
        handle, 0, 0, kSize, kSize, kSize, &alpha, matrix, drop_in::kBf16, kSize,
        static_cast<char*>(matrix) + 16'384, drop_in::kBf16, kSize, &beta,
        static_cast<char*>(matrix) + 32'768, drop_in::kBf16, kSize, drop_in::kCompute32, -1);
    if (status != drop_in::kSuccess)
      throw std::runtime_error("cublasGemmEx: status " + std::to_string(status));
  }
  const std::chrono::duration<double, std::micro> spent = std::chrono::steady_clock::now() - begin;
  device.synchronize(nullptr);
  return spent.count() / calls;
}

int run(int argc, char** argv) {
  std::string library, cublas = "libcublas.so.13";
  int calls = 200, rounds = 301;
  CLI::App app(
      "Host time of a call that the drop-in for cuBLAS passes through or answers, beside the call "
      "itself; JSON.");
  app.add_option("--library", library, "libtilewise_cublas.so")
      ->required()
      ->check(CLI::ExistingFile);
  app.add_option("--cublas", cublas, "cuBLAS's library")->capture_default_str();
  app.add_option("--calls", calls, "in a row")->check(CLI::Range(1, 1000))->capture_default_str();
  app.add_option("--rounds", rounds)->check(CLI::PositiveNumber)->capture_default_str();
  CLI11_PARSE(app, argc, argv);

  const std::unique_ptr<Device> device = open_device("auto");
  if (device->info().target.host) throw std::runtime_error("no GPU");
  void* const theirs = dlopen(cublas.c_str(), RTLD_NOW | RTLD_GLOBAL);
  void* const ours = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  auto* const create = function_of<Status(Handle*)>(theirs, "cublasCreate_v2");
  GemmEx* const functions[] = {function_of<GemmEx>(theirs, "cublasGemmEx"),
                               function_of<GemmEx>(ours, "cublasGemmEx")};
  Handle handle = nullptr;
  if (create(&handle) != drop_in::kSuccess) throw std::runtime_error("cublasCreate failed");
  const DeviceBuffer matrices(*device, 65'536);
  std::vector<double> times[2], differences;
  for (int round = -3; round < rounds; ++round) {
    double now[2];
    for (int i : {round & 1, 1 - (round & 1)})
      now[i] = host_us(*device, functions[i], handle, matrices.data(), calls);
    if (round < 0) continue;
    times[0].push_back(now[0]), times[1].push_back(now[1]);
    differences.push_back(now[1] - now[0]);
  }
  const std::uint64_t answered = function_of<std::uint64_t()>(ours, "tilewise_drop_in_answered")();
  const auto all = static_cast<std::uint64_t>(calls) * static_cast<std::uint64_t>(rounds + 3);
  if (answered != 0 && answered != all)
    throw std::runtime_error("the drop-in answered " + std::to_string(answered) + " of " +
                             std::to_string(all) + " calls");
  const auto median = [](std::vector<double>& values) {
    std::ranges::nth_element(values,
                             values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
    return values[values.size() / 2];
  };
  const nlohmann::ordered_json result = {
      {"device", nlohmann::ordered_json::parse(to_json(device->info()))},
      {"calls", calls},
      {"rounds", rounds},
      {"cublas_us", median(times[0])},
      {answered == 0 ? "passed_through_us" : "answered_us", median(times[1])},
      {"median_of_differences_us", median(differences)}};
  std::cout << result.dump(1) << '\n';
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "drop_in_calls: " << error.what() << '\n';
    return 1;
  }
}
