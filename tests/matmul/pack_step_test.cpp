// The memory that a pack step writes. Kernels that test their edges never read padding, so no
// product detects whether it is zero.
#include <gtest/gtest.h>

#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "device/compiler.hpp"
#include "device/cpu/cpu.hpp"
#include "matmul/executable.hpp"
#include "templates/kernel_template.hpp"
#include "templates/plan/multiply_plan.hpp"
#include "templates/sources.hpp"
#include "tests/support/problems.hpp"

namespace tilewise::pack_step_test {
namespace {

constexpr const char* kDevice = "host:sm_90a";
constexpr std::byte kCanary{0x5a}, kOutside{0xff};

using Memory = std::vector<std::byte>;

class PackStep : public testing::Test {
 protected:
  bool aligned_ = false;  ///< whether B's rows are aligned to 16 bytes

  /// Packs B (k x n) by mma's plan, with `from` in its kernel replaced by `to`. B's rows are not a
  /// multiple of the load width. The memory starts as canaries, and some canaries follow its end.
  Memory packed(const ProductKind& kind, Pack pack, const std::string& from = "",
                const std::string& to = "") {
    problem_ = test::with_kind(test::make_problem(Layout::nn, 5, 37, 21, 1), kind);
    problem_.batch = 2;
    const DeviceInfo info = cpu::device_info(kDevice);
    const KernelTemplate& mma = find_template("mma");
    Configuration c = mma.default_configuration(problem_, info);
    c.set("PACK_B", static_cast<int>(pack));
    c.set("BYTES_B", 16);
    Plan plan = mma.plan(problem_, c, info);
    plan.steps.resize(1);  // only the pack, to save compile time
    KernelSource source = kernel_source("pack.cu");
    const auto at = source.text.find(from);
    EXPECT_NE(at, source.text.npos) << "pack.cu has no \"" << from << '"';
    if (at != source.text.npos) source.text.replace(at, from.size(), to);
    const CompileResult made =
        cpu::load_compiler({"-O1", ""})
            ->compile({plan.steps[0].kernel, source.text, source.headers, info.target});
    EXPECT_TRUE(made.image) << made.log;
    if (!made.image) return {};
    const auto device = cpu::open_device(kDevice);
    const Executable executable(*device, problem_, plan, std::span(&*made.image, 1));
    packing_ = *executable.packing(StepRole::pack_b);
    return run(*device, executable);
  }

  bool rounds() const { return packing_.rounded; }

  /// The packed memory by definition.
  Memory expected() const {
    Memory to(static_cast<std::size_t>(packing_.bytes) + kBehind, kCanary);
    const std::size_t element = element_bytes();
    const std::int64_t stride = packing_.bytes / problem_.batch;
    for (std::int64_t i = 0; i < problem_.batch; ++i)
      for (std::int64_t r = 0; r < packing_.packed_rows; ++r)
        for (std::int64_t s = 0; s < packing_.ld; ++s) {
          const std::int64_t row = packing_.transposed ? s : r,
                             column = packing_.transposed ? r : s;
          std::byte* at = &to[static_cast<std::size_t>(i * stride) +
                              static_cast<std::size_t>(r * packing_.ld + s) * element];
          if (row < packing_.rows && column < packing_.columns)
            std::memcpy(at, &from_[place(i, row, column)], element);
          else
            std::memset(at, 0, element);
          if (packing_.rounded) round_to_tf32(at);
        }
    return to;
  }

 private:
  static constexpr std::size_t kBehind = 64;

  /// Rounds off 13 bits, to nearest, ties to even. No operand is NaN or the largest number.
  static void round_to_tf32(std::byte* at) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, at, 4);
    bits = (bits + 0xfff + (bits >> 13 & 1)) & 0xffffe000U;
    std::memcpy(at, &bits, 4);
  }

  Memory run(Device& device, const Executable& executable) {
    const std::int64_t run = 16 / bytes_of(problem_.b.type);
    ld_ = aligned_ ? round_up(packing_.columns, run) : packing_.columns + 2;
    // Rows after the last one detect reads of them.
    from_.assign(place(problem_.batch, 4, 0), kOutside);
    for (std::int64_t i = 0; i < problem_.batch; ++i)
      for (std::int64_t r = 0; r < packing_.rows; ++r)
        for (std::size_t at = place(i, r, 0); at < place(i, r, packing_.columns); ++at)
          from_[at] = static_cast<std::byte>(1 + at % 251);
    Memory to(static_cast<std::size_t>(packing_.bytes) + kBehind, kCanary);
    const auto size = [](const Memory& m) { return static_cast<std::int64_t>(m.size()); };
    DeviceBuffer b(device, size(from_)), workspace(device, size(to));
    device.copy_to_device(b.data(), from_.data(), size(from_), nullptr);
    device.copy_to_device(workspace.data(), to.data(), size(to), nullptr);
    Call call;
    call.b = static_cast<std::byte*>(b.data()) + place(0, 0, 0);
    call.ldb = ld_;
    call.stride_b = packing_.rows * ld_;
    executable.pack(StepRole::pack_b, call, workspace.data());
    device.copy_to_host(to.data(), workspace.data(), size(to), nullptr);
    device.synchronize(nullptr);
    return to;
  }
  std::size_t element_bytes() const { return static_cast<std::size_t>(bytes_of(problem_.b.type)); }
  /// The byte offset of an element. If unaligned, the first element is one past an aligned address.
  std::size_t place(std::int64_t product, std::int64_t row, std::int64_t column) const {
    return static_cast<std::size_t>((aligned_ ? 0 : 1) + (product * packing_.rows + row) * ld_ +
                                    column) *
           element_bytes();
  }

  Problem problem_;
  Packing packing_;
  std::int64_t ld_ = 0;
  Memory from_;
};

TEST_F(PackStep, WritesElementsAndZerosAndNothingElse) {
  for (const ProductKind& kind : {*find_product_kind(DType::i8, DType::i32, MathMode::strict),
                                  *find_product_kind(DType::f16, DType::f32, MathMode::strict),
                                  *find_product_kind(DType::f32, DType::f32, MathMode::tf32),
                                  *find_product_kind(DType::f64, DType::f64, MathMode::strict)})
    for (const Pack pack : {Pack::pad, Pack::transpose})
      for (const bool aligned : {false, true}) {
        aligned_ = aligned;
        const Memory got = packed(kind, pack);
        EXPECT_TRUE(got == expected())
            << to_string(kind.a) << (pack == Pack::pad ? " padded" : " turned")
            << (aligned ? ", aligned" : "");
        EXPECT_EQ(rounds(), kind.math == MathMode::tf32);
      }
}

// A planted mistake that no product detects.
TEST_F(PackStep, PaddingThatIsNotWrittenIsSeen) {
  const ProductKind& kind = *find_product_kind(DType::f16, DType::f32, MathMode::strict);
  const Memory padded = packed(kind, Pack::pad, "c < x.to_ld", "c < x.columns");
  EXPECT_FALSE(padded == expected());
  const Memory turned = packed(kind, Pack::transpose, "c < x.to_ld", "c < x.rows");
  EXPECT_FALSE(turned == expected());
}

// Rows past the last are replaced by zeros.
TEST_F(PackStep, RowsReadPastTheLastAreSeen) {
  aligned_ = true;
  const ProductKind& kind = *find_product_kind(DType::f32, DType::f32, MathMode::tf32);
  const Memory turned = packed(kind, Pack::transpose, "inside = last <", "inside = row <");
  EXPECT_FALSE(turned == expected());
}

}  // namespace
}  // namespace tilewise::pack_step_test
