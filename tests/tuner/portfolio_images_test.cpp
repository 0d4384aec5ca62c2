// The images that ship: which kernels they are of, the file, and a Matmul that serves from it.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <set>

#include "api/shipped_images.hpp"
#include "db/zstd.hpp"
#include "matmul/executable.hpp"
#include "matmul/portfolio.hpp"
#include "matmul/resolve.hpp"
#include "tests/db/samples.hpp"
#include "tests/matmul/matmul_fixture.hpp"
#include "tests/support/problems.hpp"
#include "tuner/bundle.hpp"
#include "vocabulary/problem_text.hpp"

namespace tilewise::portfolio_images_test {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

const Target kHopper = parse_target("sm_90a");

struct PortfolioImagesTest : MatmulTest {
  PortfolioImages write(const std::vector<PortfolioKernel>& kernels, int most = 1'000'000) {
    const ImageStore images(nullptr, nullptr, &compiler);
    return write_portfolio_images(images, kHopper, kernels, path, 1,
                                  [&](std::size_t done) { return int(done) < most; });
  }
  const samples::TemporaryFolder folder;
  const std::filesystem::path path = folder / portfolio_images_name(kHopper);
  FakeCompiler compiler;
};

/// The kernels of bf16 that are chosen, and what serves where nothing is stored.
class ChosenKernels {
 public:
  ChosenKernels() {
    for (const PortfolioKernel& one : portfolio_kernels(kHopper, {"bf16"}))
      known_.emplace(one.kernel, one.launch_revision);
  }
  bool serve(const Problem& problem, const DeviceInfo& gpu, const Resolver& portfolio) const {
    const Resolver none({}, gpu);
    const Resolution served = resolve_with_portfolio(
        none, [&] { return &portfolio; }, problem);
    const std::map<KernelSpec, KernelNeed> needs =
        kernel_needs(plan_of(served.candidate, problem, gpu));
    const std::string revision = launch_revision(find_template(served.candidate.kernel_template));
    return std::all_of(needs.begin(), needs.end(), [&](const auto& need) {
      return known_.contains({need.first, revision});
    });
  }

 private:
  std::set<std::pair<KernelSpec, std::string>> known_;
};

// Of sizes of layers, of any sizes, and of many numbers of rows for a matrix that the portfolio of
// the H200 has records of. Hardly any of these products was drawn.
TEST_F(PortfolioImagesTest, AreOfTheKernelsThatServeWhereNothingIsStored) {
  const ChosenKernels chosen;
  std::mt19937_64 random(3);
  const auto below = [&](std::int64_t most) {
    return 1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most));
  };
  int products = 0, there = 0, of_rows = 0, of_rows_there = 0;
  for (const std::string& key : portfolio_gpus(kHopper)) {
    const DeviceInfo gpu = nominal_from_key(key);
    const Resolver portfolio({}, gpu, "", portfolio_for(gpu),
                             [&](const Problem& of) { return portfolio_corrections(of, gpu); });
    for (int i = 0; i < 300; ++i, ++products) {
      const std::int64_t n = i % 3 == 0 ? below(9000) : 128 * below(200);
      const std::int64_t k = i % 3 == 0 ? below(9000) : 64 * below(200);
      const Problem problem = typed_problem(test::kLayouts[i % 4], below(i % 2 == 0 ? 64 : 4096), n,
                                            k, DType::bf16, DType::bf16);
      there += chosen.serve(problem, gpu, portfolio);
    }
    for (std::int64_t m = 1; m < 4096; m += 1 + m / 16, ++of_rows)
      of_rows_there += chosen.serve(
          typed_problem(Layout::nt, m, 4096, 4096, DType::bf16, DType::bf16), gpu, portfolio);
  }
  EXPECT_EQ(products, 600) << "two GPUs";
  EXPECT_GE(there, 540);
  EXPECT_GE(of_rows_there, of_rows * 99 / 100) << "of " << of_rows;
}

TEST_F(PortfolioImagesTest, AreWrittenAndWhatDoesNotCompileIsNamed) {
  const std::vector<PortfolioKernel> kernels = portfolio_kernels(kHopper, {"i8"}, 40);
  ASSERT_GE(kernels.size(), 10u);
  compiler.refuse = [&](const KernelSpec& kernel) { return kernel == kernels.front().kernel; };
  const PortfolioImages made = write(kernels);
  EXPECT_EQ(made.images, kernels.size() - 1);
  EXPECT_EQ(made.compiled, made.images);
  EXPECT_THAT(made.failed, AllOf(SizeIs(1), Each(HasSubstr("refused"))));
  EXPECT_EQ(made.bytes, std::filesystem::file_size(path));
  EXPECT_EQ(made.packed, has_zstd());
  const Database file = Database::open(path, OpenMode::read_only);
  EXPECT_FALSE(file.image(kernels.front().kernel, kHopper, kernels.front().launch_revision));
  EXPECT_TRUE(file.image(kernels.back().kernel, kHopper, kernels.back().launch_revision));
  EXPECT_EQ(file.counts().records, 0);
}

TEST_F(PortfolioImagesTest, WhereTheyAreStoppedTheOldFileStays) {
  const std::vector<PortfolioKernel> kernels = portfolio_kernels(kHopper, {"i8"}, 40);
  write({kernels.back()});
  write(kernels, 3);
  EXPECT_TRUE(Database::open(path, OpenMode::read_only)
                  .image(kernels.back().kernel, kHopper, kernels.back().launch_revision));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST_F(PortfolioImagesTest, ServeWithoutDatabaseAndCompiler) {
  device->facts = nominal_from_key("NVIDIA H200|9.0|132");
  write(portfolio_kernels(kHopper, {"f32"}, 400));
  int opened = 0;
  parts.open_images = [&] {
    ++opened;
    return std::optional(Database::open(path, OpenMode::read_only));
  };
  parts.portfolio = portfolio_for;
  parts.compile_missing = false;
  Matmul multiply = make_matmul(std::move(parts));
  for (const std::int64_t size : {1000, 1001}) {
    Operands x(problem_of(size, 64, 100));
    multiply(problem_of(size, 64, 100), x.call);
  }
  EXPECT_EQ(opened, 1);
  EXPECT_EQ(compiles, 0);
  EXPECT_EQ(multiply.explain(problem_of(1000, 64, 100)).kind, MatchKind::predicted);
}

// Damage, or a file that others may write: products are right, and the reason is said once.
TEST_F(PortfolioImagesTest, AFileThatCannotBeReadIsAWarning) {
  std::ofstream(path) << "no database at all, but long enough to be looked at as one of them";
  parts.open_images = [&] { return Database::open_if_any(path, Trust::owner); };
  Matmul multiply = make_matmul(std::move(parts));
  for (const std::int64_t size : {16, 24}) {
    Operands x(problem_of(size, size, size));
    multiply(problem_of(size, size, size), x.call);
    EXPECT_THAT(x.c, Each(2.0F * static_cast<float>(size)));
  }
  EXPECT_GE(compiles, 1);
  EXPECT_EQ(std::count_if(warnings.begin(), warnings.end(),
                          [](const std::string& line) {
                            return line.find("the images that ship are not used") !=
                                   std::string::npos;
                          }),
            1);
}

// The tests' program is linked with the static library.
TEST(ShippedImages, AreFoundNextToTheProgramOrInAFolderThere) {
  const Target none{9, 9, true, false};
  ASSERT_FALSE(own_folder().empty());
  EXPECT_FALSE(shipped_images(none, Trust::owner));
  const std::filesystem::path in_folder = own_folder() / "tilewise";
  const bool made = std::filesystem::create_directory(in_folder);
  for (const std::filesystem::path& folder : {own_folder(), in_folder}) {
    const std::filesystem::path file = folder / portfolio_images_name(none);
    { Database::open(file); }
    EXPECT_TRUE(shipped_images(none, Trust::owner)) << file;
    for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(file.string() + suffix);
  }
  if (made) std::filesystem::remove(in_folder);
}

// The wheel has the drop-in library in a folder "bin" of the package, the wheel of images adds to
// the package.
TEST(ShippedImages, AreFoundAboveTheProgramsOfAWheel) {
  EXPECT_THAT(
      image_folders("/py/tilewise/bin"),
      testing::ElementsAre("/py/tilewise/bin", "/py/tilewise/bin/tilewise", "/py/tilewise"));
  EXPECT_THAT(image_folders("/py/tilewise"),
              testing::ElementsAre("/py/tilewise", "/py/tilewise/tilewise"));
  EXPECT_THAT(image_folders(""), testing::IsEmpty());
}

}  // namespace
}  // namespace tilewise::portfolio_images_test
