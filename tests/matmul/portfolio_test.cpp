// Portfolios: shipped configurations for GPUs and problems without a stored record.
#include "matmul/portfolio.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "matmul/prediction.hpp"
#include "matmul_fixture.hpp"
#include "resolver_parts.hpp"

namespace tilewise::portfolio_test {
namespace {

using resolver_parts::problem_of;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

const DeviceInfo& h200() {
  static const DeviceInfo info = nominal_from_key("NVIDIA H200|9.0|132");
  return info;
}

Resolver portfolio_of(const DeviceInfo& device) {
  return Resolver({}, device, "", portfolio_for(device));
}

TEST(Portfolio, EveryShippedRecordIsValidOnItsGpu) {
  for (const char* key : {"NVIDIA H200|9.0|132", "NVIDIA H100 80GB HBM3|9.0|132"}) {
    const DeviceInfo device = nominal_from_key(key);
    const std::vector<Record> records = portfolio_for(device);
    EXPECT_GE(records.size(), 100U) << key;
    for (const Record& record : records) {
      EXPECT_EQ(record.gpu, gpu_key(device));
      EXPECT_EQ(record.origin, Origin::shipped);
      ASSERT_TRUE(record.measurement);
      EXPECT_GT(record.measurement->median_us, 0);
      const KernelTemplate& kernel = find_template(record.candidate.kernel_template);
      EXPECT_EQ(rejection(kernel, record.problem, record.candidate.configuration, device), "")
          << to_string(record.problem);
    }
  }
}

// Whatever the portfolio holds for a product of any order, an invariant one gets its own order,
// with m and without.
TEST(Portfolio, ItsKernelsObeyAnOrderOfSums) {
  const Resolver portfolio = portfolio_of(h200()), none({}, h200());
  int predicted = 0;
  for (const DType type : {DType::f32, DType::f16, DType::bf16})
    for (const std::int64_t k : {4096, 14336}) {
      Problem problem = typed_problem(Layout::nt, 1, 1024, k, type, type);
      const SumOrder first = default_order(order_key(problem), h200());
      SumOrder in_parts = first;
      in_parts.part = k / 4;
      for (const SumOrder& order : {first, in_parts})
        for (const std::int64_t m : {1, 7, 64, 300, 5000}) {
          problem.m = m;
          problem.order = interned(order);
          set_alignment(problem, natural_alignment(problem));
          const Resolution served = resolve_with_portfolio(
              none, [&] { return &portfolio; }, problem);
          EXPECT_EQ(sum_order_of(served.candidate, problem, h200()), order)
              << to_string(served.candidate) << " for " << to_string(problem);
          predicted += served.kind == MatchKind::predicted;
        }
    }
  EXPECT_GE(predicted, 15);
}

// A change of a template's revision or estimates puts its corrections out of use. Either they are
// fitted again, or the portfolio says that they fit.
TEST(Portfolio, EveryShippedCorrectionIsInUse) {
  for (const char* key : {"NVIDIA H200|9.0|132", "NVIDIA H100 80GB HBM3|9.0|132"})
    for (const DType type : {DType::bf16, DType::f16, DType::f32}) {
      const Problem problem = typed_problem(Layout::nn, 64, 64, 64, type, type);
      const std::optional<Corrections> shipped =
          portfolio_corrections(problem, nominal_from_key(key));
      ASSERT_TRUE(shipped) << key << to_string(type);
      EXPECT_TRUE(shipped->whole()) << key << to_string(type);
    }
}

// The kernels of both take equal times.
TEST(Portfolio, RecordsOfOne16BitFloatServeTheOther) {
  for (const char* key : {"NVIDIA H200|9.0|132", "NVIDIA H100 80GB HBM3|9.0|132"}) {
    const DeviceInfo device = nominal_from_key(key);
    const auto corrections = [&](const Problem& kind) {
      return portfolio_corrections(kind, device);
    };
    const Resolver portfolio({}, device, "", portfolio_for(device), corrections);
    for (const std::int64_t m : {1, 16, 777, 4096}) {
      const auto best_of = [&](DType type) {
        return portfolio.expected(typed_problem(Layout::nt, m, 4096, 4096, type, type), 1);
      };
      const std::vector<Resolver::Expected> f16 = best_of(DType::f16), bf16 = best_of(DType::bf16);
      ASSERT_THAT(f16, SizeIs(1));
      ASSERT_THAT(bf16, SizeIs(1));
      EXPECT_EQ(f16.front().candidate, bf16.front().candidate) << key << m;
      EXPECT_DOUBLE_EQ(f16.front().us, bf16.front().us) << key << m;
    }
  }
}

TEST(Portfolio, RecordsAreNotShippedTwice) {
  const std::vector<Record> records = portfolio_for(h200());
  std::set<std::pair<std::string, std::string>> seen;
  for (const Record& record : records)
    EXPECT_TRUE(seen.emplace(to_string(record.problem), to_string(record.candidate)).second)
        << to_string(record.problem) << to_string(record.candidate);
}

TEST(Portfolio, ServesWhatNothingStoredServes) {
  const Problem problem = problem_of(3000, 1777, 900);
  const Resolver stored({}, h200()), portfolio = portfolio_of(h200());
  const Resolution match = resolve_with_portfolio(
      stored, [&] { return &portfolio; }, problem);
  EXPECT_EQ(match.kind, MatchKind::predicted);
  EXPECT_GT(match.predicted_us, 0);
  EXPECT_THAT(match.why, AllOf(HasSubstr("portfolio"), HasSubstr("NVIDIA H200"),
                               HasSubstr("expected to be the fastest")));
  EXPECT_FALSE(match.stale);
  // Even the portfolio's own problems are only predicted, because nothing was measured on this GPU.
  EXPECT_EQ(resolve_with_portfolio(
                stored, [&] { return &portfolio; }, portfolio_for(h200()).front().problem)
                .kind,
            MatchKind::predicted);
}

TEST(Portfolio, WhatIsStoredComesFirst) {
  const Problem problem = problem_of(512, 512, 512);
  Winner winner = resolver_parts::winner(1, problem, resolver_parts::candidate(problem), 1e6);
  winner.record.gpu = gpu_key(h200());
  const Resolver stored({winner}, h200());
  int asked = 0;
  const Resolver portfolio = portfolio_of(h200());
  const auto ask = [&] {
    ++asked;
    return &portfolio;
  };
  EXPECT_EQ(resolve_with_portfolio(stored, ask, problem).record->id, 1);
  EXPECT_EQ(resolve_with_portfolio(stored, ask, problem_of(500, 500, 500)).record->id, 1);
  EXPECT_EQ(asked, 0);
  Problem other = problem;  // without a stored record of its types
  set_types(other, DType::bf16, DType::bf16, MathMode::strict);
  EXPECT_EQ(resolve_with_portfolio(stored, ask, other).record->id, 0);
  EXPECT_EQ(asked, 1);
}

TEST(Portfolio, IsAskedWhereOnlyAFarWinnerServes) {
  // Four times as slow as the model expects, which is the largest transferred correction.
  Winner slow = resolver_parts::winner(1, problem_of(64, 64, 64),
                                       resolver_parts::candidate(problem_of(64, 64, 64)), 1e6);
  slow.record.gpu = gpu_key(h200());
  const Resolver stored({slow}, h200()), portfolio = portfolio_of(h200());
  const auto ask = [&] { return &portfolio; };
  EXPECT_EQ(resolve_with_portfolio(stored, ask, problem_of(64, 128, 64)).record->id, 1) << "near";
  const Problem far = problem_of(4000, 4000, 4000);
  EXPECT_EQ(resolve_with_portfolio(stored, ask, far).record->origin, Origin::shipped);
  EXPECT_EQ(resolve_with_portfolio(
                stored, [] { return nullptr; }, far)
                .record->id,
            1);
}

TEST(Portfolio, AGpuOfTheSameCapabilityHasScaledTimes) {
  DeviceInfo smaller = h200();
  smaller.name = "NVIDIA H100 PCIe";
  smaller.multiprocessors = 66;
  const std::vector<Record> own = portfolio_for(h200()), scaled = portfolio_for(smaller);
  ASSERT_GE(scaled.size(), own.size()) << "those of all GPUs of the capability";
  int slower = 0, same = 0;
  for (const Record& record : scaled) {
    EXPECT_EQ(record.gpu, gpu_key(smaller));
    EXPECT_GT(record.measurement->median_us, 0);
    const auto there = std::find_if(own.begin(), own.end(), [&](const Record& other) {
      return other.problem == record.problem && other.candidate == record.candidate;
    });
    if (there == own.end()) continue;
    ++same;
    slower += record.measurement->median_us > there->measurement->median_us;
  }
  EXPECT_GE(same, static_cast<int>(own.size()));
  EXPECT_GT(slower, same / 2) << "half of the multiprocessors";
  EXPECT_EQ(portfolio_of(smaller).resolve(problem_of(4000, 4000, 4000)).kind, MatchKind::predicted);
}

TEST(Portfolio, OtherCapabilitiesHaveWhatIsValidThere) {
  for (const char* target : {"sm_75", "sm_80", "sm_86", "sm_89", "sm_100a", "sm_120"}) {
    SCOPED_TRACE(target);
    const DeviceInfo device = nominal_device(best_target(parse_target(target)));
    const std::vector<Record> records = portfolio_for(device);
    EXPECT_GE(records.size(), 400U);
    for (const Record& record : records) {
      EXPECT_EQ(record.gpu, gpu_key(device));
      EXPECT_GT(record.measurement->median_us, 0);
      EXPECT_EQ(rejection(find_template(record.candidate.kernel_template), record.problem,
                          record.candidate.configuration, device),
                "");
    }
    const Resolver portfolio = portfolio_of(device), none({}, device);
    for (const DType type : {DType::f32, DType::f16}) {
      double faster = 0;
      for (const std::int64_t size : {65, 500, 2048, 4096}) {
        const Problem problem = typed_problem(Layout::nt, size, 2048, 1000, type, type);
        const Resolution served = resolve_with_portfolio(
            none, [&] { return &portfolio; }, problem);
        EXPECT_EQ(rejection(find_template(served.candidate.kernel_template), problem,
                            served.candidate.configuration, device),
                  "");
        const auto expected = [&](const Candidate& candidate) {
          return cost_of(candidate, problem, device).seconds;
        };
        faster += std::log(expected(none.resolve(problem).candidate) / expected(served.candidate));
      }
      EXPECT_GT(faster, 0) << to_string(type) << ": by the cost model, than defaults";
    }
  }
}

// The portfolio's only record of the type is a kernel for few rows.
TEST(Portfolio, ADefaultServesThatIsExpectedInLessTime) {
  const Problem few = typed_problem(Layout::nt, 1, 4096, 4096, DType::i8, DType::i32);
  Winner skinny = resolver_parts::winner(
      1, few, {"skinny", find_template("skinny").default_configuration(few, h200())}, 10);
  skinny.record.gpu = gpu_key(h200());
  const Resolver portfolio({}, h200(), "", {skinny.record}), none({}, h200());
  const auto served = [&](std::int64_t m) {
    return resolve_with_portfolio(
               none, [&] { return &portfolio; },
               typed_problem(Layout::nt, m, 4096, 4096, DType::i8, DType::i32))
        .kind;
  };
  EXPECT_EQ(served(1), MatchKind::predicted);
  EXPECT_EQ(served(4096), MatchKind::default_);
}

TEST(Portfolio, TheCpuHasNone) {
  DeviceInfo cpu = h200();
  cpu.target.host = true;
  EXPECT_THAT(portfolio_for(cpu), IsEmpty());
}

TEST(Portfolio, ItsTextIsReadBack) {
  const auto sorted = [](std::vector<Record> some) {  // a line has all sizes of a configuration
    std::sort(some.begin(), some.end(), [](const Record& x, const Record& y) {
      return std::tie(x.problem, x.candidate, x.measurement->median_us) <
             std::tie(y.problem, y.candidate, y.measurement->median_us);
    });
    return some;
  };
  const std::vector<Record> records = sorted(portfolio_for(h200()));
  const std::map<std::string, std::vector<std::uint8_t>> corrections{{"bf16", {1, 2, 255}},
                                                                     {"f32 by tf32", {}}};
  const Portfolio again = read_portfolio(portfolio_text({records, corrections, "a test"}));
  EXPECT_TRUE(sorted(again.records) == records);
  EXPECT_EQ(again.corrections, corrections);
  EXPECT_EQ(again.made_by, "a test");
  EXPECT_THAT(read_portfolio(portfolio_text({})).records, IsEmpty());
}

TEST(Portfolio, TextThatIsNoneIsRefused) {
  std::vector<Record> two = portfolio_for(h200());
  two.resize(2);
  std::string other_version = portfolio_text({two, {}, ""});
  other_version.replace(other_version.find("\"version\": 1"), 12, "\"version\": 9");
  for (const std::string& text : {std::string(), std::string("{}"), std::string("[1]"),
                                  other_version, portfolio_text({two, {}, ""}).substr(0, 300)})
    EXPECT_THROW(read_portfolio(text), Error) << text.substr(0, 40);
  two[1].gpu = "another|9.0|1";
  EXPECT_THROW(portfolio_text({two, {}, ""}), Error);
}

Record portfolio_record(const Problem& problem, int tile_m) {
  Record record;
  record.problem = problem;
  record.candidate = {"simt",
                      find_template("simt").default_configuration(problem_of(64, 64, 64), h200())};
  record.candidate.configuration.set("TILE_M", tile_m);
  record.gpu = gpu_key(h200());
  return record;
}

TEST(Portfolio, AnOlderOneFillsAllThatItHasOfAConfiguration) {
  const auto sized = [](std::int64_t m, int tile_m) {
    return portfolio_record(
        typed_problem(Layout::nt, m, 1024, 1024, DType::f32, DType::f32, MathMode::strict), tile_m);
  };
  Portfolio portfolio{{sized(64, 64)}, {}, ""};
  EXPECT_EQ(fill_from(portfolio, {{sized(1, 96), sized(2, 128), sized(3, 128)}, {}, ""}, 2), 2U);
  EXPECT_THAT(portfolio.records, ElementsAre(sized(64, 64), sized(2, 128), sized(3, 128)));
}

TEST(Portfolio, DamagedSizesAreRefused) {
  Record record = portfolio_record(
      typed_problem(Layout::nt, 7, 8, 9, DType::f32, DType::f32, MathMode::strict), 64);
  record.measurement.emplace();
  std::vector<Record> two{record, record};
  two[1].problem.m = 64;
  const std::string good = portfolio_text({two, {}, ""});
  EXPECT_EQ(read_portfolio(good).records.size(), 2U);
  const std::size_t at = good.find("[[64,");
  ASSERT_NE(at, std::string::npos);
  for (const char* also :
       {"[[-5,8,9,4,4,4,1.0]]", "[[64,8,9,3,4,4,1.0]]", "[[64,8,9,4,4,4,-1.0]]",
        "[[1e30,8,9,4,4,4,1.0]]", "[[64.5,8,9,4,4,4,1.0]]", "[[64,8,9,4,4,4]]", "[7]", "null"}) {
    std::string damaged = good;
    damaged.replace(at, good.find("]]", at) + 2 - at, also);
    EXPECT_THROW(read_portfolio(damaged), Error) << also;
  }
}

TEST(Portfolio, OneLineHasTheSizesOfACandidate) {
  const auto sized = [](std::int64_t m, int alignment, DType type, double us) {
    Record record = portfolio_record(
        typed_problem(Layout::nt, m, 1024, 1024, type, type, MathMode::strict), 64);
    set_alignment(record.problem, {alignment, 16, alignment});
    record.measurement.emplace();
    record.measurement->median_us = us;
    return record;
  };
  const std::vector<Record> records{sized(7, 4, DType::f32, 1), sized(7, 4, DType::f64, 2),
                                    sized(9, 16, DType::f32, 3), sized(7, 16, DType::f32, 4)};
  const std::string text = portfolio_text({records, {}, ""});
  std::size_t lines = 0;
  for (std::size_t at = 0; (at = text.find("\"template\"", at)) != std::string::npos; ++at) ++lines;
  EXPECT_EQ(lines, 2U) << "one of each type";
  const auto told = [](const Record& record) {
    return std::pair(record.problem, record.measurement->median_us);
  };
  std::vector<std::pair<Problem, double>> found;
  for (const Record& record : read_portfolio(text).records) {
    EXPECT_EQ(record.candidate, records.front().candidate);
    found.push_back(told(record));
  }
  EXPECT_THAT(found,
              ElementsAre(told(records[0]), told(records[2]), told(records[3]), told(records[1])));
}

TEST(Portfolio, AnOlderOneFillsWhatTheNewOneLacks) {
  const auto bf16 = [](Layout layout, std::int64_t m) {
    return typed_problem(layout, m, 1024, 1024, DType::bf16, DType::bf16);
  };
  const Problem f16 = typed_problem(Layout::nt, 1024, 1024, 1024, DType::f16, DType::f16);
  const Record own = portfolio_record(bf16(Layout::nt, 1024), 64);
  const Record same_problem = portfolio_record(bf16(Layout::nt, 1024), 128);
  const Record same_configuration = portfolio_record(bf16(Layout::nt, 2048), 64);
  const Record other = portfolio_record(bf16(Layout::nt, 2048), 128);
  const Record last = portfolio_record(bf16(Layout::nt, 512), 192);
  const Record of_layout = portfolio_record(bf16(Layout::nn, 1024), 64);
  const Record of_kind = portfolio_record(f16, 64);
  Portfolio portfolio{{own}, {{"bf16", {1}}}, "new"};
  const Portfolio older{{other, same_problem, same_configuration, last, of_layout, of_kind},
                        {{"bf16", {2}}, {"f16", {3}}},
                        "old"};
  EXPECT_EQ(fill_from(portfolio, older, 2), 4U);
  EXPECT_THAT(portfolio.records, ElementsAre(own, same_configuration, last, of_layout, of_kind));
  EXPECT_EQ(portfolio.corrections,
            (std::map<std::string, std::vector<std::uint8_t>>{{"bf16", {1}}, {"f16", {3}}}));
  EXPECT_EQ(portfolio.made_by, "new");
  EXPECT_EQ(fill_from(portfolio, older, 2), 0U) << "all are there";

  Portfolio another{{own}, {}, ""};
  another.records.front().gpu = "another|9.0|1";
  EXPECT_THROW(fill_from(another, older, 2), Error);
}

// The portfolio has kernels that pack the operands of odd products, measured as fast for these.
TEST(Portfolio, AlignedOperandsAreNotPacked) {
  const Resolver none({}, h200()),
      portfolio({}, h200(), "", portfolio_for(h200()),
                [](const Problem&kind) { return portfolio_corrections(kind, h200()); });
  for (const Layout layout : {Layout::nn, Layout::nt, Layout::tn, Layout::tt})
    for (const std::int64_t n : {1024, 4096, 8192}) {
      const Resolution served = resolve_with_portfolio(
          none, [&] { return &portfolio; },
          typed_problem(layout, n, n, n, DType::bf16, DType::bf16));
      ASSERT_EQ(served.candidate.kernel_template, "wgmma");
      EXPECT_EQ(served.candidate.configuration.at("PACK_A"), 0) << served.why;
      EXPECT_EQ(served.candidate.configuration.at("PACK_B"), 0) << served.why;
    }
}

// 100 rows are one tile of the rows of most kernels: a cluster of two such tiles has half its
// blocks idle.
TEST(Portfolio, OneTileOfRowsHasNoClusterOfTwo) {
  const Resolver none({}, h200()),
      portfolio({}, h200(), "", portfolio_for(h200()),
                [](const Problem&kind) { return portfolio_corrections(kind, h200()); });
  int of_wgmma = 0;
  for (const std::int64_t n : {2560, 4544, 10240, 18176})
    for (const std::int64_t k : {2560, 4544, 18176}) {
      const Resolution served = resolve_with_portfolio(
          none, [&] { return &portfolio; },
          typed_problem(Layout::nt, 100, n, k, DType::bf16, DType::bf16));
      const Configuration& c = served.candidate.configuration;
      if (served.candidate.kernel_template != "wgmma") continue;
      ++of_wgmma;
      EXPECT_TRUE(c.at("CLUSTER_M") == 1 || c.at("TILE_M") < 100) << served.why;
    }
  EXPECT_GT(of_wgmma, 6);
}

class PortfolioMatmul : public MatmulTest {};

TEST_F(PortfolioMatmul, IsReadOnceAndOnlyWhereNothingIsStored) {
  int reads = 0;
  const Problem stored = problem_of(64, 64, 64);
  Database database = Database::in_memory();
  store(database, stored, "simt");
  parts.database = std::move(database);
  parts.portfolio = [&](const DeviceInfo& own) {
    ++reads;
    const Problem problem =
        typed_problem(Layout::nn, 256, 256, 256, DType::f64, DType::f64, MathMode::strict);
    Record record;
    record.problem = problem;
    record.candidate = {"tiled", find_template("tiled").default_configuration(problem, own)};
    record.gpu = gpu_key(own);
    record.origin = Origin::shipped;
    record.measurement.emplace();
    record.measurement->median_us = 0.1;
    return std::vector{record};
  };
  Matmul multiply = make_matmul(std::move(parts));
  EXPECT_EQ(multiply.explain(problem_of(70, 64, 64)).kind, MatchKind::predicted);
  EXPECT_EQ(reads, 0);
  for (int size = 100; size < 106; size += 2) {
    const Problem problem =
        typed_problem(Layout::nn, size, size, size, DType::f64, DType::f64, MathMode::strict);
    const Match match = multiply.explain(problem);
    EXPECT_EQ(match.kind, MatchKind::predicted);
    EXPECT_EQ(match.kernel_template, "tiled");
  }
  EXPECT_EQ(reads, 1);
}

TEST_F(PortfolioMatmul, StoredStrictRecordsServeEmulatedProducts) {
  const Problem strict = problem_of(64, 64, 64);
  Candidate stored = candidate(strict, "simt");
  stored.configuration.set("GROUP_M", 4);
  Problem asked = strict;
  set_types(asked, DType::f32, DType::f32, MathMode::emulated);
  const auto explained = [&](bool quarantined) {
    Database database = Database::in_memory();
    const std::int64_t id = store(database, strict, stored);
    if (quarantined) database.quarantine(id, "for the test");
    MatmulParts made;
    made.device = std::make_unique<FakeDevice>();
    made.database = std::move(database);
    made.warn = [](const std::string&) {};
    return make_matmul(std::move(made)).explain(asked);
  };
  EXPECT_EQ(explained(false).kind, MatchKind::predicted);
  EXPECT_EQ(explained(false).configuration, stored.configuration.text());
  EXPECT_EQ(explained(true).kind, MatchKind::default_);
}

TEST_F(PortfolioMatmul, AKernelThatFailsIsReplacedByADefault) {
  parts.portfolio = [&](const DeviceInfo& own) {
    Record record;
    record.problem = problem_of(256, 256, 256);
    record.candidate = candidate(record.problem, "tiled");
    record.gpu = gpu_key(own);
    record.origin = Origin::shipped;
    record.measurement.emplace();
    record.measurement->median_us = 0.1;
    return std::vector{record};
  };
  refused_source =
      image_of(problem_of(256, 256, 256), candidate(problem_of(256, 256, 256), "tiled"))
          .kernel.source;
  Matmul multiply = make_matmul(std::move(parts));
  const Problem problem = problem_of(64, 64, 64);
  ASSERT_EQ(multiply.explain(problem).kernel_template, "tiled");
  Operands operands(problem);
  multiply(problem, operands.call);
  EXPECT_EQ(multiply.explain(problem).kind, MatchKind::default_);
  ASSERT_THAT(warnings, SizeIs(1));
  EXPECT_THAT(warnings.front(), HasSubstr("portfolio"));
}

}  // namespace
}  // namespace tilewise::portfolio_test
