// A Matmul with a bundle: the bundle serves without a database and a compiler, and local
// measurements come first.
#include <sys/stat.h>

#include "db/seal.hpp"
#include "matmul_fixture.hpp"
#include "tests/db/damage.hpp"

namespace tilewise::bundle_test {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class BundleTest : public MatmulTest {
 protected:
  /// Stores a winner of `kernel` with its image.
  std::int64_t put(const std::filesystem::path& file, std::int64_t size,
                   const std::string& kernel) {
    Database database = Database::open(file);
    return store(database, problem_of(size, size, size), kernel);
  }
  Matmul open(bool with_database = false) {
    parts.compile_missing = false;
    if (with_database) parts.database = Database::open(own, OpenMode::read_only);
    parts.bundle = Database::open(bundle, OpenMode::read_only);
    return make_matmul(std::move(parts));
  }
  void expect_right(Matmul& multiply, std::int64_t size) {
    const Problem problem = problem_of(size, size, size);
    Operands x(problem);
    multiply(problem, x.call);
    EXPECT_THAT(x.c, Each(2.0F * static_cast<float>(size)));
  }
  std::string loaded_source() const { return device->loaded.begin()->first.source; }

  const samples::TemporaryFolder folder;
  const std::filesystem::path own = folder / "own.db", bundle = folder / "app.tilewise";
};

TEST_F(BundleTest, ServesWithoutDatabaseAndCompiler) {
  put(bundle, 64, "naive");
  seal(bundle);
  Matmul multiply = open();
  expect_right(multiply, 64);
  const Problem problem = problem_of(64, 64, 64);
  const Match match = multiply.explain(problem);
  EXPECT_EQ(match.kind, MatchKind::exact);
  EXPECT_EQ(match.kernel_template, "naive");
  EXPECT_EQ(compiles, 0);
  EXPECT_THAT(warnings, IsEmpty());
}

TEST_F(BundleTest, ServesOtherSizesByPrediction) {
  put(bundle, 64, "naive");
  Matmul multiply = open();
  expect_right(multiply, 48);
  EXPECT_EQ(multiply.explain(problem_of(48, 48, 48)).kind, MatchKind::predicted);
}

TEST_F(BundleTest, WhatTheDatabaseHasForAProblemComesFirst) {
  put(bundle, 64, "naive");
  put(bundle, 32, "naive");
  put(own, 64, "simt");
  Matmul multiply = open(true);
  expect_right(multiply, 64);
  EXPECT_EQ(loaded_source(), "simt.cu");
  EXPECT_EQ(multiply.explain(problem_of(32, 32, 32)).kernel_template, "naive");
}

TEST_F(BundleTest, ItsBrokenImageIsNoDamageOfTheDatabase) {
  put(bundle, 64, "naive");
  const auto id = put(own, 32, "simt");
  break_images_of("naive.cu");
  Matmul multiply = open(true);
  expect_right(multiply, 64);  // by the other record
  EXPECT_EQ(loaded_source(), "simt.cu");
  const Database database = Database::open(own);
  EXPECT_EQ(database.winner(problem_of(32, 32, 32), gpu_key(device->facts))->record.id, id);
  EXPECT_EQ(database.winner(problem_of(32, 32, 32), gpu_key(device->facts))->quarantined, "");
}

TEST_F(BundleTest, OfAnotherGpuIsAWarning) {
  {
    Database database = Database::open(bundle);
    const auto id = store(database, problem_of(64, 64, 64), "naive");
    Record record = *database.record(id);
    database.remove({});
    record.gpu = "NVIDIA Other|9.0|100";
    database.set_winner(database.add(record));
  }
  Matmul multiply = open();
  EXPECT_THAT(warnings, ElementsAre(AllOf(HasSubstr("app.tilewise has nothing for"),
                                          HasSubstr("it has: NVIDIA Other|9.0|100"))));
}

TEST_F(BundleTest, SealedItIsOneFileThatAReadOnlyFolderCanHold) {
  put(bundle, 64, "naive");
  seal(bundle);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
  struct stat status {};
  ASSERT_EQ(stat(bundle.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0644U);
  chmod(folder.path().c_str(), 0555);
  {
    Matmul multiply = open();
    expect_right(multiply, 64);
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
  }
  chmod(folder.path().c_str(), 0755);
}

TEST(BundleOptions, ABundleThatIsNotThereOrNoBundleIsAnError) {
  const samples::TemporaryFolder folder;
  MatmulOptions options;
  options.device = "host";
  options.database = (folder / "own.db").string();
  options.bundle = (folder / "none").string();
  EXPECT_THAT(samples::error_of(ErrorKind::database, [&] { Matmul{options}; }),
              AllOf(HasSubstr("bundle " + (folder / "none").string()),
                    HasSubstr("there is no such file"), HasSubstr("autotune bundle")));
  std::ofstream(folder / "none") << std::string(5000, 'x');
  EXPECT_THAT(samples::error_of(ErrorKind::database, [&] { Matmul{options}; }),
              HasSubstr((folder / "none").string()));
}

}  // namespace
}  // namespace tilewise::bundle_test
