// The structs of the C API: sizes, initialisers, options and alignment; the header is valid C.
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>

#include "matmul_fixture.hpp"
#include "tilewise/version.hpp"

namespace tilewise::c_structs_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class CStructsTest : public MatmulTest {
 protected:
  void make() { handle = make_handle(make_matmul(std::move(parts))); }
  ~CStructsTest() override { tilewise_destroy(handle); }
  tilewise_matmul* handle = nullptr;
};

/// A struct of a later version, with an additional field.
template <class T>
struct Later {
  T known;
  std::int64_t added;
};

tilewise_problem problem_in_c(std::int64_t m, std::int64_t n, std::int64_t k) {
  tilewise_problem problem = TILEWISE_PROBLEM_INIT;
  problem.m = m, problem.n = n, problem.k = k;
  return problem;
}

TEST_F(CStructsTest, ASizeThatNoVersionHasIsRefused) {
  make();
  tilewise_problem problem = problem_in_c(8, 8, 8);
  for (const std::size_t size : {std::size_t{0}, std::size_t{8},
                                 offsetof(tilewise_problem, pointers) - 1, std::size_t{1} << 40}) {
    problem.struct_size = size;
    EXPECT_EQ(tilewise_prepare_problem(handle, &problem), TILEWISE_INVALID_ARGUMENT);
    EXPECT_THAT(tilewise_last_error(),
                AllOf(HasSubstr("struct_size of the tilewise_problem is " + std::to_string(size)),
                      HasSubstr(std::to_string(sizeof problem)), HasSubstr("_INIT")));
  }
  for (const std::size_t size : {sizeof problem, offsetof(tilewise_problem, pointers)}) {
    problem.struct_size = size;  // the second size is that of a caller without batches by pointers
    EXPECT_EQ(tilewise_prepare_problem(handle, &problem), TILEWISE_OK) << tilewise_last_error();
  }

  tilewise_call call = TILEWISE_CALL_INIT;
  call.struct_size = 0;
  EXPECT_EQ(tilewise_multiply(handle, &problem, &call), TILEWISE_INVALID_ARGUMENT);
  EXPECT_THAT(tilewise_last_error(), HasSubstr("struct_size of the tilewise_call is 0"));

  tilewise_options options = {};
  tilewise_matmul* made = nullptr;
  EXPECT_EQ(tilewise_create(&options, &made), TILEWISE_INVALID_ARGUMENT);
  EXPECT_THAT(tilewise_last_error(), HasSubstr("struct_size of the tilewise_options is 0"));
}

TEST_F(CStructsTest, AStructOfALaterVersionIsReadWhereWhatItAddsIsZero) {
  make();
  Later<tilewise_problem> problem{problem_in_c(8, 8, 8), 0};
  problem.known.struct_size = sizeof problem;
  EXPECT_EQ(tilewise_prepare_problem(handle, &problem.known), TILEWISE_OK) << tilewise_last_error();
  problem.added = std::int64_t{7} << 8;  // second byte of the field
  EXPECT_EQ(tilewise_prepare_problem(handle, &problem.known), TILEWISE_INVALID_ARGUMENT);
  EXPECT_THAT(
      tilewise_last_error(),
      AllOf(HasSubstr("byte " + std::to_string(sizeof(tilewise_problem) + 1)), HasSubstr("is 7"),
            HasSubstr("struct_size is " + std::to_string(sizeof problem)),
            HasSubstr(std::string(version_text()))));

  problem.added = 0;
  const std::vector<float> ones(64, 1);
  std::vector<float> c(64, -1);
  Later<tilewise_call> call{TILEWISE_CALL_INIT, 0};
  call.known.struct_size = sizeof call;
  call.known.a = call.known.b = ones.data();
  call.known.c = c.data();
  call.known.lda = call.known.ldb = call.known.ldc = 8;
  EXPECT_EQ(tilewise_multiply(handle, &problem.known, &call.known), TILEWISE_OK)
      << tilewise_last_error();
  EXPECT_THAT(c, testing::Each(8.0F));
  call.added = 1;
  EXPECT_EQ(tilewise_multiply(handle, &problem.known, &call.known), TILEWISE_INVALID_ARGUMENT);

  Later<tilewise_options> options{TILEWISE_OPTIONS_INIT, 1};
  options.known.struct_size = sizeof options;
  tilewise_matmul* made = nullptr;
  EXPECT_EQ(tilewise_create(&options.known, &made), TILEWISE_INVALID_ARGUMENT);
  EXPECT_THAT(tilewise_last_error(), HasSubstr("byte " + std::to_string(sizeof(tilewise_options)) +
                                               " of the tilewise_options is 1"));
}

/// A product of 64 x 64 x 64; its matrices are `skipped` elements after a 16-byte boundary.
struct Product {
  explicit Product(std::int64_t skipped) : memory(3 * 64 * 68, 1.0F) {
    const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
    float* const first = memory.data() + (16 - address % 16) % 16 / sizeof(float) + skipped;
    call.a = first, call.b = first + 64 * 64, call.c = first + 2 * 64 * 64;
    call.lda = call.ldb = call.ldc = 64;
  }
  std::vector<float> memory;
  tilewise_call call = TILEWISE_CALL_INIT;
};

/// A kernel that loads 16 bytes serves aligned matrices, the default serves all others: two are
/// compiled.
class CAlignmentTest : public CStructsTest {
 protected:
  CAlignmentTest() {
    parts.database = Database::in_memory();
    store(*parts.database, problem_of(64, 64, 64), with_vectors(problem_of(64, 64, 64)));
    make();
  }
};

TEST_F(CAlignmentTest, ThePreparedAlignmentIsTheProblems) {
  tilewise_problem problem = problem_in_c(64, 64, 64);
  problem.alignment_a = problem.alignment_b = problem.alignment_c = 4;
  ASSERT_EQ(tilewise_prepare_problem(handle, &problem), TILEWISE_OK) << tilewise_last_error();
  const int prepared = compiles;
  EXPECT_GT(prepared, 0);
  const Product unaligned(1);
  ASSERT_EQ(tilewise_multiply(handle, &problem, &unaligned.call), TILEWISE_OK)
      << tilewise_last_error();
  EXPECT_EQ(compiles, prepared);
  EXPECT_GT(device->launch_count, 0);
}

TEST_F(CAlignmentTest, WithoutAnAlignmentThatOfTightMatricesIsPrepared) {
  const tilewise_problem problem = problem_in_c(64, 64, 64);
  ASSERT_EQ(tilewise_prepare_problem(handle, &problem), TILEWISE_OK) << tilewise_last_error();
  const int prepared = compiles;
  const Product tight(0), unaligned(1);
  ASSERT_EQ(tilewise_multiply(handle, &problem, &tight.call), TILEWISE_OK) << tilewise_last_error();
  EXPECT_EQ(compiles, prepared);
  ASSERT_EQ(tilewise_multiply(handle, &problem, &unaligned.call), TILEWISE_OK)
      << tilewise_last_error();
  EXPECT_GT(compiles, prepared);
}

TEST_F(CStructsTest, AnAlignmentThatCannotBeIsRefused) {
  make();
  tilewise_problem problem = problem_in_c(32, 32, 32);
  for (const int alignment : {-4, 1, 2, 3, 12, 32}) {
    problem.alignment_b = alignment;
    EXPECT_EQ(tilewise_prepare_problem(handle, &problem), TILEWISE_INVALID_ARGUMENT);
    EXPECT_THAT(tilewise_last_error(),
                HasSubstr("alignment of B is " + std::to_string(alignment) +
                          " bytes; it must be a power of two from 4 (one element) to 16"));
    EXPECT_EQ(tilewise_explain_problem(handle, &problem, nullptr, 0, nullptr),
              TILEWISE_INVALID_ARGUMENT);
    EXPECT_THAT(tilewise_last_error(), HasSubstr("alignment of B"));
  }
  problem.alignment_b = 2;
  problem.operand = TILEWISE_F16;
  problem.result = TILEWISE_F16;
  EXPECT_EQ(tilewise_prepare_problem(handle, &problem), TILEWISE_OK) << tilewise_last_error();
}

/// The error of the first product on a CPU without a compiler.
std::string words_without_compiler(const tilewise_options& options) {
  tilewise_matmul* handle = nullptr;
  if (tilewise_create(&options, &handle) != TILEWISE_OK) return tilewise_last_error();
  const float a = 1;
  float c = 0;
  const tilewise_status status =
      tilewise_sgemm_host(handle, TILEWISE_NN, 1, 1, 1, 1, &a, 1, &a, 1, 0, &c, 1);
  tilewise_destroy(handle);
  return status == TILEWISE_COMPILER_ERROR ? tilewise_last_error() : "no failure";
}

class COptionsTest : public testing::Test {
 protected:
  COptionsTest() {
    file = testing::TempDir() + "tilewise_c_options." + std::to_string(getpid()) + ".db";
    path = file.string();
    options.device = "host";
    options.database = path.c_str();
  }
  ~COptionsTest() override {
    std::filesystem::remove(file);
    std::filesystem::remove(image_cache_path(file));
  }
  std::filesystem::path file;
  std::string path;
  tilewise_options options = TILEWISE_OPTIONS_INIT;
};

TEST_F(COptionsTest, CompileMissingIsOnUnlessItIsNo) {
  setenv("TILEWISE_CXX", "/no/such/compiler", 1);
  const std::string off = "compile_missing is off";
  EXPECT_THAT(words_without_compiler(options),
              AllOf(HasSubstr("TILEWISE_CXX"), testing::Not(HasSubstr(off))));
  options.compile_missing = TILEWISE_YES;
  EXPECT_THAT(words_without_compiler(options),
              AllOf(HasSubstr("TILEWISE_CXX"), testing::Not(HasSubstr(off))));
  options.compile_missing = TILEWISE_NO;
  EXPECT_THAT(words_without_compiler(options), HasSubstr(off));
  unsetenv("TILEWISE_CXX");
  options.compile_missing = static_cast<tilewise_bool>(3);
  EXPECT_THAT(words_without_compiler(options),
              AllOf(HasSubstr("compile_missing = 3"), HasSubstr("TILEWISE_NO")));
}

TEST_F(COptionsTest, TrustFilesIsAsTheEnvironmentSaysUnlessItIsSet) {
  Database::open(file);
  chmod(path.c_str(), 0666);
  const auto status = [&](tilewise_bool choice) {
    options.trust_files = choice;
    tilewise_matmul* handle = nullptr;
    const tilewise_status made = tilewise_create(&options, &handle);
    tilewise_destroy(handle);
    return made;
  };
  unsetenv("TILEWISE_TRUST_FILES");
  EXPECT_EQ(status(TILEWISE_DEFAULT), TILEWISE_DATABASE_ERROR);
  EXPECT_EQ(status(TILEWISE_YES), TILEWISE_OK) << tilewise_last_error();
  EXPECT_EQ(status(TILEWISE_NO), TILEWISE_DATABASE_ERROR);
  setenv("TILEWISE_TRUST_FILES", "1", 1);
  EXPECT_EQ(status(TILEWISE_DEFAULT), TILEWISE_OK) << tilewise_last_error();
  EXPECT_EQ(status(TILEWISE_NO), TILEWISE_DATABASE_ERROR);
  unsetenv("TILEWISE_TRUST_FILES");
}

TEST(CHeader, IsC) {
  if (std::system("command -v cc >/dev/null 2>&1") != 0)
    GTEST_SKIP() << "there is no C compiler named cc";
  const std::string file = testing::TempDir() + "tilewise_c_header.c";
  std::ofstream(file) << R"(#include "tilewise/matmul.h"
static const tilewise_options constant = TILEWISE_OPTIONS_INIT;
int main(void) {
  tilewise_options options = TILEWISE_OPTIONS_INIT;
  tilewise_matmul* matmul = NULL;
  tilewise_status status = tilewise_create(&options, &matmul);
  if (status == TILEWISE_OK)
    status = tilewise_sgemm(matmul, TILEWISE_NN, 0, 0, 0, 1, NULL, 0, NULL, 0, 0, NULL, 0, NULL);
  tilewise_problem problem = TILEWISE_PROBLEM_INIT;
  problem.operand = TILEWISE_BF16;
  tilewise_call call = TILEWISE_CALL_INIT;
  tilewise_packed* packed = NULL;
  if (status == TILEWISE_OK) status = tilewise_pack_b(matmul, &problem, NULL, 8, 0, NULL, &packed);
  call.packed_b = packed;
  if (status == TILEWISE_OK) status = tilewise_multiply(matmul, &problem, &call);
  tilewise_packed_destroy(packed);
  tilewise_destroy(matmul);
  if (constant.trust_files || tilewise_version() != TILEWISE_VERSION_NUMBER) return 1;
  return status == TILEWISE_OK ? 0 : tilewise_last_error()[0];
})";
  const std::string command = "cc -std=c99 -Wall -Wextra -pedantic -Werror -fsyntax-only -I'" +
                              std::string(TILEWISE_SOURCE_DIR) + "/include' '" + file + "'";
  EXPECT_EQ(std::system(command.c_str()), 0);
  std::filesystem::remove(file);
}

TEST(CHeader, HasTheVersionOfTheLibrary) {
  EXPECT_EQ(tilewise_version(), TILEWISE_VERSION_NUMBER);
  EXPECT_STREQ(tilewise_version_text(), TILEWISE_VERSION_TEXT);
}

}  // namespace
}  // namespace tilewise::c_structs_test
