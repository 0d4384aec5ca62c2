// The functions of cuBLAS as called by a program: this executable finds libtilewise_cublas.so
// before the cuBLAS of programs/fake_cublas.cpp.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#include "drop_in/abi.hpp"
#include "tests/drop_in/tuned.hpp"
#include "tilewise/call.hpp"

using namespace tilewise;
using namespace tilewise::drop_in;
using namespace tilewise::test;

extern "C" {
Status cublasCreate_v2(Handle* handle);
Status cublasDestroy_v2(Handle handle);
Status cublasSetPointerMode_v2(Handle handle, int mode);
Status cublasSetMathMode(Handle handle, int mode);
Status cublasSetSmCountTarget(Handle handle, int count);
Status cublasSgemm_v2(Handle handle, int op_a, int op_b, int m, int n, int k, const void* alpha,
                      const void* a, int lda, const void* b, int ldb, const void* beta, void* c,
                      int ldc);
Status cublasSgemm_v2_64(Handle handle, int op_a, int op_b, std::int64_t m, std::int64_t n,
                         std::int64_t k, const void* alpha, const void* a, std::int64_t lda,
                         const void* b, std::int64_t ldb, const void* beta, void* c,
                         std::int64_t ldc);
Status cublasSgemmStridedBatched(Handle handle, int op_a, int op_b, int m, int n, int k,
                                 const void* alpha, const void* a, int lda, long long stride_a,
                                 const void* b, int ldb, long long stride_b, const void* beta,
                                 void* c, int ldc, long long stride_c, int batch);
Status cublasGemmEx(Handle handle, int op_a, int op_b, int m, int n, int k, const void* alpha,
                    const void* a, int a_type, int lda, const void* b, int b_type, int ldb,
                    const void* beta, void* c, int c_type, int ldc, int compute, int algorithm);
Status cublasLtMatmulDescSetAttribute(LtProduct* product, int name, const void* value,
                                      std::size_t bytes);
Status cublasLtMatmul(Handle handle, const LtProduct* product, const void* alpha, const void* a,
                      const LtMatrix* a_matrix, const void* b, const LtMatrix* b_matrix,
                      const void* beta, const void* c, const LtMatrix* c_matrix, void* d,
                      const LtMatrix* d_matrix, const void* algorithm, void* workspace,
                      std::size_t workspace_bytes, CUstream_st* stream);
Status cublasSgemv_v2(Handle handle, int op, int m, int n, const void* alpha, const void* a,
                      int lda, const void* x, int step_x, const void* beta, void* y, int step_y);
int fake_cublas_products();
std::uint64_t tilewise_drop_in_answered();
}

namespace {

using testing::HasSubstr;

/// Each test runs in its own process, because the drop-in reads the environment once per process.
class EntriesTest : public TunedTest {
 protected:
  void SetUp() override {
    TunedTest::SetUp();
    set("ASAN_OPTIONS", "verify_asan_link_order=0");  // the library of this build is preloaded
    ASSERT_EQ(cublasCreate_v2(&handle_), kSuccess);
  }
  void TearDown() override { cublasDestroy_v2(handle_); }

  Status multiply(int n, int op_a = kNotTransposed, int op_b = kNotTransposed, float beta = 0) {
    beta_ = beta;
    return cublasSgemm_v2(handle_, op_a, op_b, kM, n, kK, &alpha_, a_.data(), op_a ? kK : kM,
                          b_.data(), op_b ? n : kK, &beta_, c_.data(), kM);
  }
  /// Whether C is the product.
  bool is_right(int n) const {
    for (int i = 0; i < kM; ++i)
      for (int j = 0; j < n; ++j) {
        double sum = 0;
        for (int p = 0; p < kK; ++p)
          sum += double{a_[static_cast<std::size_t>(p * kM + i)]} *
                 b_[static_cast<std::size_t>(j * kK + p)];
        if (c_[static_cast<std::size_t>(j * kM + i)] != static_cast<float>(2 * sum)) return false;
      }
    return true;
  }
  /// The number of calls that reached cuBLAS since the last query.
  int reached() {
    const int all = fake_cublas_products();
    return all - std::exchange(reached_, all);
  }

  Handle handle_ = nullptr;
  float alpha_ = 2, beta_ = 0;
  int reached_ = fake_cublas_products();
};

TEST_F(EntriesTest, AnswersWhereTheRecordIsFasterThanCublas) {
  tune();
  EXPECT_EQ(multiply(kFaster), kSuccess);
  EXPECT_TRUE(is_right(kFaster));
  EXPECT_EQ(reached(), 0);
  for (const int n : {kSlower, kUnmeasured, kUntuned}) {
    EXPECT_EQ(multiply(n), kSuccess);
    EXPECT_TRUE(is_right(n)) << n;
    EXPECT_EQ(reached(), 1) << n;
  }
  // The 64-bit form, and the same product by GemmEx.
  std::fill(c_.begin(), c_.end(), -1.0F);
  EXPECT_EQ(cublasSgemm_v2_64(handle_, 0, 0, kM, kFaster, kK, &alpha_, a_.data(), kM, b_.data(), kK,
                              &beta_, c_.data(), kM),
            kSuccess);
  EXPECT_TRUE(is_right(kFaster));
  std::fill(c_.begin(), c_.end(), -1.0F);
  EXPECT_EQ(cublasGemmEx(handle_, 0, 0, kM, kFaster, kK, &alpha_, a_.data(), kF32, kM, b_.data(),
                         kF32, kK, &beta_, c_.data(), kF32, kM, kCompute32, -1),
            kSuccess);
  EXPECT_TRUE(is_right(kFaster));
  EXPECT_EQ(reached(), 0);
  // cuBLAS computes a call that names an algorithm by its number.
  EXPECT_EQ(cublasGemmEx(handle_, 0, 0, kM, kFaster, kK, &alpha_, a_.data(), kF32, kM, b_.data(),
                         kF32, kK, &beta_, c_.data(), kF32, kM, kCompute32, 3),
            kSuccess);
  EXPECT_EQ(reached(), 1);
  // Batches have their own records.
  std::fill(c_.begin(), c_.end(), -1.0F);
  EXPECT_EQ(cublasSgemmStridedBatched(handle_, 0, 0, kM, kFaster, kK, &alpha_, a_.data(), kM, 0,
                                      b_.data(), kK, 0, &beta_, c_.data(), kM, kM * kFaster, 3),
            kSuccess);
  EXPECT_TRUE(is_right(kFaster));
  EXPECT_TRUE(std::equal(c_.begin(), c_.begin() + kM * kFaster, c_.begin() + 2 * kM * kFaster));
  EXPECT_EQ(reached(), 0);
  // Another layout, or a leading dimension with another alignment, makes another problem.
  EXPECT_EQ(multiply(kFaster, kTransposed), kSuccess);
  EXPECT_EQ(reached(), 1);
  // The product reads C if beta is not 0.
  EXPECT_EQ(multiply(kFaster), kSuccess);
  const std::vector<float> before = c_;
  EXPECT_EQ(multiply(kFaster, 0, 0, 1), kSuccess);
  EXPECT_EQ(reached(), 0);
  for (std::size_t i = 0; i < kM * kFaster; ++i) ASSERT_EQ(c_[i], 2 * before[i]);
  // Many threads.
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      std::vector<float> c(kM * kFaster);
      const float zero = 0;
      for (int call = 0; call < 20; ++call) {
        EXPECT_EQ(cublasSgemm_v2(handle_, 0, 0, kM, kFaster, kK, &alpha_, a_.data(), kM, b_.data(),
                                 kK, &zero, c.data(), kM),
                  kSuccess);
        EXPECT_EQ(c, std::vector<float>(before.begin(), before.begin() + kM * kFaster));
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(reached(), 0);
}

TEST_F(EntriesTest, PassesOnWhatTheHandleSays) {
  tune();
  ASSERT_EQ(multiply(kFaster), kSuccess);
  ASSERT_EQ(reached(), 0);
  cublasSetPointerMode_v2(handle_, kPointersOnDevice);
  std::fill(c_.begin(), c_.end(), -1.0F);
  EXPECT_EQ(multiply(kFaster), kSuccess);
  EXPECT_TRUE(is_right(kFaster));
  EXPECT_EQ(reached(), 0);
  cublasSetPointerMode_v2(handle_, kPointersOnHost);
  cublasSetSmCountTarget(handle_, 10);
  EXPECT_EQ(multiply(kFaster), kSuccess);
  EXPECT_EQ(reached(), 1);
  cublasSetSmCountTarget(handle_, 0);
  for (const int mode : {2, kTf32Math, kTensorOpMath}) {  // tf32 has no record here
    cublasSetMathMode(handle_, mode);
    EXPECT_EQ(multiply(kFaster), kSuccess);
    EXPECT_EQ(reached(), 1) << mode;
  }
  cublasSetMathMode(handle_, kNoReducedSums);
  EXPECT_EQ(multiply(kFaster), kSuccess);
  EXPECT_EQ(reached(), 0);
  // cuBLAS returns its own status for bad arguments.
  EXPECT_EQ(multiply(-1), 7);
  EXPECT_EQ(reached(), 1);
}

LtProduct lt_product() {
  LtProduct product{};
  product.data[kLtCompute] = kCompute32;
  product.data[kLtScaleType] = kF32;
  product.data[kLtEpilogue] = kLtNoEpilogue;
  product.data[kLtFill] = kLtFullFill;
  product.data[kLtBiasType] = static_cast<std::uint64_t>(-1);
  return product;
}
LtMatrix matrix(std::uint64_t rows, std::uint64_t columns) {
  LtMatrix made{};
  made.data[kLtRows] = rows, made.data[kLtColumns] = columns, made.data[kLtLd] = rows;
  made.data[kLtBatch] = 1;
  return made;
}

// A bias is as long as the columns of cuBLAS's D. Other epilogues are passed through.
TEST_F(EntriesTest, AnswersTheEpiloguesOfCublasLtThatWereTuned) {
  tune("relu(acc + bias[j])");
  std::vector<float> bias(kM);
  for (float& value : bias) value = static_cast<float>(std::rand() % 99 - 49);
  LtProduct product = lt_product();
  const auto call = [&](int n) {
    const LtMatrix a = matrix(kM, kK), b = matrix(kK, std::uint64_t(n)),
                   c = matrix(kM, std::uint64_t(n));
    return cublasLtMatmul(handle_, &product, &alpha_, a_.data(), &a, b_.data(), &b, &beta_,
                          c_.data(), &c, c_.data(), &c, nullptr, nullptr, 0, nullptr);
  };
  product.data[kLtEpilogue] = kLtRelu | kLtWithBias;
  product.data[kLtBias] = reinterpret_cast<std::uintptr_t>(bias.data());
  EXPECT_EQ(call(kFaster), kSuccess);
  EXPECT_EQ(reached(), 0);
  for (int i = 0; i < kM; ++i)
    for (int j = 0; j < kFaster; ++j) {
      double sum = 0;
      for (int p = 0; p < kK; ++p)
        sum += double{a_[static_cast<std::size_t>(p * kM + i)]} *
               b_[static_cast<std::size_t>(j * kK + p)];
      const double right = std::max(2 * sum + double{bias[static_cast<std::size_t>(i)]}, 0.0);
      ASSERT_EQ(c_[static_cast<std::size_t>(j * kM + i)], static_cast<float>(right));
    }
  product.data[kLtBiasType] = kF32;  // as it is anyway
  EXPECT_EQ(call(kFaster), kSuccess);
  EXPECT_EQ(reached(), 0);
  EXPECT_EQ(call(kSlower), kSuccess);
  EXPECT_EQ(reached(), 1);
  for (const int other : {kLtRelu, kLtWithBias, kLtGelu | kLtWithBias, 8 | 128}) {
    product.data[kLtEpilogue] = static_cast<std::uint64_t>(other);
    EXPECT_EQ(call(kFaster), kSuccess);
    EXPECT_EQ(reached(), 1) << other;
  }
  product.data[kLtEpilogue] = kLtNoEpilogue;  // the bias is not looked at
  EXPECT_EQ(call(kFaster), kSuccess);
  EXPECT_EQ(reached(), 0);
  EXPECT_TRUE(is_right(kFaster));
}

TEST_F(EntriesTest, AnswersCublasLtAsItIsDescribed) {
  tune();
  LtProduct product = lt_product();
  const LtMatrix a = matrix(kM, kK), b = matrix(kK, kFaster), c = matrix(kM, kFaster);
  const auto call = [&](const void* addend) {
    return cublasLtMatmul(handle_, &product, &alpha_, a_.data(), &a, b_.data(), &b, &beta_, addend,
                          &c, c_.data(), &c, nullptr, nullptr, 0, nullptr);
  };
  EXPECT_EQ(call(c_.data()), kSuccess);
  EXPECT_TRUE(is_right(kFaster));
  EXPECT_EQ(reached(), 0);
  EXPECT_EQ(call(a_.data()), kSuccess);  // beta is 0, so C is not read
  EXPECT_EQ(reached(), 0);
  beta_ = 1;
  EXPECT_EQ(call(a_.data()), kSuccess);  // another problem, which was not tuned
  EXPECT_EQ(reached(), 1);
  beta_ = 0;
  std::fill(c_.begin(), c_.end(), 0);
  product.data[kLtPointerMode] = kPointersOnDevice;
  EXPECT_EQ(call(c_.data()), kSuccess);
  EXPECT_TRUE(is_right(kFaster));
  EXPECT_EQ(reached(), 0);
  beta_ = 1;
  EXPECT_EQ(call(a_.data()), kSuccess);  // the factor of another C is on the device
  EXPECT_EQ(reached(), 1);
  beta_ = 0;
  product.data[kLtPointerMode] = kPointersOnHost;
  for (const auto& [attribute, value] : std::vector<std::pair<int, std::uint64_t>>{
           {kLtEpilogue, 8 | 128},
           {kLtPointerMode, 2},
           {kLtScaleA, reinterpret_cast<std::uintptr_t>(&alpha_)},
           {kLtSyncFirst, 2},
           {kLtSyncLast, 4096},
           {kLtSmCount, 8},
           {kLtTransC, 1}}) {
    const LtProduct plain = product;
    cublasLtMatmulDescSetAttribute(&product, attribute, &value, sizeof value);
    EXPECT_EQ(call(c_.data()), kSuccess);
    EXPECT_EQ(reached(), 1) << attribute;
    product = plain;
    EXPECT_EQ(call(c_.data()), kSuccess);
    EXPECT_EQ(reached(), 0) << attribute;
  }
}

struct InvariantEntriesTest : EntriesTest {
  /// A function that the false cuBLAS does not have.
  template <class Function>
  static Function* entry(const char* name) {
    return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
  }
  void SetUp() override {
    setenv("TILEWISE_DROP_IN_INVARIANT", "1", 1);
    EntriesTest::SetUp();
  }
};

TEST_F(InvariantEntriesTest, ProductsAreAnsweredOrRefused) {
  if (tilewise_drop_in_answered() > 0) GTEST_SKIP() << "this process is not invariant";
  // Nothing is tuned.
  for (const int n : {kFaster, kUntuned}) {
    EXPECT_EQ(multiply(n), kSuccess);
    EXPECT_TRUE(is_right(n)) << n;
  }
  EXPECT_EQ(tilewise_drop_in_answered(), 2);
  // A limit of multiprocessors is no reason for other bits.
  cublasSetSmCountTarget(handle_, 10);
  EXPECT_EQ(multiply(kFaster), kSuccess);
  EXPECT_EQ(tilewise_drop_in_answered(), 3);
  testing::internal::CaptureStderr();
  for (int call = 0; call < 2; ++call) {
    std::fill(c_.begin(), c_.end(), -1.0F);
    EXPECT_EQ(cublasSgemv_v2(handle_, 0, kM, kK, &alpha_, a_.data(), kM, b_.data(), 1, &beta_,
                             c_.data(), 1),
              kNotSupported);
    EXPECT_EQ(entry<Status(Handle, int, const void*, int, const void*, int, void*)>(
                  "cublasSdot_v2")(handle_, kK, a_.data(), 1, b_.data(), 1, c_.data()),
              kNotSupported);
    using Syrk =
        Status(Handle, int, int, int, int, const void*, const void*, int, const void*, void*, int);
    EXPECT_EQ(entry<Syrk>("cublasSsyrk_v2")(handle_, 0, 0, kM, kK, &alpha_, a_.data(), kM, &beta_,
                                            c_.data(), kM),
              kNotSupported);
    EXPECT_EQ(cublasGemmEx(handle_, 0, 0, kM, kFaster, kK, &alpha_, a_.data(), kF32, kM, b_.data(),
                           kF32, kK, &beta_, c_.data(), kF32, kM, kCompute32, 3),
              kNotSupported);
    LtProduct gelu = lt_product();
    gelu.data[kLtEpilogue] = kLtGelu | kLtRelu;  // of two functions
    const LtMatrix a = matrix(kM, kK), b = matrix(kK, kFaster), c = matrix(kM, kFaster);
    EXPECT_EQ(cublasLtMatmul(handle_, &gelu, &alpha_, a_.data(), &a, b_.data(), &b, &beta_,
                             c_.data(), &c, c_.data(), &c, nullptr, nullptr, 0, nullptr),
              kNotSupported);
    EXPECT_TRUE(std::all_of(c_.begin(), c_.end(), [](float x) { return x == -1; }));
  }
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("TILEWISE_DROP_IN_INVARIANT=1 refuses a product"));
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 3) << said;  // each reason once
  // cuBLAS returns its own status for empty products and bad arguments.
  EXPECT_EQ(reached(), 0);
  EXPECT_EQ(multiply(-1), 7);
  const pid_t child = fork();
  if (child == 0) _exit(multiply(kFaster));
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), kNotSupported);
}

TEST_F(EntriesTest, FaultsAreCublasToAnswerAndSaidOnce) {
  std::ofstream(database()) << "no database at all, but long enough to be looked at";
  // A process opens its database once; ctest runs each test in its own process.
  if (tilewise_drop_in_answered() > 0) GTEST_SKIP() << "this process has its database";
  testing::internal::CaptureStderr();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(multiply(kFaster), kSuccess);
    EXPECT_TRUE(is_right(kFaster));
    EXPECT_EQ(reached(), 1);
  }
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("tilewise: cuBLAS answers all products from here on: "));
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
}

TEST_F(EntriesTest, PreloadedItAnswersAProgramThatKnowsCublasAlone) {
  tune();
  set("LD_PRELOAD", TILEWISE_CUBLAS_LIBRARY);
  set("TILEWISE_DROP_IN_DEVICE", "host");
  set("TILEWISE_DROP_IN_REPORT", "1");
  const cli_test::Result result = run_program(TILEWISE_DROP_IN_APP, {});
  EXPECT_EQ(result.status, 0) << result.err;
  // The forked child passes its product on, in its own process.
  EXPECT_EQ(result.out, "reached cuBLAS: 1\n");
  EXPECT_THAT(result.err, HasSubstr("4 products of cuBLAS: 3 answered, 1 passed through"));
  set("TILEWISE_DROP_IN", "0");
  EXPECT_EQ(run_program(TILEWISE_DROP_IN_APP, {}).out, "reached cuBLAS: 4\n");
}

TEST_F(EntriesTest, ItsProductsAreRecordedTunedAndSaidToGain) {
  set("TILEWISE_DROP_IN_DEVICE", "host");
  const std::string list = file("list.csv").string();
  const cli_test::Result recorded = run({"record", "-o", list, "--", TILEWISE_DROP_IN_APP});
  EXPECT_EQ(recorded.status, 0) << recorded.err;
  EXPECT_EQ(recorded.out, "reached cuBLAS: 4\n");  // nothing is answered
  EXPECT_THAT(recorded.err, HasSubstr("2 problems, 4 calls"));
  const std::string text = read(list);
  EXPECT_THAT(text, HasSubstr("nn,40,24,16,f32,f32,strict,1,16/16/16,,3,"));
  EXPECT_THAT(text, HasSubstr("nn,5,7,3,f32,f32,strict,1,4/4/4,,1,"));
  const auto tune = [&] {
    return run({"tune", "--device", "host", "--in-process", "--problems", list, "--templates",
                "naive", "--max-evaluations", "1", "--budget", "20s", "--json"})
        .json();
  };
  EXPECT_FALSE(tune().contains("application"));  // no problem was measured with it
  {
    Database stored = Database::open(database());
    for (const Winner& winner : stored.winners()) {
      Baseline baseline;
      baseline.problem = winner.record.problem, baseline.gpu = winner.record.gpu;
      baseline.library = "cuBLAS", baseline.version = "13.1.0", baseline.variant = "default";
      baseline.measurement = *winner.record.measurement;
      baseline.measurement.median_us *= winner.record.problem.m == kFaster ? 4 : 0.5;
      stored.add(baseline);
    }
  }
  const auto gain = tune().at("application");
  EXPECT_EQ(gain.at("calls"), 4);
  EXPECT_EQ(gain.at("problems"), 2);
  EXPECT_EQ(gain.at("faster"), 1);
  EXPECT_LT(gain.at("ours_ms"), gain.at("cublas_ms"));
  // The program's arguments are passed unchanged, and a list stays if nothing was recorded.
  const cli_test::Result echo = run({"record", "-o", list, "--", "/bin/echo", "[a,b]", "--flag"});
  EXPECT_EQ(echo.out, "[a,b] --flag\n");
  EXPECT_THAT(echo.err, HasSubstr("is as it was"));
  EXPECT_EQ(read(list), text);
  EXPECT_THAT(run({"record", "-o", "/dev/null/x.csv", "--", "/bin/true"}).err,
              HasSubstr("cannot write '/dev/null/x.csv'"));
  EXPECT_NE(run({"record"}).status, 0);
  // The exit status is the program's. A missing program is an error.
  EXPECT_EQ(run({"record", "-o", list, "--", "/bin/false"}).status, 1);
  const cli_test::Result missing = run({"record", "-o", list, "--", "/nonexistent"});
  EXPECT_NE(missing.status, 0);
  EXPECT_THAT(missing.err, HasSubstr("/nonexistent does not start"));
}

TEST_F(EntriesTest, SignalsEndTheProgramAndWhatItMadeIsWritten) {
  set("TILEWISE_DROP_IN_DEVICE", "host");
  for (const int signal : {SIGTERM, SIGHUP, SIGINT}) {
    const std::string list = file("list-" + std::to_string(signal) + ".csv").string();
    const pid_t pid =
        start({"record", "-o", list, "--", TILEWISE_DROP_IN_APP, "wait"}, "/dev/null");
    for (int i = 0; i < 2000 && read(file("stdout")).empty(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    // SIGTERM is sent to `record`, the others to its process group, as a terminal does.
    if (signal != SIGTERM) {
      const std::string children = "/proc/" + std::to_string(pid) + "/task/" + std::to_string(pid);
      const pid_t program = std::atoi(read(children + "/children").c_str());
      ASSERT_GT(program, 0);
      kill(program, signal);
    }
    kill(pid, signal);
    const cli_test::Result result = finish(pid);
    EXPECT_EQ(result.status, 128 + signal) << result.err;
    EXPECT_THAT(result.err, HasSubstr("2 problems, 4 calls"));
    EXPECT_THAT(read(list), HasSubstr("nn,40,24,16,f32,f32,strict,1,16/16/16,,3,"));
  }
}

TEST_F(EntriesTest, RecordingGoesOnBesideADamagedDatabase) {
  set("TILEWISE_DROP_IN_DEVICE", "host");
  std::ofstream(database()) << "no database at all, but long enough to be looked at";
  const std::string list = file("list.csv").string();
  const cli_test::Result recorded = run({"record", "-o", list, "--", TILEWISE_DROP_IN_APP});
  EXPECT_EQ(recorded.status, 0);
  EXPECT_THAT(recorded.err, HasSubstr("2 problems, 4 calls"));
}

/// Characters that ld.so splits in LD_PRELOAD: in the library's path, in the path of temporary
/// files, or in both.
TEST_F(EntriesTest, AnyPathOfTheLibraryIsPreloaded) {
  set("TILEWISE_DROP_IN_DEVICE", "host");
  const std::string list = file("list.csv").string();
  for (const std::string name : {"a b", "a:b", "a\tb", "a\nb", "$LIB"}) {
    const std::filesystem::path folder = file(name);
    std::filesystem::create_directory(folder);
    std::filesystem::create_symlink(TILEWISE_CUBLAS_LIBRARY, folder / "libtilewise_cublas.so");
    set("TILEWISE_DROP_IN_LIBRARY", (folder / "libtilewise_cublas.so").string());
    for (const std::filesystem::path& temporary : {file("plain"), folder}) {
      std::filesystem::create_directory(temporary);
      set("TMPDIR", temporary.string());
      const cli_test::Result recorded = run({"record", "-o", list, "--", TILEWISE_DROP_IN_APP});
      EXPECT_EQ(recorded.status, 0) << name << ": " << recorded.err;
      EXPECT_THAT(recorded.err, HasSubstr("2 problems, 4 calls")) << name;
      std::size_t left = 0;
      for (const auto& entry : std::filesystem::directory_iterator(temporary))
        left += entry.path().filename() != "libtilewise_cublas.so";
      EXPECT_EQ(left, 0U) << name;
    }
  }
}

/// grep prints the signals that were ignored when it started.
TEST_F(EntriesTest, TheProgramHasTheSignalsIgnoredThatRecordBeganWith) {
  for (const char* names : {"HUP", "INT", "QUIT", "TERM", "PIPE", "CHLD", "USR1",
                            "HUP INT QUIT TERM PIPE CHLD USR1 ALRM"}) {
    const std::string trap = "trap '' " + std::string(names) + "\n";
    const std::string as_it_is = bash(trap + "exec grep SigIgn /proc/self/status");
    EXPECT_EQ(bash(trap + "\"$AUTOTUNE\" record -q -o " + file("list.csv").string() +
                   " -- grep SigIgn /proc/self/status 2>/dev/null"),
              as_it_is)
        << names;
    EXPECT_EQ(bash(trap + "\"$AUTOTUNE\" record -q -o " + file("list.csv").string() +
                   " -- /bin/false 2>/dev/null\necho status $?"),
              "status 1\n")
        << names;
  }
}

TEST_F(EntriesTest, UnderNohupAHangupEndsNeitherRecordNorTheProgram) {
  set("TILEWISE_DROP_IN_DEVICE", "host");
  const std::string said =
      bash("trap '' HUP\n\"$AUTOTUNE\" record -o " + file("list.csv").string() +
           " -- " TILEWISE_DROP_IN_APP " wait > " + file("said").string() +
           " &\nuntil grep -q reached " + file("said").string() +
           "; do sleep 0.02; done\nkill -HUP $! $(cat /proc/$!/task/$!/children)\n"
           "sleep 0.2\nkill -TERM $!\nwait $!\necho status $?");
  EXPECT_THAT(said, HasSubstr("status 143\n"));
  EXPECT_THAT(said, HasSubstr("2 problems, 4 calls"));
}

}  // namespace
