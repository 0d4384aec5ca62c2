#pragma once
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "device/cuda/cublas_terms.hpp"
#include "device/device.hpp"
#include "drop_in/product.hpp"
#include "templates/kernel_template.hpp"
#include "tests/drop_in/calls.hpp"
#include "tilewise/number.hpp"
#include "vocabulary/problem.hpp"

/// Random calls of all forms, computed by the drop-in and by cuBLAS itself.
namespace tilewise::drop_in {

inline DType dtype(int type) { return cuda::type_of_blas(type).value(); }

/// The properties that determine the kernel of a call. Calls share shapes, because each shape has a
/// kernel to compile.
struct Shape {
  const Kind* kind = nullptr;
  int op_a = 0, op_b = 0;
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  std::array<std::int64_t, 3> unit{};  ///< of A, B, C: divides addresses, ld and strides
  // Some of its calls of cublasLt have these.
  int epilogue = kLtNoEpilogue;
  bool apart = false;   ///< beta times a C other than D
  bool scaled = false;  ///< factors of A and B
};

/// Memory of many calls, on the host. Bytes outside of matrices are NaN in every type.
class Arena {
 public:
  explicit Arena(std::int64_t bytes) : bytes_(static_cast<std::size_t>(bytes), kNan) {}
  std::byte* data() { return bytes_.data(); }
  std::int64_t used() const { return used_; }
  std::int64_t left() const { return static_cast<std::int64_t>(bytes_.size()) - used_; }
  /// The offset of `bytes` bytes, which start 256-byte aligned and do not overlap the next ones.
  std::int64_t take(std::int64_t bytes) {
    return std::exchange(used_, (used_ + bytes + 511) & ~255);
  }
  void clear() {
    std::fill_n(bytes_.begin(), used_, kNan);
    used_ = 0;
  }

 private:
  static constexpr std::byte kNan{0xFF};
  std::vector<std::byte> bytes_;
  std::int64_t used_ = 0;
};

class RandomCalls : public testing::Test {
 protected:
  /// Starts with the first of the libraries that opens. False if none opens. `most`: the
  /// approximate largest size. `bytes`: memory of the calls that are enqueued before their results
  /// are compared.
  bool start(std::unique_ptr<Device> device, const std::vector<std::string>& libraries, int shapes,
             int most, std::int64_t bytes) {
    device_ = std::move(device);
    for (const std::string& library : libraries)
      if (!cublas_.library) cublas_.library = dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (!cublas_.library) return false;
    setenv("TILEWISE_DROP_IN_ALWAYS", "1", 1);
    // If this program was copied to another machine, a variable has the path of the library.
    const char* const named = std::getenv("TILEWISE_DROP_IN_LIBRARY");
    ours_.library = dlopen(named ? named : TILEWISE_CUBLAS_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    EXPECT_NE(ours_.library, nullptr) << dlerror();
    operands_ = std::make_unique<Arena>(bytes), results_ = std::make_unique<Arena>(bytes);
    for (DeviceBuffer* buffer : {&on_device_, &theirs_, &mine_})
      *buffer = DeviceBuffer(*device_, bytes);
    streams_ = {nullptr, device_->create_stream(), device_->create_stream()};
    for (const Kind& kind : kKinds)
      if (is_supported(kind)) kinds_.push_back(&kind);
    for (int i = 0; i < shapes; ++i) shapes_.push_back(draw_shape(most));
    EXPECT_EQ(cublas_.get<Status(Handle*)>("cublasCreate_v2")(&handle_), kSuccess);
    return ours_.library != nullptr;
  }
  void TearDown() override {
    if (handle_) cublas_.get<Status(Handle)>("cublasDestroy_v2")(handle_);
    for (const Stream stream : streams_)
      if (stream) device_->destroy_stream(stream);
  }

  int draw(int first, int last) { return std::uniform_int_distribution(first, last)(generator_); }
  bool one_in(int count) { return draw(1, count) == 1; }
  /// A log-uniform size.
  int size(int most) {
    return static_cast<int>(std::exp2(
        std::uniform_real_distribution<>(0, std::log2(static_cast<double>(most) + 1))(generator_)));
  }

  bool is_supported(const Kind& kind) const;
  Shape draw_shape(int most);
  /// The problems of those shapes that the drop-in answers.
  std::vector<Problem> problems() const;
  RandomCall draw_call();
  void compare(int calls);
  /// TILEWISE_RANDOM_CALLS, or `otherwise` if it is not set.
  static int count(int otherwise) {
    const char* const asked = std::getenv("TILEWISE_RANDOM_CALLS");
    return asked ? std::atoi(asked) : otherwise;
  }

  std::unique_ptr<Device> device_;

 private:
  const std::vector<std::byte>& numbers(int type, int most);
  void place(Operand& x, std::int64_t unit, const RandomCall& call, int most, Arena& arena);
  void spoil(RandomCall& call);
  void run(const std::vector<RandomCall>& calls, int first);
  void call_both(const RandomCall& call, const std::string& what, bool& compared);
  /// `x`: C, or a further result.
  static bool is_derivative(const RandomCall& call) {
    return (call.epilogue & kLtOfGelu) == kLtOfGelu;
  }
  std::optional<double> exact_sum(const RandomCall& call, std::int64_t row,
                                  std::int64_t column) const;
  bool only_mine_is_right(const RandomCall& call, bool is_aux, double exact, double mine,
                          double allowed);
  void compare_result(const RandomCall& call, const Operand& x, const std::byte* theirs,
                      const std::byte* mine, const std::string& what);

  std::mt19937 generator_{1};
  std::map<std::pair<int, int>, std::vector<std::byte>> numbers_;  // by type and largest number
  Functions cublas_{}, ours_{};
  Handle handle_ = nullptr;
  std::vector<const Kind*> kinds_;
  std::vector<Shape> shapes_;
  std::array<Stream, 3> streams_;
  std::unique_ptr<Arena> operands_, results_;
  DeviceBuffer on_device_, theirs_, mine_;
  std::uint64_t answered_ = 0, refused_ = 0;  // products to be answered; refused by cuBLAS
  static constexpr int kMostFailed = 20, kMostTheirsWrong = 200;
  int theirs_wrong_ = 0;  // elements where only the drop-in is right
  int failed_ = 0;        // calls with a wrong result
};

/// Kinds that are only passed through need no kernel.
inline bool RandomCalls::is_supported(const Kind& kind) const {
  if (!kind.answered) return true;
  Problem problem;
  set_types(problem, dtype(kind.operand), dtype(kind.result),
            kind.compute == kComputeTf32 ? MathMode::tf32
            : kind.fast_sums             ? MathMode::fast
                                         : MathMode::strict);
  set_layout(problem, kind.lt_only ? Layout::nt : Layout::nn);
  problem.m = problem.n = problem.k = 64;
  return std::any_of(catalog().begin(), catalog().end(), [&](const KernelTemplate& kernel) {
    return kernel.supports(problem, device_->info());
  });
}

inline Shape RandomCalls::draw_shape(int most) {
  Shape shape;
  do shape.kind = kinds_[static_cast<std::size_t>(draw(0, static_cast<int>(kinds_.size()) - 1))];
  while (!shape.kind->answered && !one_in(4));
  const Kind& kind = *shape.kind;
  // cuBLAS takes int8 only in multiples of 4, cublasLt takes 8-bit floats only in multiples of 16
  // bytes.
  const int step = kind.lt_only ? 16 : kind.operand == kI8 ? 4 : 1;
  // A few are larger than a tile or two.
  if (one_in(64)) most *= 4;
  const auto extent = [&](int largest) {
    return std::int64_t{step} * size(std::max(1, largest / step));
  };
  shape.m = extent(most), shape.n = extent(most), shape.k = extent(most);
  shape.op_a = kind.lt_only ? kTransposed : draw(0, 2);
  shape.op_b = kind.lt_only ? kNotTransposed : draw(0, 2);
  shape.batch = one_in(4) ? draw(2, 4) : 1;
  const DType result = dtype(kind.result);
  if (!is_integer(result) && result != DType::f64 && !is_fp8(dtype(kind.operand)))
    shape.epilogue =
        std::array{kLtRelu,         kLtWithBias,   kLtRelu | kLtWithBias,    kLtGelu | kLtWithBias,
                   kLtGeluAux,      kLtNoEpilogue, kLtGeluAux | kLtWithBias, kLtOfGelu,
                   kLtOfGeluAndBias}[static_cast<std::size_t>(draw(0, 8))];
  const bool added = !is_integer(result) && result != DType::f64 && !is_fp8(result);
  shape.apart = added && one_in(3);
  shape.scaled = is_fp8(dtype(kind.operand)) && added && one_in(2);
  for (std::size_t i = 0; i < shape.unit.size(); ++i) {
    const int widest = 16 / bytes_of(dtype(i == 2 ? kind.result : kind.operand));
    const int least = kind.lt_only ? widest : std::min(widest, step);
    shape.unit[i] = widest;
    if (!one_in(2))
      while (shape.unit[i] > least && !one_in(3)) shape.unit[i] /= 2;
  }
  return shape;
}

inline std::vector<Problem> RandomCalls::problems() const {
  std::vector<Problem> problems;
  const float one = 1;
  for (const Shape& shape : shapes_) {
    const Kind& kind = *shape.kind;
    const auto matrix = [&](std::size_t i, std::int64_t line, std::int64_t lines) {
      const int type = i == 2 ? kind.result : kind.operand;
      const std::int64_t unit = shape.unit[i], ld = (line + unit - 1) / unit * unit;
      const std::int64_t bytes = unit * bytes_of(dtype(type));
      return Matrix{reinterpret_cast<const void*>(((i + 1) << 40) + (bytes < 16 ? bytes : 0)), type,
                    ld, ld * lines};
    };
    const Gemm gemm{.op_a = shape.op_a,
                    .op_b = shape.op_b,
                    .m = shape.m,
                    .n = shape.n,
                    .k = shape.k,
                    .a = matrix(0, shape.op_a ? shape.k : shape.m, shape.op_a ? shape.m : shape.k),
                    .b = matrix(1, shape.op_b ? shape.n : shape.k, shape.op_b ? shape.k : shape.n),
                    .c = matrix(2, shape.m, shape.n),
                    .batch = shape.batch,
                    .compute = kind.compute,
                    .scalar = kind.scalar,
                    .fast_sums = kind.fast_sums,
                    .alpha = &one,
                    .beta = &one};
    Gemm with_epilogue = gemm;
    with_epilogue.epilogue = shape.epilogue;
    with_epilogue.bias = {gemm.c.data, kind.result, 0, 0};
    with_epilogue.aux = gemm.c;
    if (shape.apart) with_epilogue.addend = gemm.c;
    if (shape.scaled) with_epilogue.scale_a = with_epilogue.scale_b = &one;
    for (const Gemm& either : {gemm, with_epilogue})
      for (const int math : {kDefaultMath, kTf32Math})
        if (Product product; product_of(either, math, product) == Why::none &&
                             (problems.empty() || problems.back() != product.problem))
          problems.push_back(product.problem);
  }
  return problems;
}

/// Random whole numbers of a type, of at most `most`.
inline const std::vector<std::byte>& RandomCalls::numbers(int type, int most) {
  std::vector<std::byte>& made = numbers_[{type, most}];
  if (!made.empty()) return made;
  constexpr std::size_t kCount = 1 << 15;
  const auto bytes = static_cast<std::size_t>(bytes_of(dtype(type)));
  made.resize(kCount * bytes);
  for (std::size_t i = 0; i < kCount; ++i)
    from_double(dtype(type), draw(-most, most), made.data() + i * bytes);
  return made;
}

/// Draws ld, stride and address of a matrix and fills it. With `most` = 0 the matrix stays empty.
inline void RandomCalls::place(Operand& x, std::int64_t unit, const RandomCall& call, int most,
                               Arena& arena) {
  const std::int64_t bytes = bytes_of(dtype(x.type));
  const auto up = [&](std::int64_t value) { return (value + unit - 1) / unit * unit; };
  x.ld = up(std::max<std::int64_t>(1, x.line())) + unit * draw(0, 3);
  x.stride = up(x.ld * x.lines()) + unit * draw(0, 2);
  if (&arena == operands_.get() && one_in(5)) x.stride = 0;
  const std::int64_t odd = unit * bytes < 16 ? unit * bytes : 0;
  x.at = 16 * draw(0, 3) + odd +
         arena.take(bytes * ((call.batch + 1) * x.stride + x.ld * (x.lines() + 1)));
  if (most == 0) return;
  const std::vector<std::byte>& from = numbers(x.type, most);
  const auto line = static_cast<std::size_t>(bytes * x.line());
  for (std::int64_t of = 0; of < call.batch; ++of)
    for (std::int64_t i = 0; i < x.lines(); ++i) {
      const int first =
          draw(0, static_cast<int>((from.size() - line) / static_cast<std::size_t>(bytes)));
      std::memcpy(arena.data() + x.at + bytes * (of * x.stride + i * x.ld),
                  from.data() + bytes * first, line);
    }
}

/// Makes an argument one that cuBLAS refuses.
inline void RandomCalls::spoil(RandomCall& call) {
  call.answered = false;
  const int what = draw(0, call.form == Form::lt ? 3 : 6);
  Operand* const operands[] = {&call.a, &call.b, &call.c};
  if (what < 3) operands[what]->ld = operands[what]->line() - 1;
  if (what == 2) call.addend.ld = call.c.ld;
  if (what == 3) call.without_handle = true;
  if (what == 4) call.m = -1;
  if (what == 5) call.op_a = 7;
  if (what == 6) call.batch = -1;
}

inline RandomCall RandomCalls::draw_call() {
  const Shape& shape =
      shapes_[static_cast<std::size_t>(draw(0, static_cast<int>(shapes_.size()) - 1))];
  const Kind& kind = *shape.kind;
  RandomCall call;
  call.kind = &kind;
  call.answered = kind.answered;
  call.form = kind.lt_only
                  ? Form::lt
                  : std::array{Form::ex, Form::lt,
                               Form::plain}[static_cast<std::size_t>(draw(0, kind.plain ? 2 : 1))];
  const bool is_lt = call.form == Form::lt;
  call.wide = one_in(2);
  call.op_a = shape.op_a, call.op_b = shape.op_b;
  call.m = shape.m, call.n = shape.n, call.k = shape.k, call.batch = shape.batch;
  call.stream = static_cast<std::size_t>(draw(0, 2));
  if (one_in(24)) {  // empty
    call.answered = false;
    *std::array{&call.m, &call.n, &call.k, &call.batch}[static_cast<std::size_t>(draw(0, 3))] = 0;
  }
  if (one_in(4)) {
    call.math = std::array{
        kTf32Math,      kTf32Math,     kTf32Math | kNoReducedSums,
        kNoReducedSums, kTensorOpMath, kPedanticMath}[static_cast<std::size_t>(draw(0, 5))];
    const bool lowers =
        call.math == kTensorOpMath && kind.operand == kF32 && kind.compute == kCompute32;
    if (!is_lt && (call.math == kPedanticMath || lowers)) call.answered = false;
  }
  if (call.form == Form::ex && one_in(8)) {
    call.algorithm = one_in(2) ? kAnyTensorAlgorithm : 0;
    if (call.algorithm == 0) call.answered = false;
  }
  if (!is_lt && one_in(24)) call.multiprocessors = 16, call.answered = false;
  const bool has_epilogue = is_lt && one_in(3);
  if (has_epilogue) call.epilogue = shape.epilogue;
  if (is_lt && one_in(24)) call.epilogue = kLtDrelu, call.answered = false;
  call.a = {.type = kind.operand, .rows = call.m, .columns = call.k};
  call.b = {.type = kind.operand, .rows = call.k, .columns = call.n};
  if (call.op_a) std::swap(call.a.rows, call.a.columns);
  if (call.op_b) std::swap(call.b.rows, call.b.columns);
  call.c = {.type = kind.result, .rows = call.m, .columns = call.n};
  if (is_lt && !kind.lt_only && one_in(12)) {
    call.answered = false;
    call.a.order = draw(0, 1), call.b.order = draw(0, 1), call.c.order = kLtRowMajor;
  }
  // cuBLAS takes only 0 and 1 as alpha and beta of integers.
  const bool whole = kind.scalar == kI32;
  const double alpha =
      std::array{1.0, 1.0, 0.0, -1.0, 2.0, 0.5}[static_cast<std::size_t>(draw(0, whole ? 2 : 5))];
  double beta =
      std::array{0.0, 0.0, 1.0, -1.0, 2.0}[static_cast<std::size_t>(draw(0, whole ? 2 : 4))];
  const bool scaled = has_epilogue && shape.scaled, adds = has_epilogue && shape.apart;
  if (adds && beta == 0) beta = 2;
  if (scaled && !adds) beta = 0;
  const bool apart = adds && !(scaled && one_in(2));  // beside scales C may also be D
  from_double(dtype(kind.scalar), alpha, call.alpha.data());
  from_double(dtype(kind.scalar), beta, call.beta.data());
  const bool is_tf32 = (call.math & ~kNoReducedSums) == kTf32Math && kind.operand == kF32;
  place(call.a, shape.unit[0], call, is_tf32 ? std::min(kind.most_a, 1023) : kind.most_a,
        *operands_);
  place(call.b, shape.unit[1], call, kind.most_b, *operands_);
  place(call.c, shape.unit[2], call, beta == 0 && one_in(2) ? 0 : kind.most_b, *results_);
  const auto place_part = [&](Operand& x, std::int64_t unit, bool written) {
    place(x, unit, call, written ? 0 : kind.most_b, written ? *results_ : *operands_);
  };
  if ((call.epilogue & (kLtWithBias | kLtBiasGradient)) != 0) {
    call.bias = {.type = kind.result, .rows = call.m, .columns = 1};
    call.states_bias_type = one_in(2);
    place_part(call.bias, 16, call.writes_bias());
  }
  if ((call.epilogue & kLtAux) != 0) {
    call.aux = {.type = kind.result, .rows = call.m, .columns = call.n};
    place_part(call.aux, 8, call.writes_aux());
  }
  call.addend = call.c;
  const bool other_type = is_fp8(dtype(kind.result));
  if (apart || (is_lt && (other_type || (beta == 0 && one_in(4))))) {
    call.apart = true;
    if (other_type) call.addend.type = kBf16;
    place(call.addend, shape.unit[2], call, kind.most_b, *operands_);
    if (other_type && beta != 0) call.answered = false;
  }
  if (scaled) {
    call.scales_at = operands_->take(32);
    for (int i = 0; i < 2; ++i)
      from_double(DType::f32, draw(0, 1) + 0.5, operands_->data() + call.scales_at + 16 * i);
  }
  if (one_in(8)) {
    // Sums in f32 need scalars in f32. Beside a C other than D, or scales, beta is on the host.
    if (kind.scalar == kF16 || call.apart || call.scales_at >= 0) call.answered = false;
    call.scalars_at = operands_->take(32);
    std::memcpy(operands_->data() + call.scalars_at, call.alpha.data(), 8);
    std::memcpy(operands_->data() + call.scalars_at + 16, call.beta.data(), 8);
  }
  if (one_in(24)) spoil(call);
  return call;
}

inline void RandomCalls::call_both(const RandomCall& call, const std::string& what,
                                   bool& compared) {
  CUstream_st* const stream = streams_[call.stream].handle();
  const auto set = [&](const char* name, auto value) {
    cublas_.get<Status(Handle, decltype(value))>(name)(handle_, value);
  };
  set("cublasSetStream_v2", stream);
  set("cublasSetMathMode", call.math);
  set("cublasSetPointerMode_v2", call.scalars_at < 0 ? kPointersOnHost : 1);
  set("cublasSetSmCountTarget", call.multiprocessors);
  bool is_whole = true;
  const auto multiply = [&](const Functions& from, const DeviceBuffer& results) {
    const Memory memory{static_cast<std::byte*>(on_device_.data()),
                        static_cast<std::byte*>(results.data())};
    std::optional<Described> described;
    if (call.form == Form::lt) described.emplace(cublas_, call, memory);
    is_whole = !described || described->is_whole();
    if (!is_whole) return kSuccess;
    return Caller(from, handle_, call, memory).multiply(described ? &*described : nullptr, stream);
  };
  const Status theirs = multiply(cublas_, theirs_);
  if (!is_whole) return;  // cublasLt refuses a descriptor
  const Status mine = multiply(ours_, mine_);
  answered_ += call.answered;
  // Products that cuBLAS does not support were never measured with it; they are answered only here.
  // Of a derivative in f32 cublasLt 13.1 says instead that a value is invalid; no value of such a
  // call is, where `answered`.
  constexpr Status kInvalidValue = 7;
  const bool theirs_refused =
      (theirs == kNotSupported &&
       (call.kind->operand == kI8 || call.kind->lt_only || call.epilogue != kLtNoEpilogue)) ||
      (theirs == kInvalidValue && call.answered && call.kind->operand == kF32 &&
       is_derivative(call));
  compared = !(theirs_refused && mine == kSuccess);
  refused_ += !compared;
  if (compared) {
    ASSERT_EQ(theirs, mine) << what;
  }
}

/// alpha op(A) op(B) + beta C + bias of an element: what is right where two libraries differ. None
/// where this is not the sum before an activation: of batches, rows in order, scales, derivatives.
inline std::optional<double> RandomCalls::exact_sum(const RandomCall& call, std::int64_t row,
                                                    std::int64_t column) const {
  if (call.batch != 1 || call.a.order != kLtColumnMajor || call.scales_at >= 0 ||
      is_derivative(call) || row >= call.m || column >= call.n)
    return std::nullopt;
  const auto value = [&](const Operand& x, Arena& from, std::int64_t element) {
    const DType type = dtype(x.type);
    return to_double(type, from.data() + x.at + element * bytes_of(type));
  };
  const auto scalar = [&](const std::array<std::byte, 8>& of) {
    return to_double(dtype(call.kind->scalar), of.data());
  };
  double sum = 0;
  for (std::int64_t k = 0; k < call.k; ++k)
    sum += value(call.a, *operands_, call.op_a ? k + row * call.a.ld : row + k * call.a.ld) *
           value(call.b, *operands_, call.op_b ? column + k * call.b.ld : k + column * call.b.ld);
  sum *= scalar(call.alpha);
  if (scalar(call.beta) != 0)
    sum += scalar(call.beta) *
           value(call.addend, call.apart ? *operands_ : *results_, row + column * call.addend.ld);
  return (call.epilogue & kLtWithBias) != 0 ? sum + value(call.bias, *operands_, row) : sum;
}

/// Whether `mine` is right where cublasLt is not: its version 13.1 was wrong in two of 4,000 calls,
/// of one row with an epilogue and beta 1. exact: exact_sum().
inline bool RandomCalls::only_mine_is_right(const RandomCall& call, bool is_aux, double exact,
                                            double mine, double allowed) {
  const double beta = to_double(dtype(call.kind->scalar), call.beta.data());
  if (call.m != 1 || call.epilogue == kLtNoEpilogue || beta == 0) return false;
  double wanted = exact;
  if (!is_aux && (call.epilogue & kLtRelu) != 0) wanted = std::max(exact, 0.0);
  if (!is_aux && (call.epilogue & kLtGelu) != 0)
    wanted =
        exact / (1 + std::exp(-1.5957691216057308 * (exact + 0.044715 * exact * exact * exact)));
  return std::abs(mine - wanted) <= allowed && ++theirs_wrong_ <= kMostTheirsWrong;
}

inline void RandomCalls::compare_result(const RandomCall& call, const Operand& result,
                                        const std::byte* theirs, const std::byte* mine,
                                        const std::string& what) {
  // cublasLt accepts a C whose columns overlap, with undefined contents.
  if (call.c.ld < call.c.line()) return;
  const DType type = dtype(call.kind->result);
  // Operands and products are whole numbers, so sums are exact. cuBLAS may round a 16-bit result
  // from rounded partial sums, whose size is that of a sum of k random products of -4 to 4 (6.7
  // sqrt(k)). Sums in f16 are rounded at each step.
  const double unit = type == DType::f16 ? 0x1p-10 : type == DType::bf16 ? 0x1p-7 : 0;
  const double alpha = to_double(dtype(call.kind->scalar), call.alpha.data());
  const double partial = 16 * std::sqrt(static_cast<double>(call.k)) * std::abs(alpha) *
                         (call.kind->compute == kCompute16 ? 4 : 1);
  // cublasLt's GELU is an approximation of tanh's, and a gradient of the bias adds such elements.
  const bool is_sum = &result == &call.bias;
  const double of_gelu = is_derivative(call) || (call.epilogue & kLtGelu) != 0 ? 1e-2 : 0;
  const double of_sum =
      is_sum ? (unit + of_gelu) * partial * std::sqrt(static_cast<double>(call.n)) : 0;
  const std::int64_t bytes = bytes_of(type), first = result.at / 256 * 256;
  const std::int64_t last =
      result.at + bytes * ((std::max<std::int64_t>(call.batch, 0) + 1) * result.stride +
                           result.ld * (result.lines() + 1));
  if (std::memcmp(theirs + first, mine + first, static_cast<std::size_t>(last - first)) == 0)
    return;
  for (std::int64_t at = first + (result.at - first) % bytes; at + bytes <= last; at += bytes) {
    if (std::memcmp(theirs + at, mine + at, static_cast<std::size_t>(bytes)) == 0) continue;
    const double x = to_double(type, theirs + at), y = to_double(type, mine + at);
    const double allowed =
        unit * (2 * std::abs(x) + partial) + of_sum +
        of_gelu * (std::max(1.0, std::abs(x)) + (is_derivative(call) ? partial / 16 : 0));
    if (x == y || (std::isnan(x) && std::isnan(y)) || std::abs(x - y) <= allowed) continue;
    const std::int64_t nth = (at - result.at) / bytes;
    const std::optional<double> exact =
        at < result.at || is_sum ? std::nullopt : exact_sum(call, nth % result.ld, nth / result.ld);
    const bool is_aux = &result == &call.aux;
    if (exact && only_mine_is_right(call, is_aux, *exact, y, allowed)) continue;
    ADD_FAILURE() << what
                  << (is_sum   ? ": sum"
                      : is_aux ? ": aux"
                               : "")
                  << " at " << nth << ": " << x << " and " << y
                  << (exact ? "; the exact sum before an activation is " + std::to_string(*exact)
                            : "");
    ++failed_;
    return;
  }
}

/// Enqueues calls whose memory is in the arenas and compares the results.
inline void RandomCalls::run(const std::vector<RandomCall>& calls, int first) {
  const auto upload = [&](const DeviceBuffer& to, Arena& from) {
    device_->copy_to_device(to.data(), from.data(), from.used(), nullptr);
  };
  upload(on_device_, *operands_);
  upload(theirs_, *results_), upload(mine_, *results_);
  device_->synchronize(nullptr);
  std::vector<char> compared(calls.size());
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    texts.push_back("call " + std::to_string(first + static_cast<int>(i)) + ": " + calls[i].text());
    bool both = false;
    ASSERT_NO_FATAL_FAILURE(call_both(calls[i], texts.back(), both));
    compared[i] = both;
  }
  for (const Stream stream : streams_) device_->synchronize(stream);
  std::vector<std::byte> theirs(static_cast<std::size_t>(results_->used())), mine(theirs.size());
  for (const auto& [to, from] : {std::pair{&theirs, &theirs_}, {&mine, &mine_}})
    device_->copy_to_host(to->data(), from->data(), results_->used(), nullptr);
  device_->synchronize(nullptr);
  for (std::size_t i = 0; i < calls.size() && failed_ <= kMostFailed; ++i) {
    if (!compared[i]) continue;
    const RandomCall& call = calls[i];
    compare_result(call, call.c, theirs.data(), mine.data(), texts[i]);
    if (call.writes_aux()) compare_result(call, call.aux, theirs.data(), mine.data(), texts[i]);
    if (call.writes_bias()) compare_result(call, call.bias, theirs.data(), mine.data(), texts[i]);
  }
}

inline void RandomCalls::compare(int calls) {
  constexpr std::int64_t kMostOfACall = 12 << 20;
  std::vector<RandomCall> batch;
  for (int call = 0; call < calls; ++call) {
    batch.push_back(draw_call());
    const bool is_full = std::min(operands_->left(), results_->left()) < kMostOfACall;
    if (!is_full && call + 1 < calls) continue;
    ASSERT_NO_FATAL_FAILURE(run(batch, call + 1 - static_cast<int>(batch.size())));
    ASSERT_LE(failed_, kMostFailed) << "after " << call + 1 << " calls";
    batch.clear();
    operands_->clear(), results_->clear();
  }
  // cuBLAS must not be compared with itself.
  EXPECT_EQ(ours_.get<std::uint64_t()>("tilewise_drop_in_answered")(), answered_);
  EXPECT_GT(answered_, static_cast<std::uint64_t>(calls) / 3);
  EXPECT_LE(refused_, static_cast<std::uint64_t>(calls) / 20);
  RecordProperty("answered", std::to_string(answered_));
}

}  // namespace tilewise::drop_in
