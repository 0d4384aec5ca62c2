// on_miss: the first product of a problem that was not tuned, and the list of such problems.
#include "matmul/missed.hpp"

#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>

#include "matmul_fixture.hpp"

namespace tilewise::missed_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class Missed : public MatmulTest {
 protected:
  Missed() {
    std::string pattern = (std::filesystem::temp_directory_path() / "missed-XXXXXX").string();
    folder = mkdtemp(pattern.data());
    file = folder / "list.csv";
    Database database = Database::in_memory();
    store(database, problem_of(64, 64, 64), "simt");
    parts.database = std::move(database);
    parts.missed_list = file;
  }
  ~Missed() override { std::filesystem::remove_all(folder); }
  std::vector<std::string> lines() const {
    std::vector<std::string> found;
    std::ifstream in(file);
    for (std::string line; std::getline(in, line);) found.push_back(line);
    return found;
  }
  static void serve(Matmul& multiply, const Problem& problem) {
    Operands operands(problem);
    multiply(problem, operands.call);
  }
  std::filesystem::path folder, file;
};

TEST_F(Missed, IsServedAndNotWrittenByDefault) {
  Matmul multiply = make_matmul(std::move(parts));
  serve(multiply, problem_of(60, 64, 64));
  EXPECT_FALSE(std::filesystem::exists(file));
}

TEST_F(Missed, IsWrittenOnceAndNotWhereItWasTuned) {
  parts.on_miss = OnMiss::record;
  Matmul multiply = make_matmul(std::move(parts));
  for (int i = 0; i < 2; ++i)
    for (const Problem& problem :
         {problem_of(64, 64, 64), problem_of(60, 64, 64), problem_of(8, 16, 33, Layout::nt)})
      serve(multiply, problem);
  multiply.prepare(problem_of(61, 64, 64));
  EXPECT_THAT(lines(), ElementsAre(missed_heading(), "nn,60,64,64,f32,f32,strict,1,16/16/16,,,,,",
                                   "nt,8,16,33,f32,f32,strict,1,4/4/16,,,,,",
                                   "nn,61,64,64,f32,f32,strict,1,16/16/16,,,,,"));
  EXPECT_THAT(warnings, IsEmpty());
}

// Products grouped by counts are never tuned themselves.
TEST_F(Missed, ProductsByCountsAreThoseByRows) {
  Problem counts = problem_of(10, 16, 16);
  counts.batch = 3;
  counts.grouping = Grouping::counts;
  Problem others = counts;
  others.m = 40;
  parts.on_miss = OnMiss::record;
  Database database = Database::in_memory();
  store(database, tuned_as(counts), "tiled");
  parts.database = std::move(database);
  Matmul multiply = make_matmul(std::move(parts));
  multiply.prepare(counts);
  multiply.prepare(others);
  EXPECT_THAT(lines(), ElementsAre(missed_heading(), missed_line(tuned_as(others))));
}

TEST_F(Missed, ARecordThatFailsIsNamedWithItsReason) {
  break_images_of("simt.cu");
  parts.on_miss = OnMiss::error;
  Matmul multiply = make_matmul(std::move(parts));
  try {
    serve(multiply, problem_of(64, 64, 64));
    FAIL() << "it was served";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::not_found);
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("what was tuned for nn 64x64x64"), HasSubstr("cannot be served"),
                      HasSubstr("invalid image"), HasSubstr("to tune it: autotune")));
  }
}

TEST_F(Missed, IsAnErrorWhereThatIsAskedFor) {
  parts.on_miss = OnMiss::error;
  Matmul multiply = make_matmul(std::move(parts));
  serve(multiply, problem_of(64, 64, 64));
  const int loads = device->loads;
  try {
    serve(multiply, problem_of(60, 64, 64));
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::not_found);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("60x64x64"), HasSubstr("autotune --sizes")));
  }
  EXPECT_THROW(multiply.prepare(problem_of(60, 64, 64)), Error);
  EXPECT_EQ(multiply.explain(problem_of(60, 64, 64)).kind, MatchKind::predicted);
  EXPECT_EQ(device->loads, loads);
}

TEST_F(Missed, AListThatCannotBeWrittenIsOneWarning) {
  parts.on_miss = OnMiss::record;
  parts.missed_list = folder;  // a folder
  Matmul multiply = make_matmul(std::move(parts));
  for (int m = 50; m < 55; ++m) serve(multiply, problem_of(m, 64, 64));
  ASSERT_THAT(warnings, SizeIs(1));
  EXPECT_THAT(warnings.front(), HasSubstr(folder.string()));
}

TEST_F(Missed, TheFileIsBounded) {
  std::ofstream(file) << std::string(MissedProblems::kMostBytes - 10, '#');
  MissedProblems missed(file);
  EXPECT_THAT(missed.add(problem_of(8, 8, 8)), HasSubstr("1 MiB"));
  EXPECT_EQ(missed.add(problem_of(9, 8, 8)), "") << "said once";
  EXPECT_EQ(std::filesystem::file_size(file), MissedProblems::kMostBytes - 10);
}

TEST_F(Missed, AProcessWritesALimitedNumber) {
  MissedProblems missed(file);
  std::string why;
  std::size_t written = 0;
  for (std::int64_t m = 1; why.empty() && m < 20'000; ++m, ++written)
    why = missed.add(problem_of(m, 8, 8));
  EXPECT_THAT(why, HasSubstr("10000"));
  EXPECT_EQ(written - 1, MissedProblems::kMostProblems);
  EXPECT_THAT(lines(), SizeIs(MissedProblems::kMostProblems + 1));
}

TEST_F(Missed, EpiloguesAreQuoted) {
  Problem problem = problem_of(8, 8, 8);
  set_epilogue(problem, Epilogue("acc + x[i,j]"));
  EXPECT_EQ(MissedProblems(file).add(problem), "");
  EXPECT_THAT(lines(), ElementsAre(missed_heading(),
                                   "nn,8,8,8,f32,f32,strict,1,16/16/16,\"(p0[i,j]+acc)\",,,,"));
}

TEST_F(Missed, OrdersAreWritten) {
  Problem problem = problem_of(8, 8, 8);
  set_order(problem, "fused+parts512");
  EXPECT_EQ(MissedProblems(file).add(problem), "");
  EXPECT_THAT(lines(), ElementsAre(missed_heading(),
                                   "nn,8,8,8,f32,f32,strict,1,16/16/16,,fused+parts512,,,"));
}

TEST_F(Missed, GroupsAreWritten) {
  Problem problem = problem_of(8, 8, 8);
  problem.batch = 5;
  problem.grouping = Grouping::rows;
  problem.distribution = Distribution::zipf;
  EXPECT_EQ(MissedProblems(file).add(problem), "");
  EXPECT_THAT(lines(),
              ElementsAre(missed_heading(), "nn,8,8,8,f32,f32,strict,5,16/16/16,,,rows,zipf,"));
}

TEST_F(Missed, ATypeOfBIsWritten) {
  Problem problem = problem_of(8, 8, 8);
  set_types(problem, DType::bf16, DType::i4, DType::bf16, MathMode::strict);
  EXPECT_EQ(MissedProblems(file).add(problem), "");
  EXPECT_THAT(lines(),
              ElementsAre(missed_heading(), "nn,8,8,8,bf16,bf16,strict,1,16/16/16,,,,,i4"));
}

// A list of a version without orders, or without epilogues, goes on as it began.
TEST_F(Missed, AnOlderListKeepsItsColumns) {
  Problem plain = problem_of(8, 8, 8), with_epilogue = plain, in_order = plain;
  set_epilogue(with_epilogue, Epilogue("relu(acc)"));
  set_order(in_order, "fused");
  const std::string heading = missed_heading(),
                    without_order = heading.substr(0, heading.find(",order")),
                    oldest = without_order.substr(0, without_order.rfind(','));
  std::ofstream(file) << without_order << "\n";
  EXPECT_EQ(MissedProblems(file).add(plain), "");
  EXPECT_EQ(MissedProblems(file).add(with_epilogue), "");
  EXPECT_THAT(MissedProblems(file).add(in_order), HasSubstr("lacks the columns"));
  EXPECT_THAT(lines(), ElementsAre(without_order, "nn,8,8,8,f32,f32,strict,1,16/16/16,",
                                   "nn,8,8,8,f32,f32,strict,1,16/16/16,\"relu(acc)\""));
  std::ofstream(file) << oldest << "\n";
  EXPECT_EQ(MissedProblems(file).add(plain), "");
  EXPECT_THAT(MissedProblems(file).add(with_epilogue), HasSubstr("lacks the columns"));
  EXPECT_THAT(MissedProblems(file).add(in_order), HasSubstr("lacks the columns"));
  EXPECT_THAT(lines(), ElementsAre(oldest, "nn,8,8,8,f32,f32,strict,1,16/16/16"));
}

TEST_F(Missed, ManyWritersShareAFile) {
  std::vector<std::thread> threads;
  for (int writer = 0; writer < 4; ++writer)
    threads.emplace_back([this, writer] {
      MissedProblems missed(file);  // as another process would
      for (int i = 0; i < 50; ++i) EXPECT_EQ(missed.add(problem_of(1 + writer * 50 + i, 8, 8)), "");
    });
  for (std::thread& thread : threads) thread.join();
  const std::vector<std::string> all = lines();
  EXPECT_THAT(all, SizeIs(201));
  EXPECT_EQ(std::count(all.begin(), all.end(), missed_heading()), 1);
  for (const std::string& line : all)
    EXPECT_EQ(std::count(line.begin(), line.end(), ','), 13) << line;
}

}  // namespace
}  // namespace tilewise::missed_test
