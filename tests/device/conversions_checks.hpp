#pragma once
// The conversions of templates/types.cuh, checked on the CPU executor (conversions_test) and on a
// GPU (conversions_gpu_test).
#include <algorithm>

#include "tests/device/warp_checks.hpp"
#include "tests/support/numbers.hpp"

namespace tilewise::test {

inline constexpr DType kSmallTypes[] = {DType::f16, DType::bf16, DType::e4m3, DType::e5m2};

/// Converts VALUES floats to the type, and all CODES codes of the type to floats.
inline const char* const kConvert = R"(#include "words/types.cuh"
struct Args { const float* from; Result* narrowed; float* widened; };
KERNEL(256, 1) convert(ARGUMENTS Args args) {
  for (int i = threadIdx.x; i < VALUES; i += 256) args.narrowed[i] = Number<RESULT>::narrow(args.from[i]);
  for (int i = threadIdx.x; i < CODES; i += 256) args.widened[i] = Number<RESULT>::widen(static_cast<Result>(i));
}
)";

/// Every number of the type, every midpoint of neighbours, the floats next to a midpoint, and
/// values far out of range, each with both signs.
inline std::vector<float> floats_around(DType type) {
  std::vector<float> floats{0.0F, INFINITY, NAN, 0x1p-149F, 0x1p-126F, 0x1.fffffep127F, 3e38F};
  const std::vector<double>& numbers = magnitudes(type);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const double last_step = numbers.back() - numbers[numbers.size() - 2];
    const double next = i + 1 < numbers.size() ? numbers[i + 1] : numbers[i] + last_step;
    const double middle = (numbers[i] + next) / 2;
    // bf16's last midpoint is also f32's; it is not an f32 number.
    const auto half = static_cast<float>(middle);
    for (const float x : {static_cast<float>(numbers[i]), half, std::nextafter(half, 0.0F),
                          std::nextafter(half, INFINITY)})
      floats.push_back(x);
  }
  const std::size_t positive = floats.size();
  for (std::size_t i = 0; i < positive; ++i) floats.push_back(-floats[i]);
  return floats;
}

inline void check_conversions(const Machine& machine, DType type) {
  const std::vector<float> from = floats_around(type);
  const int bytes = bytes_of(type), codes = 1 << 8 * bytes;
  const auto kernel = machine.load("convert", kConvert,
                                   {{"CODES", codes},
                                    {"VALUES", static_cast<std::int64_t>(from.size())},
                                    {"RESULT", static_cast<int>(type)}});
  const DeviceBuffer in = machine.upload(from),
                     narrowed = machine.upload(
                         std::vector<std::byte>(from.size() * static_cast<std::size_t>(bytes))),
                     widened = machine.upload(std::vector<float>(static_cast<std::size_t>(codes)));
  machine.launch(*kernel, 256, {in.data(), narrowed.data(), widened.data()});
  const auto same = [](double x, double y) {
    return (x == y && std::signbit(x) == std::signbit(y)) || (std::isnan(x) && std::isnan(y));
  };
  const auto got = machine.download<std::byte>(narrowed);
  for (std::size_t i = 0; i < from.size(); ++i) {
    std::byte expected[8];
    encode(type, static_cast<double>(from[i]), expected);
    const double is = decode(type, &got[i * static_cast<std::size_t>(bytes)]);
    ASSERT_TRUE(same(is, decode(type, expected)))
        << from[i] << " becomes " << is << " instead of " << decode(type, expected) << " in "
        << to_string(type);
  }
  const auto back = machine.download<float>(widened);
  for (int code = 0; code < codes; ++code) {
    std::byte stored[8] = {};
    std::memcpy(stored, &code, 4);  // all supported machines are little-endian
    ASSERT_TRUE(
        same(static_cast<double>(back[static_cast<std::size_t>(code)]), decode(type, stored)))
        << "code " << code << " of " << to_string(type);
  }
}

}  // namespace tilewise::test
