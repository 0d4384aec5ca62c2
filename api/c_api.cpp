#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <exception>
#include <new>
#include <optional>
#include <string>

#include "api/matmul_parts.hpp"
#include "matmul/resolution.hpp"
#include "tilewise/error.hpp"
#include "tilewise/matmul.h"
#include "tilewise/matmul.hpp"
#include "tilewise/version.hpp"
#include "vocabulary/epilogue.hpp"
#include "vocabulary/own_errors.hpp"

struct tilewise_matmul {
  tilewise::Matmul matmul;
};
struct tilewise_packed {
  tilewise::PackedOperand operand;
};
struct tilewise_epilogue {
  tilewise::Epilogue parsed;
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
    case ErrorKind::transient:
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

/// Stores the message of a failure. If there is no memory for it, only the status remains.
tilewise_status failed(tilewise_status status, const char* words) noexcept {
  try {
    last_error = words;
  } catch (...) {
    last_error.clear();
  }
  return status;
}

/// Turns exceptions into a status, because none may pass through C.
template <class Work>
tilewise_status guarded(Work work) noexcept {
  try {
    with_own_errors(work);
    return TILEWISE_OK;
  } catch (const Error& error) {
    return failed(status_of(error.kind()), error.what());
  } catch (const std::bad_alloc&) {  // no memory for the message
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

/// The enumerator of the same number: C's enums count as ours do.
template <class Enum, class C>
Enum enum_of(C value, C last, const std::string& what, const std::string& names) {
  const int number = static_cast<int>(value);
  if (number < 0 || number > static_cast<int>(last))
    throw Error(ErrorKind::invalid_argument,
                what + " " + std::to_string(number) + " is none of " + names);
  return static_cast<Enum>(number);
}
template <class C, class Enum>
constexpr bool same(C ours, Enum theirs) {
  return static_cast<int>(ours) == static_cast<int>(theirs);
}
static_assert(same(TILEWISE_NT, Layout::nt) && same(TILEWISE_TT, Layout::tt));
static_assert(same(TILEWISE_F64, DType::f64) && same(TILEWISE_BF16, DType::bf16) &&
              same(TILEWISE_I32, DType::i32) && same(TILEWISE_E5M2, DType::e5m2) &&
              same(TILEWISE_I4, DType::i4));
static_assert(same(TILEWISE_TF32, MathMode::tf32) && same(TILEWISE_FAST, MathMode::fast) &&
              same(TILEWISE_EMULATED, MathMode::emulated));
static_assert(same(TILEWISE_RECORD, OnMiss::record) && same(TILEWISE_TUNE_ON_MISS, OnMiss::tune));

Layout layout_of(tilewise_layout layout) {
  return enum_of<Layout>(layout, TILEWISE_TT, "layout",
                         "TILEWISE_NN, TILEWISE_NT, TILEWISE_TN, TILEWISE_TT");
}

DType type_of(tilewise_type type, const std::string& of) {
  return enum_of<DType>(type, TILEWISE_I4, of + " type", "TILEWISE_F32 .. TILEWISE_I4 (0 .. 8)");
}

MathMode mode_of(tilewise_math math) {
  return enum_of<MathMode>(math, TILEWISE_EMULATED, "math",
                           "TILEWISE_STRICT, TILEWISE_TF32, TILEWISE_F32X3, TILEWISE_FAST, "
                           "TILEWISE_EMULATED");
}

// The sizes of the structs' first versions. No struct may have padding at its end, because an older
// caller's padding bytes would be read as a later field.
constexpr std::size_t kFirstOptions = offsetof(tilewise_options, bundle) + sizeof(const char*);
constexpr std::size_t kFirstProblem =
    offsetof(tilewise_problem, alignment_c) + sizeof(std::int32_t);
constexpr std::size_t kFirstCall = offsetof(tilewise_call, stream) + sizeof(tilewise_stream);
static_assert(sizeof(tilewise_options) ==
              offsetof(tilewise_options, host_memory_limit) + sizeof(std::int64_t));
static_assert(sizeof(tilewise_problem) ==
              offsetof(tilewise_problem, reserved) + sizeof(std::int32_t));
static_assert(sizeof(tilewise_call) == offsetof(tilewise_call, accuracy) + sizeof(double));
constexpr std::size_t kFirstQuantization = sizeof(tilewise_quantization);
static_assert(sizeof(tilewise_quantization) ==
              offsetof(tilewise_quantization, stream) + sizeof(tilewise_stream));
/// Larger than every version of a struct; a larger size is uninitialised memory.
constexpr std::size_t kLargestStruct = 4096;

/// The caller's struct in the form of this version. Fields that an older caller lacks are zero.
/// Fields of a newer caller must be zero, because this version would ignore them.
template <class T>
T read(const T* given, const std::string& type, std::size_t first) {
  const auto refuse = [&](const std::string& words) {
    throw Error(ErrorKind::invalid_argument, words);
  };
  if (!given) refuse("the " + type + " is null");
  const std::size_t size = given->struct_size;
  if (size < first || size > kLargestStruct)
    refuse("struct_size of the " + type + " is " + std::to_string(size) + "; it must be sizeof(" +
           type + "), " + std::to_string(sizeof(T)) +
           " in this version: initialise the struct with its _INIT macro");
  T copy{};
  std::memcpy(&copy, given, std::min(size, sizeof copy));
  const auto* const bytes = reinterpret_cast<const unsigned char*>(given);
  for (std::size_t i = sizeof copy; i < size; ++i)
    if (bytes[i] != 0)
      refuse("byte " + std::to_string(i) + " of the " + type + " is " + std::to_string(bytes[i]) +
             "; version " + std::string(version_text()) + " has " + std::to_string(sizeof copy) +
             " bytes, and all after them must be 0 (struct_size is " + std::to_string(size) + ")");
  return copy;
}

/// Empty for TILEWISE_DEFAULT.
std::optional<bool> choice_of(tilewise_bool choice, const char* option) {
  switch (choice) {
    case TILEWISE_DEFAULT:
      return std::nullopt;
    case TILEWISE_YES:
      return true;
    case TILEWISE_NO:
      return false;
  }
  throw Error(ErrorKind::invalid_argument,
              std::string(option) + " = " + std::to_string(static_cast<int>(choice)) +
                  " is none of TILEWISE_DEFAULT, TILEWISE_YES, TILEWISE_NO");
}

void set_grouping(Problem& problem, tilewise_grouping grouping,
                  tilewise_distribution distribution) {
  const auto in_range = [](const char* name, int value, int last) {
    if (value < 0 || value > last)
      throw Error(ErrorKind::invalid_argument, std::string(name) + " = " + std::to_string(value) +
                                                   " of a tilewise_problem is not 0 to " +
                                                   std::to_string(last));
  };
  in_range("grouping", static_cast<int>(grouping), 3);
  in_range("distribution", static_cast<int>(distribution), 2);
  problem.grouping = static_cast<Grouping>(grouping);
  problem.distribution = static_cast<Distribution>(distribution);
  if (is_grouped(problem)) set_alignment(problem, natural_alignment(problem));
}

Problem problem_of(const tilewise_problem* given) {
  const tilewise_problem p = read(given, "tilewise_problem", kFirstProblem);
  if (p.m < 0 || p.n < 0 || p.k < 0 || p.batch < 0)
    throw Error(ErrorKind::invalid_argument, "size " + std::to_string(p.m) + "x" +
                                                 std::to_string(p.n) + "x" + std::to_string(p.k) +
                                                 ", batch " + std::to_string(p.batch) +
                                                 ": sizes are 0 or more");
  const DType of_a = type_of(p.operand, "operand");
  const DType of_b = p.operand_b == TILEWISE_F32 ? of_a : type_of(p.operand_b, "operand_b");
  Problem problem =
      typed_problem(layout_of(p.layout), p.m, p.n, p.k, of_a, of_b, type_of(p.result, "result"),
                    mode_of(p.math), p.batch == 0 ? 1 : p.batch);
  if (p.reserved != 0)
    throw Error(ErrorKind::invalid_argument,
                "reserved = " + std::to_string(p.reserved) + " of a tilewise_problem is not 0");
  for (const auto& [name, value] : {std::pair{"pointers", p.pointers}, {"invariant", p.invariant}})
    if (value != 0 && value != 1)
      throw Error(ErrorKind::invalid_argument, std::string(name) + " = " + std::to_string(value) +
                                                   " of a tilewise_problem is neither 0 nor 1");
  set_grouping(problem, p.grouping, p.distribution);
  problem.pointers = p.pointers == 1;
  if (problem.pointers)  // nothing is known of the addresses in the arrays
    set_alignment(problem,
                  {bytes_of(problem.a.type), bytes_of(problem.b.type), bytes_of(problem.c.type)});
  if (p.alignment_a != 0) problem.a.alignment = p.alignment_a;
  if (p.alignment_b != 0) problem.b.alignment = p.alignment_b;
  if (p.alignment_c != 0) problem.c.alignment = p.alignment_c;
  if (p.epilogue) set_epilogue(problem, p.epilogue->parsed);
  set_invariant(problem, p.invariant == 1);
  return problem;
}

tilewise_problem f32_problem(tilewise_layout layout, std::int64_t m, std::int64_t n,
                             std::int64_t k) {
  tilewise_problem problem = TILEWISE_PROBLEM_INIT;
  problem.layout = layout;
  problem.m = m, problem.n = n, problem.k = k;
  return problem;
}

Quantization quantization_of(const tilewise_quantization* given) {
  const tilewise_quantization x = read(given, "tilewise_quantization", kFirstQuantization);
  if (x.k_first != 0 && x.k_first != 1)
    throw Error(ErrorKind::invalid_argument, "k_first = " + std::to_string(x.k_first) +
                                                 " of a tilewise_quantization is neither 0 nor 1");
  return {.from = type_of(x.from, "from"),
          .to = type_of(x.to, "to"),
          .rows = x.rows,
          .columns = x.columns,
          .matrix = x.matrix,
          .ld = x.ld,
          .numbers = x.numbers,
          .ld_numbers = x.ld_numbers,
          .scales = x.scales,
          .ld_scales = x.ld_scales,
          .k_first = x.k_first == 1,
          .stream = x.stream};
}

/// A call with the operands of its epilogue, to which it refers.
struct ReadCall {
  Call call;
  std::array<EpilogueOperand, EpilogueForm::kMostOperands> operands;

  explicit ReadCall(const tilewise_call* given);
  ReadCall(const ReadCall&) = delete;
  ReadCall& operator=(const ReadCall&) = delete;
};

ReadCall::ReadCall(const tilewise_call* given) {
  const tilewise_call x = read(given, "tilewise_call", kFirstCall);
  call.a = x.a, call.b = x.b, call.c = x.c;
  call.lda = x.lda, call.ldb = x.ldb, call.ldc = x.ldc;
  call.stride_a = x.stride_a, call.stride_b = x.stride_b, call.stride_c = x.stride_c;
  call.alpha = x.alpha, call.beta = x.beta;
  call.alpha_device = x.alpha_device, call.beta_device = x.beta_device;
  call.stream = x.stream;
  if (x.packed_a) call.packed_a = &x.packed_a->operand;
  if (x.packed_b) call.packed_b = &x.packed_b->operand;
  const auto most = static_cast<std::int64_t>(operands.size());
  if (x.operand_count < 0 || x.operand_count > most || (x.operand_count > 0 && !x.operands))
    throw Error(ErrorKind::invalid_argument, "operand_count = " + std::to_string(x.operand_count) +
                                                 (x.operands ? "" : " with operands null") +
                                                 "; an epilogue has 0 to " + std::to_string(most) +
                                                 " operands");
  const auto count = static_cast<std::size_t>(x.operand_count);
  std::transform(x.operands, x.operands + count, operands.begin(), [](const tilewise_operand& one) {
    return EpilogueOperand{one.data, one.ld, one.stride, one.value};
  });
  call.operands = {operands.data(), count};
  call.group_rows = x.group_rows;
  call.workspace = x.workspace, call.workspace_bytes = x.workspace_bytes;
  call.accuracy = x.accuracy;
}

template <class Pack>
tilewise_status packed_by(tilewise_packed** packed, Pack pack) {
  return guarded([&] {
    if (!packed) throw Error(ErrorKind::invalid_argument, "where to put the handle is null");
    *packed = nullptr;
    *packed = new tilewise_packed{pack()};
  });
}

/// Copies a text for a function that takes a buffer and its capacity.
void write_text(const std::string& from, const char* name, char* text, std::size_t capacity,
                std::size_t* needed) {
  if (!text && capacity > 0)
    throw Error(ErrorKind::invalid_argument, "text is null, but its capacity is not 0");
  if (needed) *needed = from.size() + 1;
  if (capacity < from.size() + 1)
    throw Error(ErrorKind::invalid_argument,
                std::string(name) + " takes " + std::to_string(from.size() + 1) +
                    " bytes; there is room for " + std::to_string(capacity));
  std::memcpy(text, from.c_str(), from.size() + 1);
}

OnMiss on_miss_of(tilewise_on_miss on_miss) {
  return enum_of<OnMiss>(on_miss, TILEWISE_TUNE_ON_MISS, "on_miss",
                         "TILEWISE_SERVE, TILEWISE_RECORD, TILEWISE_ERROR_ON_MISS, "
                         "TILEWISE_TUNE_ON_MISS");
}

MatmulOptions options_of(const tilewise_options* given) {
  MatmulOptions options;
  if (!given) return options;
  const tilewise_options x = read(given, "tilewise_options", kFirstOptions);
  if (x.device) options.device = x.device;
  if (x.database) options.database = x.database;
  if (x.nvrtc) options.nvrtc = x.nvrtc;
  options.compile_missing =
      choice_of(x.compile_missing, "compile_missing").value_or(options.compile_missing);
  options.trust_files = choice_of(x.trust_files, "trust_files");
  options.on_miss = on_miss_of(x.on_miss);
  if (x.reserved != 0)
    throw Error(ErrorKind::invalid_argument,
                "reserved is " + std::to_string(x.reserved) + "; it must be 0");
  if (x.missed_list) options.missed_list = x.missed_list;
  if (x.bundle) options.bundle = x.bundle;
  if (x.tune_seconds != 0) options.tune_seconds = x.tune_seconds;
  if (x.autotune) options.autotune = x.autotune;
  options.host_memory_limit = x.host_memory_limit;
  return options;
}

}  // namespace

tilewise_matmul* make_handle(Matmul matmul) { return new tilewise_matmul{std::move(matmul)}; }

}  // namespace tilewise

using namespace tilewise;

int tilewise_version(void) { return version(); }
const char* tilewise_version_text(void) { return version_text().data(); }

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
                               tilewise_stream stream) {
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
  const tilewise_problem problem = f32_problem(layout, m, n, k);
  return tilewise_prepare_problem(matmul, &problem);
}

tilewise_status tilewise_explain(tilewise_matmul* matmul, tilewise_layout layout, int64_t m,
                                 int64_t n, int64_t k, char* text, size_t capacity,
                                 size_t* needed) {
  const tilewise_problem problem = f32_problem(layout, m, n, k);
  return tilewise_explain_problem(matmul, &problem, text, capacity, needed);
}

tilewise_status tilewise_multiply(tilewise_matmul* matmul, const tilewise_problem* problem,
                                  const tilewise_call* call) {
  return guarded([&] { checked(matmul)(problem_of(problem), ReadCall(call).call); });
}

tilewise_status tilewise_multiply_host(tilewise_matmul* matmul, const tilewise_problem* problem,
                                       const tilewise_call* call) {
  return guarded([&] { checked(matmul).host(problem_of(problem), ReadCall(call).call); });
}

tilewise_status tilewise_epilogue_create(const char* text, tilewise_epilogue** epilogue) {
  return guarded([&] {
    if (!epilogue) throw Error(ErrorKind::invalid_argument, "where to put the handle is null");
    *epilogue = nullptr;
    if (!text) throw Error(ErrorKind::invalid_argument, "the text of the epilogue is null");
    *epilogue = new tilewise_epilogue{Epilogue(text)};
  });
}

void tilewise_epilogue_destroy(tilewise_epilogue* epilogue) { delete epilogue; }

int tilewise_epilogue_operands(const tilewise_epilogue* epilogue) {
  return epilogue ? static_cast<int>(epilogue->parsed.operands()) : 0;
}

tilewise_status tilewise_epilogue_slot(const tilewise_epilogue* epilogue, const char* name,
                                       int* slot) {
  return guarded([&] {
    if (!epilogue || !name || !slot)
      throw Error(ErrorKind::invalid_argument, "the epilogue, the name or the slot is null");
    *slot = static_cast<int>(epilogue->parsed.slot(name));
  });
}

tilewise_status tilewise_prepare_problem(tilewise_matmul* matmul, const tilewise_problem* problem) {
  return guarded([&] { checked(matmul).prepare(problem_of(problem)); });
}

tilewise_status tilewise_prepare_range(tilewise_matmul* matmul, const tilewise_problem* problem,
                                       int64_t last_m) {
  return guarded([&] { checked(matmul).prepare_range(problem_of(problem), last_m); });
}

tilewise_status tilewise_explain_problem(tilewise_matmul* matmul, const tilewise_problem* problem,
                                         char* text, size_t capacity, size_t* needed) {
  return guarded([&] {
    write_text(to_json(resolution_of(checked(matmul), problem_of(problem))), "the explanation",
               text, capacity, needed);
  });
}

tilewise_status tilewise_fingerprint(tilewise_matmul* matmul, const tilewise_problem* problems,
                                     size_t count, char* text) {
  return guarded([&] {
    if (!text || (count > 0 && !problems))
      throw Error(ErrorKind::invalid_argument, text ? "problems is null" : "text is null");
    // A caller's struct may be shorter or longer than this version's.
    std::vector<Problem> all;
    const auto* at = reinterpret_cast<const std::byte*>(problems);
    for (std::size_t i = 0; i < count; ++i) {
      const auto* one = reinterpret_cast<const tilewise_problem*>(at);
      all.push_back(problem_of(one));
      at += one->struct_size;
    }
    const std::string digits = checked(matmul).fingerprint(all);
    std::copy(digits.c_str(), digits.c_str() + digits.size() + 1, text);
  });
}

tilewise_status tilewise_host_split(tilewise_matmul* matmul, const tilewise_problem* problem,
                                    char* text, size_t capacity, size_t* needed) {
  return guarded([&] {
    write_text(to_json(checked(matmul).host_split(problem_of(problem))), "the split", text,
               capacity, needed);
  });
}

tilewise_status tilewise_pack_a(tilewise_matmul* matmul, const tilewise_problem* problem,
                                const void* a, int64_t lda, int64_t stride_a,
                                tilewise_stream stream, tilewise_packed** packed) {
  return packed_by(packed, [&] {
    return checked(matmul).pack_a(problem_of(problem), a, lda, stride_a, stream);
  });
}

tilewise_status tilewise_pack_b(tilewise_matmul* matmul, const tilewise_problem* problem,
                                const void* b, int64_t ldb, int64_t stride_b,
                                tilewise_stream stream, tilewise_packed** packed) {
  return packed_by(packed, [&] {
    return checked(matmul).pack_b(problem_of(problem), b, ldb, stride_b, stream);
  });
}

int64_t tilewise_packed_bytes(const tilewise_packed* packed) {
  return packed ? packed->operand.bytes() : 0;
}

void tilewise_packed_destroy(tilewise_packed* packed) { delete packed; }

tilewise_status tilewise_quantize(tilewise_matmul* matmul,
                                  const tilewise_quantization* quantization) {
  return guarded([&] { checked(matmul).quantize(quantization_of(quantization)); });
}

tilewise_status tilewise_fastest_within(tilewise_matmul* matmul, const tilewise_problem* problem,
                                        double accuracy, tilewise_math* math) {
  return guarded([&] {
    if (!math) throw Error(ErrorKind::invalid_argument, "where to put the mode is null");
    *math =
        static_cast<tilewise_math>(checked(matmul).fastest_within(problem_of(problem), accuracy));
  });
}

const char* tilewise_last_error(void) { return last_error.c_str(); }
