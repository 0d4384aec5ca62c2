// NVRTC as the compiler: needs its library but no GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "device/cuda/cuda.hpp"
#include "device/cuda/library.hpp"
#include "device/cuda/ptxas_log.hpp"
#include "gpu_kernels.hpp"
#include "tests/support/nvrtc.hpp"
#include "tilewise/error.hpp"

namespace tilewise::nvrtc_test {
namespace {
namespace fs = std::filesystem;
using testing::Contains;
using testing::HasSubstr;

constexpr const char* kCopy = R"(
#include "width.h"
extern "C" __global__ void copy(const float* from, float* to) {
  __shared__ float tile[WIDTH];
  tile[threadIdx.x] = from[threadIdx.x];
  __syncthreads();
  to[threadIdx.x] = tile[WIDTH - 1 - threadIdx.x] * SCALE;
}
)";

CompileRequest copy_request(const Target& target) {
  CompileRequest request;
  request.kernel = {"copy.cu", "copy", {{"SCALE", -3}}};
  request.text = kCopy;
  request.headers = {{"width.h", "#define WIDTH 128\n"}};
  request.target = target;
  return request;
}

CompileRequest request_of(const std::string& text, const std::string& entry, const Target& target) {
  CompileRequest request;
  request.kernel = {entry + ".cu", entry, {}};
  request.text = text;
  request.target = target;
  return request;
}

using NvrtcTest = test::NvrtcTest;

TEST_F(NvrtcTest, SaysWhatItIs) {
  EXPECT_THAT(compiler_->version(), testing::StartsWith("NVRTC 1"));
  EXPECT_THAT(compiler_->identity(), testing::StartsWith(compiler_->version() + " "));
  EXPECT_THAT(compiler_->identity(), HasSubstr("-std=c++17"));
}

TEST_F(NvrtcTest, CompilesForEveryKnownTarget) {
  const std::vector<Target> targets = compiler_->targets();
  for (const Target& target : known_targets()) {
    // NVRTC 12.0 to 12.7 have no target above 9.0.
    if (target.major > 9 && !testing::Value(targets, Contains(target))) continue;
    const CompileResult result = compiler_->compile(copy_request(target));
    ASSERT_TRUE(result.image) << to_string(target) << ": " << result.log;
    const Image& image = *result.image;
    EXPECT_EQ(image.target, target);
    EXPECT_EQ(image.kernel, copy_request(target).kernel);
    EXPECT_GT(image.usage.registers, 4) << result.log;
    EXPECT_EQ(image.usage.static_shared_bytes, 512) << result.log;
    EXPECT_EQ(image.usage.spill_bytes, 0);
    EXPECT_GT(image.compile_ms, 0);
    // The image is a cubin, not PTX: an ELF file.
    ASSERT_GT(image.binary.size(), 4u);
    EXPECT_EQ(std::string(image.binary.begin() + 1, image.binary.begin() + 4), "ELF");
  }
}

TEST_F(NvrtcTest, TheGpuTestsKernelsCompile) {
  const Target hopper{9, 0, true};
  for (const auto& [text, entry] :
       std::vector<std::pair<const char*, const char*>>{{test::kAdd, "add"},
                                                        {test::kShared, "shared_sum"},
                                                        {test::kCluster, "cluster_rank"},
                                                        {test::kDependent, "dependent_add"},
                                                        {test::kTensorMap, "tensor_load"},
                                                        {test::kIllegal, "illegal"}}) {
    const CompileResult result = compiler_->compile(request_of(text, entry, hopper));
    EXPECT_TRUE(result.image) << entry << ": " << result.log;
  }
}

TEST_F(NvrtcTest, TheMostRegistersAreAConstantThatTheCompilerIsTold) {
  const std::string text = R"(
extern "C" __global__ void wide(float* x) {
  float v[64];
  #pragma unroll
  for (int i = 0; i < 64; ++i) v[i] = x[i * 1024 + threadIdx.x];
  __syncthreads();
  #pragma unroll
  for (int i = 0; i < 64; ++i) x[i * 1024 + threadIdx.x] = v[i] * v[63 - i] + MAX_REGISTERS;
}
)";
  const auto registers = [&](int most) {
    CompileRequest request = request_of(text, "wide", {9, 0, true});
    request.kernel.defines = {{"MAX_REGISTERS", most}};
    const CompileResult result = compiler_->compile(request);
    EXPECT_TRUE(result.image) << result.log;
    return result.image ? result.image->usage.registers : 0;
  };
  EXPECT_GT(registers(0), 32);
  EXPECT_GT(registers(255), 32);
  EXPECT_LE(registers(32), 32);
}

TEST_F(NvrtcTest, SpillsAndStackAreReported) {
  const std::string text = R"(
extern "C" __global__ void __launch_bounds__(1024) spill(float* x) {
  float v[128];
  #pragma unroll
  for (int i = 0; i < 128; ++i) v[i] = x[i * 1024 + threadIdx.x];
  __syncthreads();
  #pragma unroll
  for (int i = 0; i < 128; ++i) x[i * 1024 + threadIdx.x] = v[i] * v[127 - i];
}
extern "C" __global__ void other(float* x) { x[0] = 1; }
)";
  const CompileResult result = compiler_->compile(request_of(text, "spill", {9, 0, true}));
  ASSERT_TRUE(result.image) << result.log;
  EXPECT_EQ(result.image->usage.registers, 64);
  EXPECT_GT(result.image->usage.spill_bytes, 0) << result.log;
  CompileRequest no_spills = request_of(text, "spill", {9, 0, true});
  no_spills.kernel.defines.emplace(kNoSpills, 1);
  const CompileResult refused = compiler_->compile(no_spills);
  EXPECT_FALSE(refused.image);
  EXPECT_THAT(refused.log, HasSubstr("spill.cu: refused: it spills "));
  const CompileResult other = compiler_->compile(request_of(text, "other", {9, 0, true}));
  ASSERT_TRUE(other.image) << other.log;
  EXPECT_LT(other.image->usage.registers, 64);
  EXPECT_EQ(other.image->usage.spill_bytes, 0);
}

// Sums are read between a product and its wait, so the assembler waits after each product.
TEST_F(NvrtcTest, AKernelOfWhichWgmmaIsSerialisedIsRefused) {
  const std::string kernel =
      R"(extern "C" __global__ void products(float* to, unsigned long long d, int n) {
    float s[4] = {};
    for (int i = 0; i < n; ++i) {
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
      asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %4, 1, 1, 1, 0, 0;"
                   : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3]) : "l"(d));
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
      WAIT
      for (int j = 0; j < 4; ++j) s[j] *= 2;
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    for (int j = 0; j < 4; ++j) to[threadIdx.x * 4 + j] = s[j];
  })";
  const Target target{9, 0, true};
  const auto with = [&](const std::string& wait) {
    return compiler_->compile(
        request_of("#define WAIT " + wait + "\n" + kernel, "products", target));
  };
  EXPECT_TRUE(with("asm volatile(\"wgmma.wait_group.sync.aligned 0;\" ::: \"memory\");").image);
  const CompileResult refused = with("");
  EXPECT_FALSE(refused.image);
  EXPECT_THAT(refused.log, HasSubstr("products.cu: refused: "));
}

TEST_F(NvrtcTest, ACompileErrorIsDataWithTheLog) {
  CompileRequest request = copy_request({8, 0});
  request.text = "extern \"C\" __global__ void copy() { no_such_thing = 1; }";
  const CompileResult result = compiler_->compile(request);
  EXPECT_FALSE(result.image);
  EXPECT_THAT(result.log, HasSubstr("copy.cu"));
  EXPECT_THAT(result.log, HasSubstr("no_such_thing"));
  EXPECT_GT(result.milliseconds, 0);
}

TEST_F(NvrtcTest, WhatTheAssemblerRefusesIsDataToo) {
  const CompileResult result = compiler_->compile(request_of(
      "extern \"C\" __global__ void k() { asm volatile(\"bogus;\"); }", "k", {9, 0, true}));
  EXPECT_FALSE(result.image);
  EXPECT_THAT(result.log, HasSubstr("bogus"));
}

TEST_F(NvrtcTest, AMissingEntryIsDataThatNamesIt) {
  CompileRequest request = copy_request({8, 0});
  request.kernel.entry = "cop";
  const CompileResult result = compiler_->compile(request);
  EXPECT_FALSE(result.image);
  EXPECT_THAT(result.log, HasSubstr("\"cop\""));
}

TEST_F(NvrtcTest, AnUnknownTargetNamesThoseThereAre) {
  for (const Target& target : {Target{3, 5, false}, Target{8, 0, true}, Target{99, 0, false}}) {
    try {
      compiler_->compile(copy_request(target));
      ADD_FAILURE() << to_string(target) << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::unsupported);
      EXPECT_THAT(error.what(), HasSubstr(to_string(target) + ";"));
      EXPECT_THAT(error.what(), HasSubstr("sm_80"));
      EXPECT_THAT(error.what(), HasSubstr("sm_90a"));
    }
  }
}

TEST_F(NvrtcTest, TargetsHoldEveryKnownOne) {
  const std::vector<Target> targets = compiler_->targets();
  for (const Target& target : known_targets()) {
    if (target.major <= 9 || compiler_->version() >= "NVRTC 13") {
      EXPECT_THAT(targets, Contains(target));
    }
  }
}

TEST_F(NvrtcTest, FourThreadsCompileAtOnce) {
  const Image alone = compiler_->compile(copy_request({8, 0})).image.value();
  std::vector<std::thread> threads;
  std::vector<int> right(4);
  for (std::size_t t = 0; t < right.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 4; ++i) {
        const CompileResult result = compiler_->compile(copy_request({8, 0}));
        if (result.image && result.image->binary == alone.binary) ++right[t];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, std::vector<int>(4, 4));
}

/// A folder with a link to the real NVRTC, arranged by the test.
class NvrtcPlaceTest : public NvrtcTest {
 protected:
  void SetUp() override {
    NvrtcTest::SetUp();
    if (IsSkipped()) return;
    for (const auto& candidate : cuda::find_library({"libnvrtc", {13, 12}, "", ""}, 0).candidates) {
      if (fs::path(candidate.path).is_absolute()) {
        real_ = candidate.path;
        break;
      }
    }
    if (real_.empty()) GTEST_SKIP() << "NVRTC's file is known to the loader alone";
    folder_ = fs::temp_directory_path() / ("tilewise_nvrtc_" + std::to_string(getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override {
    unsetenv("TILEWISE_NVRTC");
    if (!folder_.empty()) fs::remove_all(folder_);
  }
  void link_into(const fs::path& folder) {
    fs::create_directories(folder);
    for (const auto& entry : fs::directory_iterator(real_.parent_path())) {
      const std::string name = entry.path().filename();
      if (name.starts_with("libnvrtc")) fs::create_symlink(entry.path(), folder / name);
    }
  }
  fs::path real_, folder_;
};

TEST_F(NvrtcPlaceTest, AWheelsFolderServes) {
  link_into(folder_ / "lib/python3.11/site-packages/nvidia/cu13/lib");
  const auto compiler = cuda::load_compiler(folder_.string());
  EXPECT_TRUE(compiler->compile(copy_request({8, 6})).image);
}

TEST_F(NvrtcPlaceTest, TheVariableIsObeyed) {
  setenv("TILEWISE_NVRTC", (folder_ / "empty").c_str(), 1);
  EXPECT_THROW(cuda::load_compiler(), Error);
  setenv("TILEWISE_NVRTC", real_.c_str(), 1);
  EXPECT_EQ(cuda::load_compiler()->version(), compiler_->version());
}

TEST_F(NvrtcPlaceTest, ABrokenLibraryIsPassedOver) {
  fs::create_directories(folder_ / "lib64");
  std::ofstream(folder_ / "lib64" / real_.filename()) << "no library";
  EXPECT_THROW(cuda::load_compiler((folder_ / "lib64").string()), Error);
  link_into(folder_ / "lib");
  EXPECT_TRUE(cuda::load_compiler(folder_.string())->compile(copy_request({8, 6})).image);
}

TEST(LoadCompiler, ABadPathSaysWhereItLookedAndWhatToDo) {
  try {
    cuda::load_compiler("/nowhere/libnvrtc.so.13");
    FAIL() << "loaded from nowhere";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::compiler);
    EXPECT_THAT(error.what(), HasSubstr("/nowhere/libnvrtc.so.13"));
    EXPECT_THAT(error.what(), HasSubstr("TILEWISE_NVRTC"));
    EXPECT_THAT(error.what(), HasSubstr("pip install"));
    EXPECT_THAT(error.what(), testing::Not(HasSubstr("\n")));
  }
}

TEST(LoadCompiler, AnotherLibraryIsRefusedByWhatItLacks) {
  try {
    cuda::load_compiler("/lib/x86_64-linux-gnu/libc.so.6");
    FAIL() << "libc compiles kernels";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::compiler);
  }
}

/// A fake NVRTC whose compile returns the status in FAKE_NVRTC.
const char* const kFakeNvrtc = R"(
#include <cstddef>
#include <cstdlib>
extern "C" {
int nvrtcVersion(int* major, int* minor) { *major = 13, *minor = 0; return 0; }
int nvrtcGetNumSupportedArchs(int* count) { *count = 1; return 0; }
int nvrtcGetSupportedArchs(int* all) { all[0] = 80; return 0; }
const char* nvrtcGetErrorString(int) { return "words of the fake"; }
int nvrtcCreateProgram(void**, const char*, const char*, int, const char* const*,
                       const char* const*) { return 0; }
int nvrtcDestroyProgram(void**) { return 0; }
int nvrtcCompileProgram(void*, int, const char* const*) { return std::atoi(getenv("FAKE_NVRTC")); }
int nvrtcGetProgramLogSize(void*, std::size_t* size) { *size = 0; return 0; }
int nvrtcGetProgramLog(void*, char*) { return 0; }
int nvrtcGetCUBINSize(void*, std::size_t* size) { *size = 0; return 0; }
int nvrtcGetCUBIN(void*, char*) { return 0; }
}
)";

TEST(NvrtcFaults, NoMemoryIsNotTheKernelsFaultNorTheCompilers) {
  const fs::path folder =
      fs::temp_directory_path() / ("tilewise_fake_nvrtc_" + std::to_string(getpid()));
  fs::create_directories(folder);
  std::ofstream(folder / "fake.cpp") << kFakeNvrtc;
  const std::string library = folder / "libnvrtc.so.13";
  ASSERT_EQ(std::system(
                ("c++ -shared -fPIC -o '" + library + "' '" + (folder / "fake.cpp").string() + "'")
                    .c_str()),
            0);
  setenv("FAKE_NVRTC", "0", 1);
  const auto compiler = cuda::load_compiler(library);
  const auto kind = [&](const char* status) {
    setenv("FAKE_NVRTC", status, 1);
    try {
      compiler->compile(copy_request({8, 0}));
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("words of the fake"));
      return error.kind();
    }
    return ErrorKind::io;
  };
  EXPECT_EQ(kind("1"), ErrorKind::out_of_memory);
  EXPECT_EQ(kind("11"), ErrorKind::compiler);
  fs::remove_all(folder);
}

TEST(PtxasLog, BothFormsOfTheReportAreRead) {
  const std::string older = R"(ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'simt_wide' for 'sm_80'
ptxas info    : Function properties for simt_wide
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 200 registers, used 1 barriers, 384 bytes cmem[0]
ptxas info    : Compiling entry function 'simt' for 'sm_80'
ptxas info    : Function properties for simt
    48 bytes stack frame, 40 bytes spill stores, 44 bytes spill loads
ptxas info    : Used 128 registers, used 1 barriers, 48 bytes cumulative stack size, 16384 bytes smem, 392 bytes cmem[0]
)";
  const ResourceUsage usage = cuda::usage_in_log(older, "simt");
  EXPECT_EQ(usage.registers, 128);
  EXPECT_EQ(usage.spill_bytes, 84);
  EXPECT_EQ(usage.stack_bytes, 48);
  EXPECT_EQ(usage.static_shared_bytes, 16384);
  EXPECT_EQ(cuda::usage_in_log(older, "simt_wide").registers, 200);
  EXPECT_EQ(cuda::usage_in_log(older, "simt_wide").static_shared_bytes, 0);
  EXPECT_EQ(cuda::usage_in_log(older, "sim"), ResourceUsage{});
  EXPECT_EQ(cuda::usage_in_log("", "simt"), ResourceUsage{});
}

}  // namespace
}  // namespace tilewise::nvrtc_test
