#include <cmath>
#include <fstream>
#include <thread>

#include "matmul_fixture.hpp"

namespace tilewise::matmul_test {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr Layout kLayouts[] = {Layout::nn, Layout::nt, Layout::tn, Layout::tt};

TEST_F(MatmulTest, ServesAStoredImageWithoutCompilerOrCache) {
  const Problem problem = problem_of(64, 32, 16);
  parts.database = Database::in_memory();
  store(*parts.database, problem, "naive");
  parts.open_cache = []() -> std::unique_ptr<ImageCache> {
    ADD_FAILURE() << "the cache was opened";
    return nullptr;
  };
  Matmul multiply = make_matmul(std::move(parts));
  Operands x(problem);
  multiply(problem, x.call);
  EXPECT_THAT(x.c, Each(32.0F));
  EXPECT_EQ(compiler_loads, 0);
  EXPECT_EQ(device->loaded.begin()->first.source, "naive.cu");
  EXPECT_THAT(warnings, IsEmpty());
}

TEST_F(MatmulTest, EveryLayoutWithLongRowsMeansWhatBlasSays) {
  Matmul multiply = make_matmul(std::move(parts));
  for (const Layout layout : kLayouts) {
    const std::int64_t m = 3, n = 5, k = 4, lda = 7, ldb = 9, ldc = 8;
    std::vector<float> a(64), b(64), c(64, 10.0F), expected = c;
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = float(i % 7), b[i] = float(i % 5) - 2;
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        float sum = 0;
        for (std::int64_t p = 0; p < k; ++p)
          sum += a[std::size_t(a_transposed(layout) ? p * lda + i : i * lda + p)] *
                 b[std::size_t(b_transposed(layout) ? j * ldb + p : p * ldb + j)];
        expected[std::size_t(i * ldc + j)] = 2 * sum + 3 * 10;
      }
    multiply(layout, m, n, k, 2, a.data(), lda, b.data(), ldb, 3, c.data(), ldc);
    EXPECT_EQ(c, expected) << to_string(layout);
  }
}

TEST_F(MatmulTest, EmptyResultsNeedNoKernel) {
  Matmul multiply = make_matmul(std::move(parts));
  multiply(Layout::nn, 0, 5, 5, 1, nullptr, 5, nullptr, 5, 0, nullptr, 5);
  multiply(Layout::nn, 5, 0, 5, 1, nullptr, 5, nullptr, 0, 0, nullptr, 0);
  multiply.prepare(problem_of(0, 5, 5));
  EXPECT_EQ(device->loads, 0);
  EXPECT_EQ(device->launch_count, 0);
  float c = 4;  // k = 0 scales C
  multiply(Layout::nn, 1, 1, 0, 1, nullptr, 0, nullptr, 1, 0.5F, &c, 1);
  EXPECT_EQ(c, 2);
}

TEST_F(MatmulTest, BetaOf1WithoutAProductLeavesC) {
  Matmul multiply = make_matmul(std::move(parts));
  float c = -0.0F;
  const float a = 1;
  multiply(Layout::nn, 1, 1, 0, 1, nullptr, 0, nullptr, 1, 1, &c, 1);
  multiply(Layout::nn, 1, 1, 1, 0, &a, 1, &a, 1, 1, &c, 1);
  multiply.host(Layout::nn, 1, 1, 0, 1, nullptr, 0, nullptr, 1, 1, &c, 1);
  multiply.host(Layout::nn, 1, 1, 1, 0, &a, 1, &a, 1, 1, &c, 1);
  EXPECT_TRUE(std::signbit(c));
  EXPECT_EQ(device->loads, 0);
  EXPECT_EQ(device->launch_count, 0);
}

TEST_F(MatmulTest, RefusesABadCallBeforeAnythingElse) {
  Matmul multiply = make_matmul(std::move(parts));
  float c = 0;
  EXPECT_THROW(multiply(Layout::nn, -1, 1, 1, 1, &c, 1, &c, 1, 0, &c, 1), Error);
  EXPECT_THROW(multiply(Layout::nn, 1, 1, 1, 1, &c, 1, &c, 1, 0, &c, 1), Error);  // overlap
  EXPECT_THROW(multiply.prepare(problem_of(-1, 1, 1)), Error);
  EXPECT_THROW(multiply.explain(problem_of(1, 1, -1)), Error);
  EXPECT_EQ(device->loads, 0);
}

TEST_F(MatmulTest, AlignmentIsReadOffTheCall) {
  parts.database = Database::in_memory();
  const Problem problem = problem_of(16, 16, 16);
  store(*parts.database, problem, with_vectors(problem));
  Matmul multiply = make_matmul(std::move(parts));
  std::vector<float> a(300), b(300), c(300);
  const auto aligned = [](std::vector<float>& v) {
    return reinterpret_cast<float*>((reinterpret_cast<std::uintptr_t>(v.data()) + 15) / 16 * 16);
  };
  multiply(Layout::nn, 16, 16, 16, 1, aligned(a), 16, aligned(b), 16, 0, aligned(c), 16);
  EXPECT_EQ(device->loaded.size(), 1u);
  // Off by one element, so the record, which loads 4 at a time, does not serve it.
  multiply(Layout::nn, 16, 16, 16, 1, aligned(a) + 1, 16, aligned(b), 16, 0, aligned(c), 16);
  EXPECT_EQ(device->loaded.size(), 2u);
}

TEST_F(MatmulTest, PrepareMakesTheFirstCallLikeTheNext) {
  Matmul multiply = make_matmul(std::move(parts));
  const Problem problem = problem_of(16, 16, 16);
  multiply.prepare(problem);
  EXPECT_EQ(device->loads, 1);
  EXPECT_EQ(device->launch_count, 0);
  Operands x(problem);
  multiply(problem, x.call);
  EXPECT_EQ(device->loads, 1);
  EXPECT_EQ(device->launch_count, 1);
}

TEST_F(MatmulTest, AFirstCallInsideACaptureIsRefused) {
  Matmul multiply = make_matmul(std::move(parts));
  const Problem problem = problem_of(16, 16, 16);
  Operands x(problem);
  x.call.stream = device->create_stream();
  device->captured.insert(x.call.stream);
  try {
    multiply(problem, x.call);
    FAIL() << "a kernel was loaded inside a capture";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
    EXPECT_THAT(error.what(), HasSubstr("call prepare()"));
  }
  EXPECT_EQ(device->loads, 0);
  multiply.prepare(problem);
  multiply(problem, x.call);
  EXPECT_EQ(device->launch_count, 1);
}

TEST_F(MatmulTest, AnotherMatmulIsNeverServedByWhatAThreadRemembers) {
  const Problem problem = problem_of(16, 16, 16);
  Operands x(problem);
  for (int i = 0; i < 3; ++i) {
    auto own = std::make_unique<FakeDevice>();
    FakeDevice* const fresh = own.get();
    MatmulParts p;
    p.device = std::move(own);
    p.load_compiler = [] { return std::make_unique<FakeCompiler>(); };
    Matmul multiply = make_matmul(std::move(p));
    multiply(problem, x.call);
    EXPECT_EQ(fresh->launch_count, 1);
  }
}

TEST_F(MatmulTest, ManyThreadsManyProblems) {
  Matmul multiply = make_matmul(std::move(parts));
  constexpr int kThreads = 8, kSizes = 40;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (int round = 0; round < 3; ++round)
        for (int i = 0; i < kSizes; ++i) {
          const std::int64_t m = 1 + (i + t * 5) % kSizes;
          const Problem problem = problem_of(m, 3, 4, kLayouts[i % 4]);
          Operands x(problem);
          multiply(problem, x.call);
          for (const float c : x.c) wrong += c != 8.0F;
        }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(device->launch_count, kThreads * kSizes * 3);
  EXPECT_EQ(device->loads, 4) << "one kernel a layout";
  EXPECT_EQ(compiler_loads, 1);
}

TEST_F(MatmulTest, ExplainsWithoutLoadingKernels) {
  parts.database = Database::in_memory();
  store(*parts.database, problem_of(64, 64, 64), "naive");
  Matmul multiply = make_matmul(std::move(parts));
  const Match exact = multiply.explain(problem_of(64, 64, 64));
  EXPECT_EQ(exact.kind, MatchKind::exact);
  EXPECT_EQ(exact.problem, problem_of(64, 64, 64));
  EXPECT_EQ(exact.kernel_template, "naive");
  EXPECT_EQ(exact.configuration, candidate(problem_of(64, 64, 64), "naive").configuration.text());
  EXPECT_EQ(exact.measured_us, 10);
  EXPECT_DOUBLE_EQ(exact.measured_tflops, 2.0 * 64 * 64 * 64 / 10e-6 / 1e12);
  EXPECT_EQ(exact.spread, 0.25);
  EXPECT_EQ(exact.measured_at, "2026-11-21T10:00:00Z");
  EXPECT_GT(exact.predicted_us, 0);
  EXPECT_TRUE(exact.stale) << "its source hash is not the compiler's";
  const Match unseen = multiply.explain(problem_of(128, 64, 64));
  EXPECT_EQ(unseen.kind, MatchKind::predicted);
  EXPECT_EQ(unseen.problem, problem_of(64, 64, 64)) << "the record's, not the caller's";
  const Match other = multiply.explain(problem_of(64, 64, 64, Layout::tt));
  EXPECT_EQ(other.kind, MatchKind::predicted) << "this kernel reads every layout";
  EXPECT_EQ(other.problem, problem_of(64, 64, 64));
  Problem f64 = problem_of(64, 64, 64);
  set_types(f64, DType::f64, DType::f64, MathMode::strict);
  const Match none = multiply.explain(f64);
  EXPECT_EQ(none.kind, MatchKind::default_);
  EXPECT_EQ(none.problem, f64);
  EXPECT_FALSE(none.kernel_template.empty());
  EXPECT_EQ(none.measured_us, 0);
  EXPECT_EQ(none.measured_at, "");
  EXPECT_THAT(none.why, HasSubstr("autotune --device 0 --sizes 64x64x64 --dtype f64"));
  EXPECT_EQ(device->loads, 0);
  EXPECT_EQ(compiles, 0);
}

TEST_F(MatmulTest, NotesAndRecordsThatAreNotServedAreToldOnce) {
  parts.database = Database::in_memory();
  parts.notes = {"there is no database"};
  const std::int64_t id = store(*parts.database, problem_of(64, 64, 64), "naive");
  parts.database->quarantine(id, "it was bad");
  Matmul multiply = make_matmul(std::move(parts));
  multiply.prepare(problem_of(64, 64, 64));
  multiply.prepare(problem_of(32, 32, 32));
  EXPECT_THAT(warnings, SizeIs(2));
  EXPECT_EQ(warnings[0], "there is no database");
  EXPECT_THAT(warnings[1], HasSubstr("it was bad"));
}

TEST_F(MatmulTest, ABrokenImageIsQuarantinedAndTheNextBestServes) {
  parts.database = Database::in_memory();
  const Problem problem = problem_of(64, 64, 64);
  const std::int64_t bad = store(*parts.database, problem, "naive");
  store(*parts.database, problem_of(256, 256, 256), "tiled");
  break_images_of("naive.cu");
  Matmul multiply = make_matmul(std::move(parts));
  Operands x(problem);
  multiply(problem, x.call);
  EXPECT_THAT(x.c, Each(128.0F));
  ASSERT_EQ(device->loaded.size(), 1u);
  EXPECT_NE(device->loaded.begin()->first.source, "simt.cu");
  ASSERT_THAT(warnings, SizeIs(1));
  EXPECT_THAT(warnings[0], AllOf(HasSubstr("record " + std::to_string(bad)), HasSubstr("set aside"),
                                 HasSubstr("invalid image")));
  EXPECT_EQ(multiply.explain(problem).kind, MatchKind::predicted);
  multiply.prepare(problem_of(65, 64, 64));  // neither tried nor reported again
  EXPECT_THAT(warnings, SizeIs(1));
}

class MatmulFileTest : public MatmulTest {
 protected:
  MatmulFileTest()
      : path(std::filesystem::path(testing::TempDir()) /
             (std::string("matmul_") +
              testing::UnitTest::GetInstance()->current_test_info()->name() + ".db")) {
    remove_files();
  }
  ~MatmulFileTest() override { remove_files(); }
  void remove_files() const {
    for (const char* end : {"", "-wal", "-shm"}) std::filesystem::remove(path.string() + end);
  }
  const std::filesystem::path path;
};

TEST_F(MatmulFileTest, QuarantineReachesADatabaseThatWasOpenedForReading) {
  const Problem problem = problem_of(64, 64, 64);
  {
    Database database = Database::open(path);
    store(database, problem, "naive");
    store(database, problem_of(256, 256, 256), "tiled");
  }
  parts.database = Database::open(path, OpenMode::read_only);
  break_images_of("naive.cu");
  Matmul multiply = make_matmul(std::move(parts));
  multiply.prepare(problem);
  const auto winner =
      Database::open(path, OpenMode::read_only).winner(problem, gpu_key(device->facts));
  ASSERT_TRUE(winner);
  EXPECT_THAT(winner->quarantined, HasSubstr("invalid image"));
}

TEST_F(MatmulFileTest, NothingIsQuarantinedWhenEverythingFails) {
  const Problem problem = problem_of(64, 64, 64);
  {
    Database database = Database::open(path);
    store(database, problem, "naive");
  }
  parts.database = Database::open(path, OpenMode::read_only);
  device->on_load = [](const Image&) { throw Error(ErrorKind::device, "the device is gone"); };
  Matmul multiply = make_matmul(std::move(parts));
  EXPECT_THROW(multiply.prepare(problem), Error);
  const auto winner =
      Database::open(path, OpenMode::read_only).winner(problem, gpu_key(device->facts));
  ASSERT_TRUE(winner);
  EXPECT_EQ(winner->quarantined, "") << "the fault was the device's";
}

TEST_F(MatmulFileTest, AMissingImageIsCompiledAndKeptForTheNextProcess) {
  parts.open_cache = [this] { return std::make_unique<ImageCache>(path); };
  const Problem problem = problem_of(64, 64, 64);
  make_matmul(std::move(parts)).prepare(problem);
  EXPECT_EQ(compiles, 1);

  MatmulParts next;
  next.device = std::make_unique<FakeDevice>();
  next.open_cache = [this] { return std::make_unique<ImageCache>(path, OpenMode::read_only); };
  next.compile_missing = false;
  make_matmul(std::move(next)).prepare(problem);  // throws without an image
  EXPECT_EQ(compiles, 1);
}

TEST_F(MatmulFileTest, OptionsWithAMissingDatabaseServeThePortfolioAndSaySo) {
  MatmulOptions options;
  options.database = path.string();
  options.compile_missing = false;
  options.warn = [this](const std::string& line) { warnings.push_back(line); };
  MatmulParts made = parts_for(std::make_unique<FakeDevice>(), options);
  EXPECT_FALSE(made.database);
  EXPECT_THAT(made.notes, testing::ElementsAre(HasSubstr(path.string())));
  EXPECT_FALSE(made.open_cache()) << "there is none, and reading makes none";
  EXPECT_FALSE(std::filesystem::exists(path));
  const Matmul multiply = make_matmul(std::move(made));
  const Match match = multiply.explain(problem_of(500, 500, 500));
  EXPECT_EQ(match.kind, MatchKind::predicted);
  EXPECT_THAT(match.why, HasSubstr("portfolio"));
  EXPECT_THAT(warnings, SizeIs(1));
}

TEST_F(MatmulFileTest, OptionsWithAnEmptyDatabaseServeAsWithoutOne) {
  std::ofstream(path).flush();
  MatmulOptions options;
  options.database = path.string();
  options.compile_missing = false;
  MatmulParts made = parts_for(std::make_unique<FakeDevice>(), options);
  EXPECT_FALSE(made.database);
  EXPECT_THAT(made.notes, testing::ElementsAre(
                              HasSubstr("nothing is stored in the database " + path.string())));
  EXPECT_EQ(make_matmul(std::move(made)).explain(problem_of(500, 500, 500)).kind,
            MatchKind::predicted);
  options.on_miss = OnMiss::error;
  options.warn = [](const std::string&) {};
  Matmul strict = make_matmul(parts_for(std::make_unique<FakeDevice>(), options));
  EXPECT_THROW(strict.prepare(problem_of(500, 500, 500)), Error) << "nothing was tuned";
}

TEST_F(MatmulFileTest, OptionsOpenTheDatabaseForReading) {
  const Problem problem = problem_of(64, 64, 64);
  {
    Database database = Database::open(path);
    store(database, problem, "naive");
  }
  MatmulOptions options;
  options.database = path.string();
  options.compile_missing = false;
  MatmulParts made = parts_for(std::make_unique<FakeDevice>(), options);
  ASSERT_TRUE(made.database);
  EXPECT_TRUE(made.database->read_only());
  EXPECT_THAT(made.notes, IsEmpty());
  auto* const fresh = static_cast<FakeDevice*>(made.device.get());
  Matmul multiply = make_matmul(std::move(made));
  multiply.prepare(problem);
  EXPECT_EQ(fresh->loads, 1);
}

TEST_F(MatmulFileTest, AFileThatIsNoDatabaseIsAnError) {
  std::ofstream(path) << "this is no database, and long enough not to be taken for an empty one";
  MatmulOptions options;
  options.database = path.string();
  try {
    parts_for(std::make_unique<FakeDevice>(), options);
    FAIL() << "it was opened";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::database);
  }
}

TEST_F(MatmulTest, AWinnerWithoutAnImageIsCompiled) {
  parts.database = Database::in_memory();
  const Problem problem = problem_of(64, 64, 64);
  store(*parts.database, problem, "naive", false);
  Matmul multiply = make_matmul(std::move(parts));
  multiply.prepare(problem);
  EXPECT_EQ(device->loaded.begin()->first.source, "naive.cu");
  EXPECT_EQ(compiles, 1);
  EXPECT_THAT(warnings, IsEmpty());
}

TEST_F(MatmulTest, ASourceThatDoesNotCompileGivesWayToAnotherTemplate) {
  refused_source = "simt.cu";
  Matmul multiply = make_matmul(std::move(parts));
  multiply.prepare(problem_of(64, 64, 64));
  ASSERT_EQ(device->loaded.size(), 1u);
  EXPECT_NE(device->loaded.begin()->first.source, "simt.cu");
  EXPECT_THAT(warnings, testing::ElementsAre(AllOf(HasSubstr("simt's default is set aside"),
                                                   HasSubstr("error: refused"))));
}

TEST_F(MatmulTest, WithNeitherImageNorCompilerTheErrorSaysWhatToDo) {
  const Problem problem = problem_of(64, 64, 64, Layout::tn);
  for (const bool may_compile : {false, true}) {
    MatmulParts p;
    p.device = std::make_unique<FakeDevice>();
    p.compile_missing = may_compile;
    p.load_compiler = []() -> std::unique_ptr<Compiler> {
      throw Error(ErrorKind::compiler, "no libnvrtc in /usr/lib");
    };
    Matmul multiply = make_matmul(std::move(p));
    for (int again = 0; again < 2; ++again) try {
        multiply.prepare(problem);
        FAIL() << "there was nothing to serve";
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::compiler);
        EXPECT_THAT(
            error.what(),
            AllOf(HasSubstr("autotune --sizes 64x64x64 --layout tn"), HasSubstr("TILEWISE_NVRTC"),
                  HasSubstr(may_compile ? "no libnvrtc in /usr/lib" : "compile_missing is off")));
      }
  }
}

TEST_F(MatmulTest, AWinnerThatCannotBeMadeHereIsNotHeldAgainstIt) {
  parts.database = Database::in_memory();
  const Problem problem = problem_of(64, 64, 64);
  const std::int64_t id = store(*parts.database, problem, "naive", false);
  store(*parts.database, problem_of(256, 256, 256), "tiled");
  parts.compile_missing = false;
  Matmul multiply = make_matmul(std::move(parts));
  multiply.prepare(problem);
  ASSERT_EQ(device->loaded.size(), 1u);
  EXPECT_NE(device->loaded.begin()->first.source, "simt.cu");
  EXPECT_THAT(warnings, Contains(AllOf(HasSubstr("record " + std::to_string(id)),
                                       HasSubstr("no image of naive.cu"))));
}

TEST_F(MatmulTest, LackOfMemoryIsNotTheImagesFault) {
  Matmul multiply = make_matmul(std::move(parts));
  device->on_load = [](const Image&) { throw Error(ErrorKind::out_of_memory, "full"); };
  const Problem problem = problem_of(64, 64, 64);
  try {
    multiply.prepare(problem);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::out_of_memory);
  }
  device->on_load = nullptr;
  multiply.prepare(problem);
  EXPECT_EQ(device->loads, 1);
}

}  // namespace
}  // namespace tilewise::matmul_test
