// Entry points by type, on a device that records its launches: the kernel of each type, and
// refusals.
#include "matmul_fixture.hpp"

// A 16-bit type of the program, declared as the type that it represents.
struct Half {
  std::uint16_t bits;
};
template <>
struct tilewise::ElementType<Half> : tilewise::ElementType<tilewise::f16> {};

namespace tilewise::typed_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

static_assert(sizeof(f16) == 2 && sizeof(bf16) == 2 && sizeof(e4m3) == 1 && sizeof(e5m2) == 1);
static_assert(std::is_same_v<ScalarOf<double>, double> && std::is_same_v<ScalarOf<e5m2>, float>);
static_assert(!Element<std::int16_t> && !Element<long>);

std::int64_t number_of(const KernelSpec& kernel, const std::string& name) {
  for (const auto& [known, value] : kernel.defines)
    if (known == name) return value;
  return -1;
}

class TypedTest : public MatmulTest {
 protected:
  TypedTest() {
    device->on_launch = [this](const KernelSpec& kernel, const LaunchShape&, const void*, Stream) {
      seen.push_back(kernel);
    };
  }
  /// The types of A, C and the accumulator in the last launch.
  std::vector<DType> types() const {
    std::vector<DType> found;
    for (const char* name : {"ELEMENT", "RESULT", "SUM"})
      found.push_back(static_cast<DType>(number_of(seen.back(), name)));
    return found;
  }
  std::vector<KernelSpec> seen;
  std::vector<std::byte> memory = std::vector<std::byte>(1 << 16);
  template <class T>
  T* at(std::size_t byte) {
    return reinterpret_cast<T*>(memory.data() + byte);
  }
  template <class T, class R>
  void multiply(Matmul& product) {
    product(Layout::nn, 4, 4, 4, 1, at<T>(0), 4, at<T>(1024), 4, 0, at<R>(2048), 4);
  }
};

TEST_F(TypedTest, EveryElementTypeReachesItsKernel) {
  Matmul product = make_matmul(std::move(parts));
  using enum DType;
  multiply<double, double>(product);
  EXPECT_EQ(types(), (std::vector{f64, f64, f64}));
  multiply<tilewise::f16, tilewise::f16>(product);
  EXPECT_EQ(types(), (std::vector{f16, f16, f32}));
  multiply<Half, float>(product);
  EXPECT_EQ(types(), (std::vector{f16, f32, f32}));
  multiply<tilewise::bf16, tilewise::bf16>(product);
  EXPECT_EQ(types(), (std::vector{bf16, bf16, f32}));
  multiply<std::int8_t, std::int32_t>(product);
  EXPECT_EQ(types(), (std::vector{i8, i32, i32}));
  multiply<tilewise::e4m3, tilewise::bf16>(product);
  EXPECT_EQ(types(), (std::vector{e4m3, bf16, f32}));
  multiply<tilewise::e5m2, tilewise::e5m2>(product);
  EXPECT_EQ(types(), (std::vector{e5m2, e5m2, f32}));
}

TEST_F(TypedTest, EveryKindOfTheTableIsServedOrSaidToBeUnsupported) {
  Matmul product = make_matmul(std::move(parts));
  for (const ProductKind& kind : product_kinds()) {
    const Problem problem = typed_problem(Layout::tn, 4, 4, 4, kind.a, kind.b, kind.c, kind.math);
    Call call;
    call.a = at<char>(0), call.b = at<char>(1024), call.c = at<char>(2048);
    call.lda = call.ldb = call.ldc = 4;
    try {
      product(problem, call);
      EXPECT_EQ(types(), (std::vector{kind.a, kind.c, kind.accumulator}));
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::unsupported) << to_string(problem);
      EXPECT_NE(kind.math, MathMode::strict) << error.what();
    }
  }
}

TEST_F(TypedTest, TypesThatDoNotGoTogetherAreRefusedWithThoseThatDo) {
  Matmul product = make_matmul(std::move(parts));
  const auto words = [](const std::function<void()>& act) -> std::string {
    try {
      act();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
      return error.what();
    }
    return "";
  };
  EXPECT_THAT((words([&] { multiply<float, double>(product); })),
              AllOf(HasSubstr("f32 with results of f64"), HasSubstr("f16 to f32 strict")));
  EXPECT_THAT((words([&] { multiply<std::int8_t, float>(product); })), HasSubstr("i8 to i32"));
  EXPECT_THAT(words([&] {
                product(Layout::nn, 4, 4, 4, 1.0, at<double>(0), 4, at<double>(1024), 4, 0.0,
                        at<double>(2048), 4, nullptr, MathMode::tf32);
              }),
              AllOf(HasSubstr("mode tf32"), HasSubstr("f32 to f32 tf32")));
  Problem mixed = problem_of(4, 4, 4);
  mixed.b.type = DType::f16;
  EXPECT_THAT(words([&] { product(mixed, Call{}); }), HasSubstr("no product of f32 x f16"));
  EXPECT_THAT(words([&] { product.prepare(mixed); }), HasSubstr("no product of f32 x f16"));
  Problem sums = problem_of(4, 4, 4);
  sums.accumulator = DType::f64;
  EXPECT_THAT(words([&] { product.explain(sums); }), HasSubstr("sums in f32"));
  EXPECT_TRUE(seen.empty());
}

TEST_F(TypedTest, AModeThatThisDeviceCannotDoIsUnsupportedWithWhatItCan) {
  device->facts = nominal_device(parse_target("sm_75"));  // sm_75 has no tf32
  Matmul product = make_matmul(std::move(parts));
  const float* a = at<float>(0);
  try {
    product(Layout::nn, 4, 4, 4, 1, a, 4, a, 4, 0, at<float>(2048), 4, nullptr, MathMode::tf32);
    FAIL() << "there are no tensor cores for tf32";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("tf32"), HasSubstr("sm_75"), HasSubstr("can do f32,"),
                                    HasSubstr("f16 to f32"), HasSubstr("i8")));
  }
}

TEST_F(TypedTest, ScalarsOfIntegerProductsAreWholeNumbers) {
  Matmul product = make_matmul(std::move(parts));
  const Problem problem = typed_problem<std::int8_t, std::int32_t>(Layout::nn, 4, 4, 4);
  Call call;
  call.a = at<char>(0), call.b = at<char>(1024), call.c = at<char>(2048);
  call.lda = call.ldb = call.ldc = 4;
  call.alpha = 0.5;
  EXPECT_THROW(product(problem, call), Error);
  call.alpha = -7;
  call.beta = 3e9;
  EXPECT_THROW(product(problem, call), Error);
  call.beta = 2;
  EXPECT_NO_THROW(product(problem, call));
}

TEST_F(TypedTest, ATypedProblemIsThatOfTightMatrices) {
  const Problem p = typed_problem<tilewise::f16, float>(Layout::nt, 8, 6, 12, MathMode::strict, 5);
  EXPECT_EQ(layout_of(p), Layout::nt);
  EXPECT_EQ(p.batch, 5);
  EXPECT_EQ(p.accumulator, DType::f32);
  EXPECT_EQ(alignment_of(p), (Alignment{8, 8, 8}));  // rows of 24, 24 and 24 bytes
  EXPECT_THROW(typed_problem(Layout::nn, 1, 1, 1, DType::f64, DType::f32), Error);
}

TEST_F(TypedTest, BatchesGiveTheKernelTheirStridesAndAlignment) {
  struct Arguments {
    const double *a, *b;
    double* c;
    const double *alpha_device, *beta_device;
    std::int64_t lda, ldb, ldc, stride_a, stride_b, stride_c, m, n, k, part_tiles;
    std::int32_t splits, tiles_m, tiles_n, group_m, divisors[10];
    double alpha, beta;
  } got{};
  device->on_launch = [&](const KernelSpec& kernel, const LaunchShape&, const void* arguments,
                          Stream) {
    seen.push_back(kernel);
    std::memcpy(&got, arguments, sizeof got);
  };
  Matmul product = make_matmul(std::move(parts));
  product.batched(Layout::nn, 4, 4, 4, 0.1, at<double>(0), 4, 16, at<double>(4096), 4, 0, -3.5,
                  at<double>(8192), 4, 17, 3);
  EXPECT_EQ(number_of(seen.back(), "BATCHED"), 1);
  EXPECT_EQ(got.stride_a, 16);
  EXPECT_EQ(got.stride_b, 0);
  EXPECT_EQ(got.stride_c, 17);
  EXPECT_EQ(got.alpha, 0.1) << "as a double, not by way of a float";
  EXPECT_EQ(got.beta, -3.5);
}

TEST_F(TypedTest, MatricesOfCMustNotOverlap) {
  Matmul product = make_matmul(std::move(parts));
  EXPECT_THROW(product.batched(Layout::nn, 4, 4, 4, 1, at<float>(0), 4, 16, at<float>(4096), 4, 16,
                               0, at<float>(8192), 4, 15, 3),
               Error);
  EXPECT_TRUE(seen.empty());
}

TEST_F(TypedTest, DefaultsAndRecordsKeepToTheirKind) {
  parts.database = Database::in_memory();
  const Problem f64_problem = typed_problem<double, double>(Layout::nn, 64, 64, 64);
  store(*parts.database, f64_problem, "naive");
  Matmul product = make_matmul(std::move(parts));
  EXPECT_EQ(product.explain(f64_problem).kind, MatchKind::exact);
  Problem batched = f64_problem;
  batched.batch = 8;
  EXPECT_DOUBLE_EQ(product.explain(batched).distance, 3);
  const Match other = product.explain(typed_problem<bf16, float>(Layout::nn, 64, 64, 64));
  EXPECT_EQ(other.kind, MatchKind::default_);
  EXPECT_THAT(other.why, AllOf(HasSubstr("bf16 to f32"), HasSubstr("--dtype bf16 --out f32")));
}

}  // namespace
}  // namespace tilewise::typed_test
