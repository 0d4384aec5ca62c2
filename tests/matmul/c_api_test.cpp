#include <nlohmann/json.hpp>

#include "matmul_fixture.hpp"
#include "vocabulary/sum_order.hpp"

namespace tilewise::c_api_test {
namespace {

using testing::HasSubstr;

class CApiTest : public MatmulTest {
 protected:
  void make() { handle = make_handle(make_matmul(std::move(parts))); }
  ~CApiTest() override { tilewise_destroy(handle); }
  tilewise_matmul* handle = nullptr;
};

TEST_F(CApiTest, Multiplies) {
  make();
  const float a[] = {1, 2, 3, 4, 5, 6}, b[] = {1, 0, 0, 1, 1, 1};
  float c[] = {10, 10, 10, 10};
  ASSERT_EQ(tilewise_prepare(handle, TILEWISE_NN, 2, 2, 3), TILEWISE_OK);
  ASSERT_EQ(tilewise_sgemm(handle, TILEWISE_NN, 2, 2, 3, 1, a, 3, b, 2, 1, c, 2, nullptr),
            TILEWISE_OK)
      << tilewise_last_error();
  EXPECT_THAT(c, testing::ElementsAre(14, 15, 20, 21));
  ASSERT_EQ(tilewise_sgemm_host(handle, TILEWISE_NT, 2, 2, 3, 2, a, 3, a, 3, 0, c, 2), TILEWISE_OK);
  EXPECT_THAT(c, testing::ElementsAre(28, 64, 64, 154));
}

TEST_F(CApiTest, EveryFailureIsAStatusWithWords) {
  make();
  float x[4] = {};
  EXPECT_EQ(tilewise_sgemm(handle, TILEWISE_NN, -1, 1, 1, 1, x, 1, x, 1, 0, x, 1, nullptr),
            TILEWISE_INVALID_ARGUMENT);
  EXPECT_THAT(tilewise_last_error(), HasSubstr("m = -1"));
  EXPECT_EQ(tilewise_sgemm(nullptr, TILEWISE_NN, 1, 1, 1, 1, x, 1, x, 1, 0, x, 1, nullptr),
            TILEWISE_INVALID_ARGUMENT);
  EXPECT_THAT(tilewise_last_error(), HasSubstr("handle is null"));
  EXPECT_EQ(tilewise_create(nullptr, nullptr), TILEWISE_INVALID_ARGUMENT);
  EXPECT_EQ(tilewise_prepare(handle, TILEWISE_NN, 1, -2, 1), TILEWISE_INVALID_ARGUMENT);
  EXPECT_THAT(tilewise_last_error(), HasSubstr("1x-2x1"));
  device->on_load = [](const Image&) { throw Error(ErrorKind::out_of_memory, "full"); };
  EXPECT_EQ(tilewise_prepare(handle, TILEWISE_NN, 1, 2, 1), TILEWISE_OUT_OF_MEMORY);
  device->on_load = [](const Image&) { throw std::runtime_error("a fault"); };
  EXPECT_EQ(tilewise_prepare(handle, TILEWISE_NN, 1, 2, 1), TILEWISE_INTERNAL_ERROR);
  EXPECT_STREQ(tilewise_last_error(), "a fault");
}

TEST_F(CApiTest, ExplainsAsJson) {
  parts.database = Database::in_memory();
  store(*parts.database, problem_of(64, 64, 64), "naive");
  make();
  size_t needed = 0;
  EXPECT_EQ(tilewise_explain(handle, TILEWISE_NN, 64, 64, 64, nullptr, 0, &needed),
            TILEWISE_INVALID_ARGUMENT);
  ASSERT_GT(needed, 1u);
  std::string text(needed, 'x');
  ASSERT_EQ(tilewise_explain(handle, TILEWISE_NN, 64, 64, 64, text.data(), text.size(), nullptr),
            TILEWISE_OK);
  EXPECT_EQ(text.back(), '\0');
  auto json = nlohmann::json::parse(text.c_str());
  EXPECT_EQ(json.at("match"), "exact");
  EXPECT_EQ(json.at("distance"), 0);
  EXPECT_TRUE(json.at("record").is_object());
  EXPECT_TRUE(json.at("stale").is_boolean());
}

TEST_F(CApiTest, ExplainsADefaultAsJson) {
  parts.database = Database::in_memory();
  make();
  size_t needed = 0;
  std::string text(100000, ' ');
  ASSERT_EQ(tilewise_explain(handle, TILEWISE_TT, 1, 2, 3, text.data(), text.size(), &needed),
            TILEWISE_OK);
  const auto json = nlohmann::json::parse(text.c_str());
  EXPECT_EQ(json.at("match"), "default");
  EXPECT_TRUE(json.at("record").is_null());
  EXPECT_THAT(json.at("why").get<std::string>(), HasSubstr("autotune"));
  EXPECT_GT(json.at("predicted_us"), 0);
  EXPECT_THAT(json.at("why").get<std::string>(),
              HasSubstr("limited by " + json.at("limited_by").get<std::string>()));
}

tilewise_problem problem_in_c(tilewise_type operand, tilewise_type result) {
  tilewise_problem problem = TILEWISE_PROBLEM_INIT;
  problem.m = problem.n = problem.k = 2;
  problem.operand = operand;
  problem.result = result;
  return problem;
}

TEST_F(CApiTest, EveryTypeAndModeHasItsNumber) {
  for (const DTypeInfo& info : dtypes()) {
    std::vector<DType> seen;
    auto made = std::make_unique<FakeDevice>();
    made->on_launch = [&](const KernelSpec& kernel, const LaunchShape&, const void*, Stream) {
      for (const auto& [name, value] : kernel.defines)
        if (name == "ELEMENT" || name == "RESULT") seen.push_back(static_cast<DType>(value));
    };
    MatmulParts own;
    own.device = std::move(made);
    own.load_compiler = [] { return std::make_unique<FakeCompiler>(); };
    tilewise_matmul* const one = make_handle(make_matmul(std::move(own)));
    const DType result = default_result(info.type);
    const auto problem =
        problem_in_c(static_cast<tilewise_type>(info.type), static_cast<tilewise_type>(result));
    alignas(16) std::byte memory[256];
    tilewise_call call = TILEWISE_CALL_INIT;
    call.a = memory, call.b = memory + 64, call.c = memory + 128;
    call.lda = call.ldb = call.ldc = 2;
    const tilewise_status status = tilewise_multiply(one, &problem, &call);
    if (info.type == DType::i32 || info.type == DType::i4) {
      EXPECT_EQ(status, TILEWISE_INVALID_ARGUMENT) << "a result only, and a type of B only";
    } else {
      EXPECT_EQ(status, TILEWISE_OK) << tilewise_last_error();
      EXPECT_EQ(seen, (std::vector{info.type, result}));
    }
    tilewise_destroy(one);
  }
}

TEST_F(CApiTest, BatchesOnHostPointersAndOnDevicePointers) {
  device->on_launch = [](const KernelSpec&, const LaunchShape&, const void* arguments, Stream) {
    struct {
      const double *a, *b;
      double *c, *alpha_device, *beta_device;
      std::int64_t ld[3], stride_a, stride_b, stride_c, m, n, k, part_tiles;
      std::int32_t splits, tiles_m, tiles_n, group_m, divisors[10];
      double alpha, beta;
    } x;
    std::memcpy(&x, arguments, sizeof x);
    // The batch shares B, so on device pointers it is one product of two rows.
    const bool folded = x.m == 2;
    for (int i = 0; i < 2; ++i)
      x.c[i * (folded ? x.ld[2] : x.stride_c)] =
          x.alpha * x.a[i * (folded ? x.ld[0] : x.stride_a)] * x.b[folded ? 0 : i * x.stride_b];
  };
  make();
  tilewise_problem problem = problem_in_c(TILEWISE_F64, TILEWISE_F64);
  problem.m = problem.n = problem.k = 1;
  problem.batch = 2;
  const double a[] = {2, 0, 3}, b[] = {5};
  double c[] = {0, 0}, on_host[] = {0, 7, 0, 7};
  tilewise_call call = TILEWISE_CALL_INIT;
  call.a = a, call.b = b, call.c = c;
  call.lda = call.ldb = call.ldc = 1;
  call.stride_a = 2, call.stride_c = 1;
  call.alpha = 0.1;
  ASSERT_EQ(tilewise_prepare_problem(handle, &problem), TILEWISE_OK) << tilewise_last_error();
  ASSERT_EQ(tilewise_multiply(handle, &problem, &call), TILEWISE_OK) << tilewise_last_error();
  EXPECT_THAT(c, testing::ElementsAre(0.1 * 2 * 5, 0.1 * 3 * 5));
  call.c = on_host;
  call.stride_c = 2;
  ASSERT_EQ(tilewise_multiply_host(handle, &problem, &call), TILEWISE_OK) << tilewise_last_error();
  EXPECT_THAT(on_host, testing::ElementsAre(0.1 * 2 * 5, 7, 0.1 * 3 * 5, 7));
}

TEST_F(CApiTest, BadTypesModesAndNullsAreStatusesWithWords) {
  make();
  tilewise_call call = TILEWISE_CALL_INIT;
  tilewise_problem problem = problem_in_c(TILEWISE_F16, TILEWISE_F64);
  EXPECT_EQ(tilewise_multiply(handle, &problem, &call), TILEWISE_INVALID_ARGUMENT);
  EXPECT_THAT(tilewise_last_error(), HasSubstr("f16 to f32"));
  problem.operand = static_cast<tilewise_type>(9);
  EXPECT_EQ(tilewise_prepare_problem(handle, &problem), TILEWISE_INVALID_ARGUMENT);
  EXPECT_THAT(tilewise_last_error(), HasSubstr("operand type 9"));
  problem = problem_in_c(TILEWISE_F32, TILEWISE_F32);
  problem.math = static_cast<tilewise_math>(5);
  EXPECT_EQ(tilewise_prepare_problem(handle, &problem), TILEWISE_INVALID_ARGUMENT);
  EXPECT_THAT(tilewise_last_error(), HasSubstr("math 5"));
  problem.math = TILEWISE_FAST;
  EXPECT_EQ(tilewise_prepare_problem(handle, &problem), TILEWISE_INVALID_ARGUMENT);
  EXPECT_THAT(tilewise_last_error(), HasSubstr("mode fast"));
  problem.math = TILEWISE_STRICT;
  problem.batch = -1;
  EXPECT_EQ(tilewise_prepare_problem(handle, &problem), TILEWISE_INVALID_ARGUMENT);
  EXPECT_THAT(tilewise_last_error(), HasSubstr("batch -1"));
  EXPECT_EQ(tilewise_multiply(handle, nullptr, &call), TILEWISE_INVALID_ARGUMENT);
  EXPECT_THAT(tilewise_last_error(), HasSubstr("the tilewise_problem is null"));
  problem.batch = 0;
  EXPECT_EQ(tilewise_multiply(handle, &problem, nullptr), TILEWISE_INVALID_ARGUMENT);
  EXPECT_THAT(tilewise_last_error(), HasSubstr("the tilewise_call is null"));
  EXPECT_EQ(tilewise_pack_b(handle, &problem, nullptr, 2, 0, nullptr, nullptr),
            TILEWISE_INVALID_ARGUMENT);
}

TEST_F(CApiTest, InvariantProductsHaveOneOrder) {
  parts.database = Database::in_memory();
  parts.database->put(
      {order_key(problem_of(1, 32, 512)), gpu_key(device->facts), "fused+parts128", ""});
  make();
  tilewise_problem problem = TILEWISE_PROBLEM_INIT;
  problem.m = 3, problem.n = 32, problem.k = 512;
  char plain[33], kept[33];
  problem.n = 16;
  ASSERT_EQ(tilewise_fingerprint(handle, &problem, 1, plain), TILEWISE_OK);
  problem.n = 32;
  ASSERT_EQ(tilewise_fingerprint(handle, &problem, 1, kept), TILEWISE_OK);
  EXPECT_EQ(std::string(kept).size(), 32u);
  EXPECT_STRNE(plain, kept);
  problem.invariant = 1;
  size_t needed = 0;
  std::string text(4096, 'x');
  ASSERT_EQ(tilewise_explain_problem(handle, &problem, text.data(), text.size(), &needed),
            TILEWISE_OK)
      << tilewise_last_error();
  EXPECT_THAT(text, HasSubstr("in the order fused+parts128"));
  problem.n = 16;  // the fake device has no parts of k
  const std::vector<float> a(3 * 512, 1), b(512 * 16, 2);
  std::vector<float> c(3 * 16);
  tilewise_call call = TILEWISE_CALL_INIT;
  call.a = a.data(), call.b = b.data(), call.c = c.data();
  call.lda = 512, call.ldb = call.ldc = 16;
  ASSERT_EQ(tilewise_multiply(handle, &problem, &call), TILEWISE_OK) << tilewise_last_error();
  EXPECT_EQ(c[47], 1024);
  EXPECT_EQ(tilewise_multiply_host(handle, &problem, &call), TILEWISE_UNSUPPORTED);
  problem.invariant = 2;
  EXPECT_EQ(tilewise_multiply(handle, &problem, &call), TILEWISE_INVALID_ARGUMENT);
  EXPECT_THAT(tilewise_last_error(), HasSubstr("invariant = 2"));
  EXPECT_EQ(tilewise_fingerprint(handle, &problem, 1, nullptr), TILEWISE_INVALID_ARGUMENT);
  EXPECT_EQ(tilewise_fingerprint(handle, nullptr, 1, kept), TILEWISE_INVALID_ARGUMENT);
  EXPECT_EQ(tilewise_fingerprint(handle, nullptr, 0, kept), TILEWISE_OK);
}

TEST_F(CApiTest, PacksOnce) {
  make();
  const tilewise_problem problem = problem_in_c(TILEWISE_F32, TILEWISE_F32);
  const float a[] = {1, 2, 3, 4}, b[] = {1, 0, 0, 1};
  float c[] = {0, 0, 0, 0};
  tilewise_packed* packed = nullptr;
  ASSERT_EQ(tilewise_pack_b(handle, &problem, b, 2, 0, nullptr, &packed), TILEWISE_OK)
      << tilewise_last_error();
  EXPECT_EQ(tilewise_packed_bytes(packed), 0) << "the default reads the original";
  tilewise_call call = TILEWISE_CALL_INIT;
  call.a = a, call.b = b, call.c = c;
  call.lda = call.ldb = call.ldc = 2;
  call.packed_b = packed;
  ASSERT_EQ(tilewise_multiply(handle, &problem, &call), TILEWISE_OK) << tilewise_last_error();
  EXPECT_THAT(c, testing::ElementsAre(1, 2, 3, 4));
  call.packed_a = packed;
  EXPECT_EQ(tilewise_multiply(handle, &problem, &call), TILEWISE_INVALID_ARGUMENT);
  EXPECT_THAT(tilewise_last_error(), HasSubstr("made by pack_b()"));
  tilewise_packed_destroy(packed);
  EXPECT_EQ(tilewise_pack_a(handle, &problem, nullptr, 2, 0, nullptr, &packed),
            TILEWISE_INVALID_ARGUMENT);
  EXPECT_EQ(packed, nullptr);
  tilewise_packed_destroy(nullptr);
  EXPECT_EQ(tilewise_packed_bytes(nullptr), 0);
}

TEST_F(CApiTest, FindsTheFastestModeOfAnAccuracy) {
  make();
  tilewise_problem problem = problem_in_c(TILEWISE_F32, TILEWISE_F32);
  tilewise_math math = TILEWISE_TF32;
  ASSERT_EQ(tilewise_fastest_within(handle, &problem, 3e-7, &math), TILEWISE_OK)
      << tilewise_last_error();
  EXPECT_EQ(math, TILEWISE_STRICT);
  EXPECT_EQ(tilewise_fastest_within(handle, &problem, 0, &math), TILEWISE_INVALID_ARGUMENT);
  EXPECT_THAT(tilewise_last_error(),
              testing::AllOf(HasSubstr("tf32 "), HasSubstr("strict 2.38e-07")));
  EXPECT_EQ(tilewise_fastest_within(handle, &problem, 1, nullptr), TILEWISE_INVALID_ARGUMENT);
}

TEST(CApi, CreateWithoutThatDeviceIsAStatus) {
  tilewise_options options = TILEWISE_OPTIONS_INIT;
  options.device = "9999";
  tilewise_matmul* handle = nullptr;
  EXPECT_EQ(tilewise_create(&options, &handle), TILEWISE_NO_DEVICE);
  EXPECT_EQ(handle, nullptr);
  EXPECT_STRNE(tilewise_last_error(), "");
  tilewise_destroy(nullptr);
}

}  // namespace
}  // namespace tilewise::c_api_test
