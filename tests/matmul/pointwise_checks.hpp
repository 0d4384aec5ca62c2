#pragma once
// Epilogues in the kernel dialect (templates/plan/pointwise.hpp) on a device, against evaluate().
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "device/device.hpp"
#include "templates/plan/pointwise.hpp"
#include "templates/sources.hpp"
#include "tests/matmul/on_device.hpp"

namespace tilewise::test {

/// Operators and functions that IEEE 754 rounds, and operands of all kinds.
inline const char* const kRounded[] = {
    "acc",
    "2",
    "-0 * acc",
    "acc + bias[j]",
    "acc * s + t[i]",
    "acc * acc + x[i,j] * y[j]",
    "acc - x[i,j]",
    "x[j] - acc * x[j]",
    "acc / x[i,j]",
    "-acc",
    "sqrt(acc)",
    "rsqrt(x[i])",
    "abs(acc)",
    "relu(acc)",
    "min(acc, x[i,j])",
    "max(acc, x[i,j])",
    "clamp(acc, -1.5, s)",
    "where(acc < x[i], acc, y[j])",
    "where(acc <= x[i], 1, 0)",
    "where(acc == x[i], 1, 0)",
    "where(acc != x[i], acc / 3, 0.1)",
    "x = acc + bias[j]; aux[i,j] = x; grad[j] = sum(x * x); relu(x) + residual[i,j]",
    "a = acc * 0.1 + 0.3; b = a * a + a; c = b * a + b; where(c > b, c * b + a, c - b * a)"};
/// With functions that a library computes.
inline const char* const kComputed[] = {"exp(acc)",     "log(acc)",  "tanh(acc)", "erf(acc)",
                                        "sigmoid(acc)", "silu(acc)", "gelu(acc)", "gelu_tanh(acc)"};

struct Pointwise : OnDevice {
  using OnDevice::OnDevice;

  static constexpr std::size_t kCount = 1024, kOutputs = EpilogueForm::kMostOperands + 1;

  /// Special values, and others whose sums round.
  template <class T>
  static std::vector<T> drawn(std::mt19937& random, std::size_t count) {
    using Limits = std::numeric_limits<T>;
    const T special[] = {T(0),
                         -T(0),
                         T(1),
                         -T(1),
                         Limits::infinity(),
                         -Limits::infinity(),
                         Limits::quiet_NaN(),
                         Limits::min(),
                         Limits::denorm_min(),
                         Limits::max()};
    std::vector<T> values;
    while (values.size() < count)
      values.push_back(random() % 3 == 0 ? special[random() % std::size(special)]
                                         : std::ldexp(T(static_cast<std::int32_t>(random())),
                                                      static_cast<int>(random() % 24) - 40));
    return values;
  }

  /// A random epilogue of what IEEE 754 rounds.
  static std::string expression(std::mt19937& random, int depth) {
    const auto below = [&](unsigned count) { return random() % count; };
    if (depth == 0) {
      const char* const leaves[] = {"acc", "x[i,j]", "y[j]", "z[i]", "s", "0.7"};
      return leaves[below(std::size(leaves))];
    }
    const std::string x = expression(random, depth - 1), y = expression(random, depth - 1);
    const char* const between[] = {" + ", " - ", " * ", " / "};
    switch (below(8)) {
      case 0:
        return "max(" + x + ", " + y + ")";
      case 1:
        return "where(" + x + " < " + y + ", " + y + ", " + x + ")";
      case 2:
        return "relu(" + x + ")";
      default:
        return "(" + x + between[below(4)] + y + ")";
    }
  }

  static std::string source_of(const std::vector<EpilogueForm>& epilogues) {
    std::string parts = "#include \"words/functions.cuh\"\n", calls;
    for (std::size_t e = 0; e < epilogues.size(); ++e) {
      const std::string name = "e" + std::to_string(e);
      const auto output = [&](std::size_t nth) {
        return "to.results[" + std::to_string((e * kOutputs + nth) * kCount) + " + i]";
      };
      parts += "namespace " + name + " {\n" + pointwise_source(epilogues[e]) + "}\n";
      calls += "    {\n      " + name + "::PointwiseValues values{};\n      " + name +
               "::PointwiseResults results{};\n";
      std::string after;
      for (std::size_t slot = 0; slot < epilogues[e].operands.size(); ++slot) {
        const std::string p = "p" + std::to_string(slot);
        if (epilogues[e].operands[slot].use == EpilogueUse::read)
          calls +=
              "      values." + p + " = to.operands[" + std::to_string(slot * kCount) + " + i];\n";
        else
          after += "      " + output(slot) + " = results." + p + ";\n";
      }
      calls += "      " + output(kOutputs - 1) + " = " + name +
               "::pointwise(to.acc[i], values, results);\n" + after + "    }\n";
    }
    return parts +
           "struct Args { const PointwiseNumber* acc; const PointwiseNumber* operands;"
           " PointwiseNumber* results; };\n"
           "KERNEL(128, 1) all_of(ARGUMENTS Args to) {\n  for (int i = threadIdx.x; i < " +
           std::to_string(kCount) + "; i += 128) {\n" + calls + "  }\n}\n";
  }

  CompileRequest request_of(const std::vector<EpilogueForm>& epilogues, DType c,
                            const Target& target) {
    return {{"all_of.cu", "all_of", {{"RESULT", static_cast<int>(c)}}},
            source_of(epilogues),
            kernel_source("naive.cu").headers,
            target};
  }

  /// The results of C are right by right(form, acc, operands, found), else have equal bits.
  template <class T>
  using Right = std::function<bool(const EpilogueForm&, T, const std::vector<T>&, T)>;
  template <class T>
  void check(const std::vector<std::string>& texts, const Right<T>& right = nullptr) {
    std::vector<EpilogueForm> epilogues;
    for (const std::string& text : texts) epilogues.push_back(parse_epilogue(text).form);
    std::mt19937 random(7);
    const std::vector<T> acc = drawn<T>(random, kCount),
                         operands = drawn<T>(random, EpilogueForm::kMostOperands * kCount);
    const DType type = sizeof(T) == 8 ? DType::f64 : DType::f32;
    const CompileResult made =
        compiler_->compile(request_of(epilogues, type, device_->info().target));
    ASSERT_TRUE(made.image) << made.log;
    const auto kernel = device_->load(*made.image, 0, 1);
    const auto bytes = [](std::size_t count) {
      return static_cast<std::int64_t>(count * sizeof(T));
    };
    std::vector<T> results(epilogues.size() * kOutputs * kCount, T(-77));
    const DeviceBuffer on_acc = uploaded(acc.data(), bytes(acc.size())),
                       on_operands = uploaded(operands.data(), bytes(operands.size())),
                       on_results = uploaded(results.data(), bytes(results.size()));
    void* const pointers[] = {on_acc.data(), on_operands.data(), on_results.data()};
    device_->launch(*kernel, {{1, 1, 1}, {128, 1, 1}, {}, 0, false}, pointers, nullptr);
    device_->copy_to_host(results.data(), on_results.data(), on_results.bytes(), nullptr);
    device_->synchronize(nullptr);
    for (std::size_t e = 0; e < epilogues.size(); ++e)
      for (std::size_t i = 0; i < kCount; ++i) {
        std::vector<T> values, written;
        for (std::size_t slot = 0; slot < epilogues[e].operands.size(); ++slot)
          values.push_back(operands[slot * kCount + i]);
        written.resize(values.size());
        const T c = evaluate(epilogues[e], acc[i], values, &written);
        for (std::size_t slot = 0; slot < values.size(); ++slot)
          if (epilogues[e].operands[slot].use != EpilogueUse::read)
            expect(results[(e * kOutputs + slot) * kCount + i], written[slot], acc[i], texts[e]);
        const T found = results[(e * kOutputs + kOutputs - 1) * kCount + i];
        if (!right)
          expect(found, c, acc[i], texts[e]);
        else
          EXPECT_TRUE(right(epilogues[e], acc[i], values, found))
              << texts[e] << " of " << acc[i] << ": " << found << ", and not about " << c;
        if (HasFailure()) return;
      }
  }
  template <class T>
  static void expect(T found, T wanted, T acc, const std::string& text) {
    EXPECT_TRUE((std::isnan(found) && std::isnan(wanted)) ||
                (found == wanted && std::signbit(found) == std::signbit(wanted)))
        << text << " of " << acc << ": " << found << ", and not " << wanted;
  }

  static std::vector<std::string> rounded() {
    std::vector<std::string> texts(std::begin(kRounded), std::end(kRounded));
    std::mt19937 random(3);
    for (int i = 0; i < 24; ++i) texts.push_back(expression(random, 1 + i % 4));
    return texts;
  }
  static std::vector<std::string> computed() {
    return {std::begin(kComputed), std::end(kComputed)};
  }

  /// Integer results are rounded, saturated, and 0 for NaN.
  void check_integers() {
    const std::vector<float> from{0,    0.5F,  1.5F,    -2.5F,    126.5F, 127.5F,   1e9F,     -1e9F,
                                  3e9F, -3e9F, 0x1p31F, -0x1p31F, NAN,    INFINITY, -INFINITY};
    const std::int32_t as_i32[] = {0,         0,          2,           -2,        126,
                                   128,       1000000000, -1000000000, INT32_MAX, INT32_MIN,
                                   INT32_MAX, INT32_MIN,  0,           INT32_MAX, INT32_MIN};
    const std::int32_t as_i8[] = {0,   0,    2,   -2,   126, 127, 127, -128,
                                  127, -128, 127, -128, 0,   127, -128};
    const CompileResult made =
        compiler_->compile({{"integers.cu", "integers", {}},
                            "#include \"words/functions.cuh\"\n"
                            "struct Args { const float* from; int* to; };\n"
                            "KERNEL(32, 1) integers(ARGUMENTS Args args) {\n"
                            "  const float value = args.from[threadIdx.x];\n"
                            "  args.to[threadIdx.x] = narrow_pointwise<TYPE_I32>(value);\n"
                            "  args.to[threadIdx.x + 32] = narrow_pointwise<TYPE_I8>(value);\n}\n",
                            kernel_source("naive.cu").headers,
                            device_->info().target});
    ASSERT_TRUE(made.image) << made.log;
    const auto kernel = device_->load(*made.image, 0, 1);
    std::vector<float> all = from;
    all.resize(32);
    std::vector<std::int32_t> to(64);
    const DeviceBuffer on_from = uploaded(all.data(), 32 * 4), on_to = uploaded(to.data(), 64 * 4);
    void* const pointers[] = {on_from.data(), on_to.data()};
    device_->launch(*kernel, {{1, 1, 1}, {32, 1, 1}, {}, 0, false}, pointers, nullptr);
    device_->copy_to_host(to.data(), on_to.data(), on_to.bytes(), nullptr);
    device_->synchronize(nullptr);
    for (std::size_t i = 0; i < from.size(); ++i) {
      EXPECT_EQ(to[i], as_i32[i]) << from[i];
      EXPECT_EQ(to[i + 32], as_i8[i]) << from[i];
    }
  }
};

}  // namespace tilewise::test
