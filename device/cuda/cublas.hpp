#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "device/cuda/driver.hpp"
#include "device/cuda/library.hpp"
#include "tilewise/error.hpp"
#include "vocabulary/text.hpp"

/// Shared by cuBLAS and cublasLt, like cublas_terms.hpp: status values and the search for the
/// libraries.
namespace tilewise::cuda {

using BlasStatus = int;
inline constexpr BlasStatus kBlasSuccess = 0;
inline constexpr int kMajorVersion = 0, kMinorVersion = 1, kPatchLevel = 2;

/// 32 MiB, cuBLAS's own default on Hopper. The workspace is the caller's, since a captured product
/// must not allocate.
inline constexpr std::int64_t kBlasWorkspaceBytes = std::int64_t{32} << 20;

/// What both libraries have.
struct BlasApi {
  Library library;
  BlasStatus (*create)(void**) = nullptr;
  BlasStatus (*destroy)(void*) = nullptr;
  BlasStatus (*property)(int, int*) = nullptr;
  const char* (*status_string)(BlasStatus) = nullptr;

  /// False when the library lacks the symbol, with the reason.
  template <class Function>
  bool needs(Function& function, const char* symbol, std::string& why) const {
    if (library.get(function, symbol)) return true;
    why = "it lacks " + std::string(symbol);
    return false;
  }
  void check(BlasStatus status, const char* tried) const {
    if (status == kBlasSuccess) return;
    throw Error(ErrorKind::device, std::string(tried) + " failed: " + status_string(status));
  }
};

/// "13.1.0", from the library's version function.
inline std::string version_of(const BlasApi& api) {
  return join(std::array{kMajorVersion, kMinorVersion, kPatchLevel}, ".", [&](int part) {
    int value = 0;
    api.check(api.property(part, &value), "asking cuBLAS for its version");
    return std::to_string(value);
  });
}

/// Opens the first library found by `query` for which Api::resolve() succeeds and `make` returns a
/// result. Null when there is none; `why` then lists the attempts.
template <class Api, class Make>
auto load_first_usable(const LibraryQuery& query, const std::vector<std::string>& neighbours,
                       std::string* why, Make make) -> decltype(make(Api{})) {
  const LibrarySearch search = find_library(query, driver_major());
  std::vector<std::string> refused;
  for (const LibraryCandidate& candidate : search.candidates) {
    std::string reason;
    Api api;
    api.library = open_with_neighbours(candidate, neighbours, reason);
    if (!api.library) {
      refused.push_back(reason);
      continue;
    }
    try {
      if (api.resolve(reason)) return make(std::move(api));
    } catch (const Error& error) {
      reason = error.what();
    }
    refused.push_back(candidate.path + ": " + reason);
  }
  if (why) {
    *why = "no usable " + query.stem + ".so.13 or .so.12; looked in " + join(search.places) +
           (refused.empty() ? "" : "; tried: " + join(refused, "; "));
  }
  return nullptr;
}

}  // namespace tilewise::cuda
