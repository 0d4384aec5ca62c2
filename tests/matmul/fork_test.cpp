// fork(): in the child, the parent's Matmul throws a clear error and never hangs; the child's own
// Matmul works.
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <thread>
#include <vector>

#include "api/matmul_parts.hpp"
#include "tests/support/fork.hpp"
#include "tilewise/error.hpp"
#include "tilewise/matmul.h"
#include "tilewise/matmul.hpp"

namespace tilewise::fork_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

#ifdef __SANITIZE_THREAD__
constexpr bool kChildrenStartThreads = false;  // ThreadSanitizer ends a child that does
#else
constexpr bool kChildrenStartThreads = true;
#endif

class Fork : public testing::Test {
 protected:
  Fork() {
    std::string pattern = (std::filesystem::temp_directory_path() / "fork-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    options_.device = "host";
    options_.database = (folder_ / "none.db").string();
    options_.warn = [](const std::string&) {};
    setenv("XDG_CACHE_HOME", folder_.c_str(), 1);
  }
  ~Fork() override { std::filesystem::remove_all(folder_); }

  static constexpr std::int64_t kN = 40;  // several blocks: the executor's threads take part
  std::vector<float> a_ = std::vector<float>(kN * kN, 2.0F), c_ = a_;
  float product(Matmul& multiply) {
    c_.assign(c_.size(), -1.0F);
    multiply(Layout::nn, kN, kN, kN, 1.0F, a_.data(), kN, a_.data(), kN, 0.0F, c_.data(), kN);
    return c_[kN * kN - 1];
  }
  std::filesystem::path folder_;
  MatmulOptions options_;
};

TEST_F(Fork, EveryFunctionOfTheParentsMatmulIsAnErrorThatSaysWhy) {
  Matmul multiply(options_);
  ASSERT_EQ(product(multiply), 4.0F * kN);
  const Problem problem = typed_problem<float, float>(Layout::nt, kN, kN, kN);
  const std::vector<std::function<void()>> uses{
      [&] { product(multiply); },
      [&] {
        multiply.host(Layout::nn, kN, kN, kN, 1.0F, a_.data(), kN, a_.data(), kN, 0.0F, c_.data(),
                      kN);
      },
      [&] { multiply.prepare(problem); },
      [&] { multiply.explain(problem); },
      [&] { multiply.fastest_within(problem, 1); },
      [&] { multiply.pack_a(problem, a_.data(), kN); },
      [&] { multiply.pack_b(problem, a_.data(), kN); },
  };
  for (const auto& use : uses)
    EXPECT_THAT(said_by_child([&] { return error_of(use); }),
                AllOf(StartsWith("device: "), HasSubstr("fork()"),
                      HasSubstr("made by process " + std::to_string(getpid()))));
  EXPECT_EQ(product(multiply), 4.0F * kN) << "the parent goes on";
}

TEST_F(Fork, TheChildsOwnMatmulMultiplies) {
  if (!kChildrenStartThreads) GTEST_SKIP() << "ThreadSanitizer: a child may not start threads";
  Matmul multiply(options_);
  ASSERT_EQ(product(multiply), 4.0F * kN);
  EXPECT_EQ(said_by_child([&] {
              Matmul own(options_);
              const std::string grandchild =
                  said_by_child([&] { return error_of([&] { product(own); }).substr(0, 6); });
              return std::to_string(product(own)) + " " + grandchild;
            }),
            std::to_string(4.0F * kN) + " device");
  EXPECT_EQ(said_by_child([&] {
              multiply = Matmul(options_);  // replaces the parent's
              return std::to_string(product(multiply));
            }),
            std::to_string(4.0F * kN));
  EXPECT_EQ(product(multiply), 4.0F * kN);
}

TEST_F(Fork, DestroyingInTheChildEndsAndLeavesTheParentAlone) {
  auto multiply = std::make_unique<Matmul>(options_);
  Problem problem = typed_problem<float, float>(Layout::nt, kN, kN, kN);
  auto packed = std::make_unique<PackedOperand>(multiply->pack_b(problem, a_.data(), kN));
  ASSERT_EQ(product(*multiply), 4.0F * kN);
  EXPECT_EQ(said_by_child([&] {
              multiply.reset();
              *packed = PackedOperand();
              packed.reset();
              return "gone";
            }),
            "gone");
  EXPECT_EQ(said_by_child([&] {
              packed.reset();
              multiply.reset();
              return "gone";
            }),
            "gone");
  EXPECT_EQ(product(*multiply), 4.0F * kN);
}

TEST_F(Fork, AnOperandThatTheParentPackedIsRefusedByTheChildsMatmul) {
  if (!kChildrenStartThreads) GTEST_SKIP() << "ThreadSanitizer: a child may not start threads";
  Matmul multiply(options_);
  const Problem problem = typed_problem<float, float>(Layout::nt, kN, kN, kN);
  const PackedOperand packed = multiply.pack_b(problem, a_.data(), kN);
  EXPECT_THAT(said_by_child([&] {
                Matmul own(options_);
                return error_of([&] {
                  own(Layout::nt, kN, kN, kN, 1.0F, a_.data(), kN, packed, 0.0F, c_.data(), kN);
                });
              }),
              AllOf(StartsWith("device: "), HasSubstr("packed B"), HasSubstr("fork()")));
}

TEST_F(Fork, InCTheStatusAndTheWordsSayIt) {
  tilewise_matmul* handle = make_handle(Matmul(options_));
  EXPECT_EQ(said_by_child([&] {
              const tilewise_status status = tilewise_prepare(handle, TILEWISE_NN, kN, kN, kN);
              const std::string words = tilewise_last_error();
              tilewise_destroy(handle);
              return std::to_string(status) + (words.find("fork()") != words.npos ? " fork" : "");
            }),
            std::to_string(TILEWISE_DEVICE_ERROR) + " fork");
  EXPECT_EQ(tilewise_prepare(handle, TILEWISE_NN, kN, kN, kN), TILEWISE_OK);
  tilewise_destroy(handle);
}

/// With a fake GPU, because default_matmul() does not serve the CPU.
TEST_F(Fork, EachProcessHasADefaultMatmulOfItsOwn) {
  const std::string driver = folder_ / "libfake.so";
  ASSERT_EQ(std::system(("c++ -shared -fPIC -o '" + driver + "' '" + TILEWISE_SOURCE_DIR +
                         "/tests/device/fake_driver.cpp'")
                            .c_str()),
            0);
  setenv("TILEWISE_CUDA_DRIVER", driver.c_str(), 1);
  setenv("TILEWISE_DB", options_.database.c_str(), 1);
  const auto use = [] {
    default_matmul().explain(typed_problem<float, float>(Layout::nn, 8, 8, 8));
  };
  const std::string said = said_by_child([&] {
    const std::string in_child = error_of(use);  // before anything used the GPU
    return in_child + "; " + said_by_child([&] { return error_of(use); });
  });
  EXPECT_THAT(said, AllOf(StartsWith("no error; device: "), HasSubstr("fork before")));
  unsetenv("TILEWISE_CUDA_DRIVER");
  unsetenv("TILEWISE_DB");
}

TEST_F(Fork, WhileOtherThreadsMultiply) {
  Matmul multiply(options_);
  std::atomic<bool> over{false};
  std::vector<std::jthread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&] {
      std::vector<float> c(kN * kN);
      while (!over)
        multiply(Layout::nn, kN, kN, kN, 1.0F, a_.data(), kN, a_.data(), kN, 0.0F, c.data(), kN);
    });
  for (int i = 0; i < 50; ++i)
    ASSERT_EQ(said_by_child([&] {
                const std::string said = error_of([&] { product(multiply); }).substr(0, 6);
                Matmul(std::move(multiply));
                return said;
              }),
              "device");
  over = true;
}

}  // namespace
}  // namespace tilewise::fork_test
