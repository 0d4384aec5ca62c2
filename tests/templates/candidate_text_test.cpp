// Candidates as text.
#include "templates/space/candidate_text.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <set>

#include "random_plans.hpp"
#include "templates/space/search_space.hpp"
#include "tilewise/error.hpp"

namespace tilewise::candidate_text_test {
namespace {

using testing::HasSubstr;

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

const KernelTemplate& simt() { return find_template("simt"); }

Candidate simt_candidate() {
  return {"simt", parse_configuration("128x64x8 thread=8x4 warp_m=4 unroll=8 "
                                      "prefetch=tma-4 vector=4/4/2 pack=padded/no stream_k",
                                      simt())};
}

TEST(CandidateText, NamesWhatIsNotPlain) {
  EXPECT_EQ(short_text(simt_candidate()),
            "simt 128x64x8 thread=8x4 pack=padded/no vector=4/4/2 warp_m=4 unroll=8 prefetch=tma-4 "
            "stream_k");
}

// A candidate stored by an earlier version.
TEST(CandidateText, AnAddedParameterThatIsMissingHasItsFirstValue) {
  const KernelTemplate& wgmma = find_template("wgmma");
  const Configuration whole = parse_configuration("128x64x64 stages=4", wgmma);
  Configuration before;
  for (const auto& [name, value] : whole.values())
    if (name != "PROMOTE" && name != "STREAM_K") before.set(name, value);
  EXPECT_EQ(short_text({"wgmma", before}), short_text({"wgmma", whole}));
}

TEST(CandidateText, ReadsNumbersLabelsAndGroups) {
  const Configuration c = simt_candidate().configuration;
  EXPECT_EQ(c.at("TILE_M"), 128);
  EXPECT_EQ(c.at("TILE_N"), 64);
  EXPECT_EQ(c.at("TILE_K"), 8);
  EXPECT_EQ(c.at("THREAD_N"), 4);
  EXPECT_EQ(c.at("VECTOR_C"), 2);
  EXPECT_EQ(c.at("PACK_A"), 1);
  EXPECT_EQ(c.at("PACK_B"), 0);
  EXPECT_EQ(c.at("PREFETCH"), 7);
  EXPECT_EQ(c.at("STREAM_K"), 1);
  EXPECT_EQ(c.at("SPLIT_K"), 1) << "plain";
  EXPECT_EQ(c.at("MAX_REGISTERS"), 0) << "plain";
}

// --only reads the text of tables, for candidates of every template.
TEST(CandidateText, IsReadBackAsItWasWritten) {
  std::map<std::string, int> counts;
  for_random_plans([&](const Problem&, const Candidate& candidate, const Plan&, const DeviceInfo&) {
    const std::string text = short_text(candidate);
    ASSERT_TRUE(text.starts_with(candidate.kernel_template + " ")) << text;
    ASSERT_EQ(text.find('{'), text.npos) << text;
    ASSERT_EQ(parse_configuration(text.substr(candidate.kernel_template.size()),
                                  find_template(candidate.kernel_template)),
              candidate.configuration)
        << text;
    ++counts[candidate.kernel_template];
  });
  for (const KernelTemplate& kernel : catalog()) EXPECT_GT(counts[kernel.name], 0) << kernel.name;
}

TEST(CandidateText, TheLegendsExampleIsACandidate) {
  const std::string legend = kCandidateLegend;
  const std::size_t begin = legend.find("simt ");
  const std::string text = legend.substr(begin, legend.find('\n') - begin);
  const Problem problem = test::make_problem(Layout::nn, 4096, 4096, 4096);
  const Candidate example{"simt", parse_configuration(text.substr(5), simt())};
  EXPECT_EQ(rejection(simt(), problem, example.configuration, nominal_device({9, 0, true})), "");
  EXPECT_EQ(short_text(example), text);
}

TEST(CandidateText, AWordWithTwoMeaningsIsRefused) {
  KernelTemplate one, other;
  one.name = "one", one.parameters = {{"LOADS", {0, 1}, "", {"no", "early"}}};
  other.name = "other", other.parameters = {{"LOADS", {0, 2}, "", {"no", "early"}}};
  EXPECT_EQ(parse_values("loads=early", {&one}), (Subspace{{"LOADS", {1}}}));
  EXPECT_EQ(parse_values("loads=no", {&one, &other}), (Subspace{{"LOADS", {0}}}));
  try {
    parse_values("loads=early", {&one, &other});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "\"early\" in \"loads=early\" is 1 of one and 2 of other; write the number, or "
                 "choose one template");
  }
}

TEST(CandidateText, ValuesThatAreNotAllowedAreNamedBeforeThoseThatAreMissing) {
  KernelTemplate kernel;
  kernel.name = "one", kernel.parameters = {{"SIZE", {2, 4}, ""}, {"WIDTH", {8, 16}, ""}};
  const auto refusal = [&](const char* text) -> std::string {
    try {
      parse_configuration(text, kernel);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal("width=3"), "WIDTH=3 is not one of 8, 16");
  EXPECT_EQ(refusal("width=8"), "one needs a value of SIZE: one of 2, 4");
}

TEST(CandidateText, LabelsAreSingleWordsThatDifferWithinAParameter) {
  for (const KernelTemplate& kernel : catalog())
    for (const Parameter& parameter : kernel.parameters) {
      std::set<std::string> labels;
      for (const std::string& label : parameter.labels) {
        EXPECT_EQ(label.find_first_of(" ,;=/"), label.npos) << kernel.name << " " << label;
        EXPECT_TRUE(labels.insert(label).second) << kernel.name << " " << label;
      }
    }
}

TEST(CandidateText, OfAnotherVersionIsWrittenWithJson) {
  EXPECT_EQ(short_text({"gone", {{"X", 1}}}), "gone {\"X\":1}");
  EXPECT_EQ(short_text({"simt", {{"TILE_M", 64}}}), "simt {\"TILE_M\":64}");
  Candidate odd = simt_candidate();
  odd.configuration.set("TILE_M", 3);
  EXPECT_EQ(short_text(odd), to_string(odd));
}

TEST(CandidateText, ASubspaceListsValues) {
  EXPECT_EQ(parse_values("TILE_M=64,128,64;PREFETCH=2", select_templates()),
            (Subspace{{"TILE_M", {64, 128}}, {"PREFETCH", {2}}}));
  EXPECT_EQ(parse_values("128x64x8; prefetch=tma-3,TMA-4 stream_k", select_templates()),
            (Subspace{{"TILE_M", {128}},
                      {"TILE_N", {64}},
                      {"TILE_K", {8}},
                      {"PREFETCH", {6, 7}},
                      {"STREAM_K", {1}}}));
  EXPECT_EQ(parse_values("tile=16", {&find_template("tiled")}), (Subspace{{"TILE", {16}}}));
  EXPECT_TRUE(parse_values("", select_templates()).empty());
}

TEST(CandidateText, RefusesNonsense) {
  for (const char* bad :
       {"TILE_M", "=3", "TILE_M=", "TILE_M=a", "TILE_M=1,", "TILE_M=1;TILE_M=2",
        "TILE_M=99999999999", "tile=1x2x3x4", "128x", "thread=8x8;THREAD_M=8", "vector=4/4,2/2"})
    EXPECT_FALSE(refusal([&] { parse_values(bad, select_templates()); }).empty()) << bad;
  EXPECT_THAT(refusal([] { parse_values("NOPE=1", {&simt()}); }),
              HasSubstr("no chosen template has a parameter NOPE; there are BLOCKS_PER_SM, "));
  EXPECT_THAT(refusal([] { parse_values("prefetch=slow", {&simt()}); }),
              HasSubstr("nor one of none, registers, double-buffer"));
  EXPECT_THAT(refusal([] { parse_configuration("128x64", simt()); }),
              HasSubstr("simt needs a value of TILE_K"));
  EXPECT_THAT(refusal([] { parse_configuration("TILE_M=64,128", simt()); }),
              HasSubstr("TILE_M has several values"));
}

}  // namespace
}  // namespace tilewise::candidate_text_test
