// A Matmul with damaged files or files of other users: a correct product and a warning, or a clear
// error.
#include <sys/stat.h>

#include <fstream>
#include <future>
#include <latch>
#include <thread>
#include <utility>

#include "matmul_fixture.hpp"
#include "tests/db/damage.hpp"

namespace tilewise::served_damage_test {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
namespace fs = std::filesystem;

/// Binaries name their kernel; the test fails if one is loaded for another kernel.
class ServedDamageTest : public MatmulTest {
 protected:
  ServedDamageTest() {
    device->on_load = [this](const Image& image) {
      const std::string binary(image.binary.begin(), image.binary.end());
      const bool compiled = image.binary == std::vector<std::uint8_t>{1, 2, 3};
      EXPECT_TRUE(compiled || binary == to_string(image.kernel)) << "loaded as another's";
      loaded_compiled += compiled;
    };
  }
  /// Stores a winner of `kernel` for products of `size`, with its image.
  std::int64_t put(std::int64_t size, const std::string& kernel) {
    Database database = Database::open(path);
    const Problem problem = problem_of(size, size, size);
    const std::int64_t id = store(database, problem, kernel, false);
    Image image = image_of(problem, candidate(problem, kernel));
    const std::string text = to_string(image.kernel);
    image.binary.assign(text.begin(), text.end());
    database.put_image(image, id);
    return id;
  }
  Matmul open(bool compile = true, const fs::path& cache = {}) {
    parts.database = Database::open(path, OpenMode::read_only);
    parts.compile_missing = compile;
    if (!cache.empty()) parts.open_cache = [cache] { return std::make_unique<ImageCache>(cache); };
    return make_matmul(std::move(parts));
  }
  void expect_right(Matmul& multiply, std::int64_t size) {
    const Problem problem = problem_of(size, size, size);
    Operands x(problem);
    multiply(problem, x.call);
    EXPECT_THAT(x.c, Each(2.0F * static_cast<float>(size)));
  }
  std::int64_t set_aside() const {
    return samples::number_in(path, "SELECT count(*) FROM images WHERE refused != ''");
  }
  std::string loaded_source() const { return device->loaded.begin()->first.source; }

  const samples::TemporaryFolder folder;
  const fs::path path = folder / "x.db";
  int loaded_compiled = 0;
};

TEST_F(ServedDamageTest, ADamagedImageIsCompiledAgain) {
  put(64, "naive");
  samples::change(path, "UPDATE images SET binary = zeroblob(40)");
  Matmul multiply = open();
  expect_right(multiply, 64);
  EXPECT_EQ(loaded_compiled, 1);
  EXPECT_EQ(loaded_source(), "naive.cu");
  EXPECT_THAT(warnings, ElementsAre(AllOf(HasSubstr("naive.cu"), HasSubstr("is damaged"),
                                          HasSubstr("not loaded"))));
  EXPECT_EQ(set_aside(), 1) << "though this database is open for reading";
  const Problem problem = problem_of(64, 64, 64);
  const auto winner = Database::open(path).winner(problem, gpu_key(device->facts));
  ASSERT_TRUE(winner);
  EXPECT_EQ(winner->quarantined, "") << "the kernel is not to blame";
}

TEST_F(ServedDamageTest, WithoutACompilerAnotherCandidateServes) {
  const std::int64_t id = put(64, "naive");
  put(256, "tiled");
  samples::change(path, "UPDATE images SET log = 'x' WHERE kernel LIKE 'naive%'");
  Matmul multiply = open(false);
  expect_right(multiply, 64);
  EXPECT_EQ(loaded_source(), "tiled.cu");
  EXPECT_EQ(compiler_loads, 0);
  EXPECT_THAT(warnings,
              ElementsAre(HasSubstr("is damaged"), AllOf(HasSubstr("record " + std::to_string(id)),
                                                         HasSubstr("is set aside: no image"))));
  EXPECT_EQ(set_aside(), 1);
}

TEST_F(ServedDamageTest, WithNothingElseTheErrorSaysWhatToDo) {
  put(64, "naive");
  samples::change(path, "UPDATE images SET registers = 1");
  Matmul multiply = open(false);
  EXPECT_THAT(samples::error_of(ErrorKind::compiler, [&] { expect_right(multiply, 64); }),
              HasSubstr("Tune it where there is a compiler"));
  EXPECT_THAT(warnings, Contains(HasSubstr("is damaged")));
}

TEST_F(ServedDamageTest, TwoImagesThatChangePlacesAreNotServedAsEachOther) {
  put(64, "naive");
  put(256, "tiled");
  const std::string whole = samples::read_file(path);
  samples::change(path,
                  "CREATE TEMP TABLE old AS SELECT * FROM images; "
                  "UPDATE images SET (binary, hash) = "
                  "(SELECT binary, hash FROM old WHERE old.id = 3 - images.id)");
  Matmul multiply = open();
  expect_right(multiply, 64);
  expect_right(multiply, 256);
  EXPECT_EQ(loaded_compiled, 2);
  EXPECT_EQ(set_aside(), 2);
  EXPECT_THAT(warnings, SizeIs(2));
  EXPECT_THAT(warnings, Each(HasSubstr("is damaged")));
}

TEST_F(ServedDamageTest, AnUnreadablePageOfAnImageIsCompiledAround) {
  {
    Database database = Database::open(path);
    const Problem problem = problem_of(64, 64, 64);
    const std::int64_t id = store(database, problem, "naive", false);
    Image image = image_of(problem, candidate(problem, "naive"));
    image.binary.assign(40'000, 0x55);
    database.put_image(image, id);
  }
  // An overflow page of the binary starts with the number of the next page.
  std::string bytes = samples::read_file(path);
  const std::size_t page = bytes.find(std::string(4092, '\x55')) / 4096 + 2;
  ASSERT_EQ(bytes.substr(page * 4096 + 4, 4092), std::string(4092, '\x55'));
  bytes.replace(page * 4096, 4, "\xff\xff\xff\xff");
  samples::write_file(path, bytes);
  Matmul multiply = open();
  expect_right(multiply, 64);
  EXPECT_EQ(loaded_compiled, 1);
  EXPECT_THAT(warnings, Contains(HasSubstr("damaged")));
}

TEST_F(ServedDamageTest, ADamagedWinnerIsToldAndNotServed) {
  put(64, "naive");
  put(256, "tiled");
  samples::change(path, "UPDATE records SET configuration = '{}' WHERE id = 1");
  Matmul multiply = open();
  expect_right(multiply, 64);
  EXPECT_THAT(warnings, ElementsAre(AllOf(HasSubstr("a winner is damaged and is not used"),
                                          HasSubstr("record 1"), HasSubstr("db check"))));
  EXPECT_EQ(loaded_source(), "tiled.cu");
}

TEST_F(ServedDamageTest, AProductReadsItsOwnWinnerAlone) {
  put(64, "naive");
  put(256, "tiled");
  samples::change(path, "UPDATE records SET configuration = '{}' WHERE id = 1");
  Matmul multiply = open();
  expect_right(multiply, 256);
  EXPECT_EQ(loaded_source(), "tiled.cu");
  EXPECT_THAT(warnings, IsEmpty()) << "the damaged winner is of another problem";
  expect_right(multiply, 100);
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("a winner is damaged and is not used")));
}

// The cache ---------------------------------------------------------------------------------------

TEST_F(ServedDamageTest, ADamagedCacheFailsNoProduct) {
  put(64, "naive");
  samples::change(path, "DELETE FROM images");
  const fs::path cache = folder / "cache.db";
  { ImageCache whole(cache); }
  samples::write_file(cache, samples::read_file(cache).substr(0, 100) + std::string(10'000, 'x'));
  Matmul multiply = open(true, cache);
  expect_right(multiply, 64);
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("the image cache was damaged and is made anew")));
  EXPECT_EQ(ImageCache(cache).counts()->images, 1) << "for the next process";
}

TEST_F(ServedDamageTest, ADamagedImageOfTheCacheIsCompiledAgain) {
  put(64, "naive");
  const fs::path cache = folder / "cache.db";
  fs::copy_file(path, cache);
  samples::change(path, "DELETE FROM images");
  samples::change(cache, "UPDATE images SET registers = 1");
  Matmul multiply = open(true, cache);
  expect_right(multiply, 64);
  EXPECT_EQ(loaded_compiled, 1);
  EXPECT_THAT(warnings, ElementsAre(AllOf(HasSubstr("cache.db"), HasSubstr("is damaged"))));
}

// Trust -------------------------------------------------------------------------------------------

class TrustOptionsTest : public ServedDamageTest {
 protected:
  TrustOptionsTest() {
    options.database = path.string();
    options.warn = [this](const std::string& line) { warnings.push_back(line); };
  }
  MatmulParts made() {
    MatmulParts all = parts_for(std::make_unique<FakeDevice>(), options);
    all.load_compiler = parts.load_compiler;
    static_cast<FakeDevice*>(all.device.get())->on_launch = fake_product;
    return all;
  }
  MatmulOptions options;
};

TEST_F(TrustOptionsTest, ADatabaseThatIsNotTrustedIsAnError) {
  put(64, "naive");
  chmod(path.c_str(), 0666);
  EXPECT_THAT(samples::error_of(ErrorKind::database, [&] { made(); }),
              AllOf(HasSubstr(path.string()), HasSubstr("every user may write"),
                    HasSubstr("MatmulOptions::trust_files")));
  options.trust_files = true;
  Matmul multiply = make_matmul(made());
  EXPECT_EQ(multiply.explain(problem_of(64, 64, 64)).kind, MatchKind::exact);
}

TEST_F(TrustOptionsTest, TheEnvironmentVariableAllowsItToo) {
  put(64, "naive");
  chmod(path.c_str(), 0666);
  EXPECT_EQ(samples::in_child([&] {
              setenv("TILEWISE_TRUST_FILES", "1", 1);
              return made().database ? 0 : 1;
            }),
            0);
}

TEST_F(TrustOptionsTest, ACacheThatIsNotTrustedIsDoneWithout) {
  put(64, "naive");
  const fs::path cache = image_cache_path(path);
  fs::copy_file(path, cache);
  samples::change(path, "DELETE FROM images");
  chmod(cache.c_str(), 0666);
  const std::string before = samples::read_file(cache);
  {
    Matmul multiply = make_matmul(made());
    expect_right(multiply, 64);
    EXPECT_EQ(compiles, 1);
    EXPECT_THAT(warnings, ElementsAre(AllOf(HasSubstr("the image cache is not used"),
                                            HasSubstr("every user may write"))));
  }
  EXPECT_EQ(samples::read_file(cache), before);
  options.trust_files = true;
  Matmul trusting = make_matmul(made());
  expect_right(trusting, 64);
  EXPECT_EQ(compiles, 1) << "the image is the cache's";
}

TEST_F(TrustOptionsTest, AnotherWorkingFolderDoesNotMatter) {
  EXPECT_EQ(samples::in_child([&] {
              fs::create_directory(folder / "elsewhere");
              fs::current_path(folder.path());
              options.database = "x.db";
              Matmul multiply = make_matmul(made());
              fs::current_path(folder / "elsewhere");
              expect_right(multiply, 64);
              EXPECT_TRUE(fs::is_empty(folder / "elsewhere")) << "the cache is beside the database";
              EXPECT_TRUE(fs::exists(folder / "x.db.cache"));
              return HasFailure() ? 1 : 0;
            }),
            0);
}

// A slow compile ----------------------------------------------------------------------------------

/// A compiler that waits until it is released.
class SlowCompiler : public FakeCompiler {
 public:
  SlowCompiler(std::latch& begun, std::latch& released) : begun_(begun), released_(released) {}
  CompileResult compile(const CompileRequest& request) const override {
    if (!begun_.try_wait()) begun_.count_down();
    released_.wait();
    return FakeCompiler::compile(request);
  }

 private:
  std::latch& begun_;
  std::latch& released_;
};

TEST_F(MatmulTest, QuestionsAreAnsweredWhileAnotherThreadCompiles) {
  std::latch begun(1), released(1);
  parts.database = Database::in_memory();
  store(*parts.database, problem_of(256, 256, 256), "tiled", true);
  parts.load_compiler = [&] { return std::make_unique<SlowCompiler>(begun, released); };
  Matmul multiply = make_matmul(std::move(parts));
  multiply.prepare(problem_of(256, 256, 256));
  const Problem missing = problem_of(64, 64, 64, Layout::tt);
  std::thread compiling([&] { multiply.prepare(missing); });
  begun.wait();
  bool waiting = false;
  const auto answers = [&](auto question) {
    std::future<void> answer = std::async(std::launch::async, question);
    const bool in_time = answer.wait_for(std::chrono::seconds(20)) == std::future_status::ready;
    if (!in_time && !std::exchange(waiting, true)) released.count_down();  // so that the test ends
    return in_time;
  };
  EXPECT_TRUE(answers([&] { EXPECT_FALSE(multiply.explain(missing).why.empty()); }));
  EXPECT_TRUE(answers([&] { multiply.explain(problem_of(256, 256, 256)); }));
  EXPECT_TRUE(answers([&] { multiply.fastest_within(missing, 1); }));
  EXPECT_TRUE(answers([&] {
    Operands x(problem_of(256, 256, 256));
    multiply(problem_of(256, 256, 256), x.call);
    EXPECT_THAT(x.c, Each(512.0F));
  })) << "nor do products whose kernels are there wait";
  if (!waiting) released.count_down();
  compiling.join();
}

}  // namespace
}  // namespace tilewise::served_damage_test
