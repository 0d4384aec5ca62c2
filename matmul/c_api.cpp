#include <cstring>
#include <exception>
#include <new>
#include <nlohmann/json.hpp>
#include <string>

#include "matmul/matmul_internal.hpp"
#include "tilewise/error.hpp"
#include "tilewise/matmul.h"
#include "tilewise/matmul.hpp"
#include "tilewise/record.hpp"

struct tilewise_matmul {
  tilewise::Matmul matmul;
};

namespace tilewise {
namespace {

thread_local std::string last_error;

tilewise_status status_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::invalid_argument:
      return TILEWISE_INVALID_ARGUMENT;
    case ErrorKind::not_found:
      return TILEWISE_NOT_FOUND;
    case ErrorKind::unsupported:
      return TILEWISE_UNSUPPORTED;
    case ErrorKind::no_device:
      return TILEWISE_NO_DEVICE;
    case ErrorKind::device:
      return TILEWISE_DEVICE_ERROR;
    case ErrorKind::out_of_memory:
      return TILEWISE_OUT_OF_MEMORY;
    case ErrorKind::compiler:
      return TILEWISE_COMPILER_ERROR;
    case ErrorKind::database:
      return TILEWISE_DATABASE_ERROR;
    case ErrorKind::io:
      return TILEWISE_IO_ERROR;
  }
  return TILEWISE_INTERNAL_ERROR;
}

/// Keeps the words of a failure; without memory for them the status has to do.
tilewise_status failed(tilewise_status status, const char* words) noexcept {
  try {
    last_error = words;
  } catch (...) {
    last_error.clear();
  }
  return status;
}

/// Nothing is thrown through C.
template <class Work>
tilewise_status guarded(Work work) noexcept {
  try {
    work();
    return TILEWISE_OK;
  } catch (const Error& error) {
    return failed(status_of(error.kind()), error.what());
  } catch (const std::bad_alloc&) {
    return failed(TILEWISE_OUT_OF_MEMORY, "the host has no memory left");
  } catch (const std::exception& error) {
    return failed(TILEWISE_INTERNAL_ERROR, error.what());
  } catch (...) {
    return failed(TILEWISE_INTERNAL_ERROR, "an unknown exception");
  }
}

Matmul& checked(tilewise_matmul* handle) {
  if (!handle) throw Error(ErrorKind::invalid_argument, "the tilewise_matmul handle is null");
  return handle->matmul;
}

Layout layout_of(tilewise_layout layout) {
  switch (layout) {
    case TILEWISE_NN:
      return Layout::nn;
    case TILEWISE_NT:
      return Layout::nt;
    case TILEWISE_TN:
      return Layout::tn;
    case TILEWISE_TT:
      return Layout::tt;
  }
  throw Error(ErrorKind::invalid_argument,
              "layout " + std::to_string(static_cast<int>(layout)) +
                  " is none of TILEWISE_NN, TILEWISE_NT, TILEWISE_TN, TILEWISE_TT");
}

Problem packed_problem(tilewise_layout layout, std::int64_t m, std::int64_t n, std::int64_t k) {
  Problem problem;
  problem.layout = layout_of(layout);
  problem.m = m;
  problem.n = n;
  problem.k = k;
  if (m < 0 || n < 0 || k < 0)
    throw Error(ErrorKind::invalid_argument,
                "size " + size_text(problem) + ": sizes are 0 or more");
  problem.alignment = natural_alignment(problem.layout, m, n, k, problem.a, problem.b, problem.c);
  return problem;
}

std::string json_of(const Match& match) {
  nlohmann::ordered_json json;
  json["match"] = to_string(match.kind);
  json["distance"] = match.distance;
  json["stale"] = match.stale;
  json["why"] = match.why;
  json["predicted_us"] = match.predicted_us;
  json["limited_by"] = match.limited_by;
  json["candidate"] = nlohmann::ordered_json::parse(to_json(match.candidate));
  json["record"] = match.record ? nlohmann::ordered_json::parse(to_json(*match.record)) : nullptr;
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

MatmulOptions options_of(const tilewise_options* given) {
  MatmulOptions options;
  if (!given) return options;
  if (given->device) options.device = given->device;
  if (given->database) options.database = given->database;
  if (given->nvrtc) options.nvrtc = given->nvrtc;
  options.compile_missing = given->no_compile_missing == 0;
  return options;
}

}  // namespace

tilewise_matmul* make_handle(Matmul matmul) { return new tilewise_matmul{std::move(matmul)}; }

}  // namespace tilewise

using namespace tilewise;

tilewise_status tilewise_create(const tilewise_options* options, tilewise_matmul** matmul) {
  return guarded([&] {
    if (!matmul) throw Error(ErrorKind::invalid_argument, "where to put the handle is null");
    *matmul = nullptr;
    *matmul = make_handle(Matmul(options_of(options)));
  });
}

void tilewise_destroy(tilewise_matmul* matmul) { delete matmul; }

tilewise_status tilewise_sgemm(tilewise_matmul* matmul, tilewise_layout layout, int64_t m,
                               int64_t n, int64_t k, float alpha, const float* a, int64_t lda,
                               const float* b, int64_t ldb, float beta, float* c, int64_t ldc,
                               void* stream) {
  return guarded([&] {
    checked(matmul)(layout_of(layout), m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, stream);
  });
}

tilewise_status tilewise_sgemm_host(tilewise_matmul* matmul, tilewise_layout layout, int64_t m,
                                    int64_t n, int64_t k, float alpha, const float* a, int64_t lda,
                                    const float* b, int64_t ldb, float beta, float* c,
                                    int64_t ldc) {
  return guarded([&] {
    checked(matmul).host(layout_of(layout), m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  });
}

tilewise_status tilewise_prepare(tilewise_matmul* matmul, tilewise_layout layout, int64_t m,
                                 int64_t n, int64_t k) {
  return guarded([&] {
    const Problem problem = packed_problem(layout, m, n, k);
    checked(matmul).prepare(problem);
  });
}

tilewise_status tilewise_explain(tilewise_matmul* matmul, tilewise_layout layout, int64_t m,
                                 int64_t n, int64_t k, char* text, size_t capacity,
                                 size_t* needed) {
  return guarded([&] {
    if (!text && capacity > 0)
      throw Error(ErrorKind::invalid_argument, "text is null, but its capacity is not 0");
    const std::string json = json_of(checked(matmul).explain(packed_problem(layout, m, n, k)));
    if (needed) *needed = json.size() + 1;
    if (capacity < json.size() + 1)
      throw Error(ErrorKind::invalid_argument,
                  "the explanation takes " + std::to_string(json.size() + 1) +
                      " bytes; there is room for " + std::to_string(capacity));
    std::memcpy(text, json.c_str(), json.size() + 1);
  });
}

const char* tilewise_last_error(void) { return last_error.c_str(); }
