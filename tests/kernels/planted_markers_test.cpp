// The markers of the kernel sources, and the errors for mistakes that cannot be planted.
#include <map>
#include <regex>
#include <set>

#include "tests/kernels/mutation.hpp"
#include "tests/kernels/planted.hpp"
#include "tilewise/error.hpp"

namespace tilewise::test::planted_markers_test {
namespace {

using check::MarkedLine;
using check::Mutation;
using testing::HasSubstr;

/// Markers that the tests of planted mistakes use.
std::set<std::string> used_markers() {
  std::set<std::string> used;
  const std::regex literal("\"([a-z0-9-]+)\"_marker");
  for (const auto& entry :
       std::filesystem::directory_iterator(TILEWISE_SOURCE_DIR "/tests/kernels")) {
    if (!entry.path().filename().string().starts_with("planted_")) continue;
    const std::string text = text_of(entry.path());
    for (std::sregex_iterator at(text.begin(), text.end(), literal), end; at != end; ++at)
      used.insert((*at)[1]);
  }
  return used;
}

TEST(PlantedMarkers, EachIsOnceInTheKernelSourcesAndUsed) {
  std::map<std::string, std::string> places;
  const std::regex kebab("[a-z][a-z0-9]*(-[a-z0-9]+)*");
  for (const auto& path : kernel_source_files()) {
    const std::string text = text_of(path);
    for (const MarkedLine& line : check::marked_lines(text)) {
      const std::string place = path.filename().string() + ":" + std::to_string(line.number);
      EXPECT_LT(line.begin, line.end) << place << " has a marker and no code";
      EXPECT_FALSE(line.markers.empty()) << place << " has no name behind //@";
      for (const std::string& marker : line.markers) {
        EXPECT_TRUE(std::regex_match(marker, kebab)) << place << ": " << marker;
        const auto [first, inserted] = places.emplace(marker, place);
        EXPECT_TRUE(inserted) << marker << " is at " << first->second << " and " << place;
      }
    }
  }
  const std::set<std::string> used = used_markers();
  EXPECT_FALSE(used.empty());
  for (const auto& [marker, place] : places)
    EXPECT_TRUE(used.contains(marker)) << marker << " at " << place << " is used by no test";
  for (const std::string& marker : used)
    EXPECT_TRUE(places.contains(marker)) << marker << " is at no line of a kernel source";
}

const std::string kText =
    "int a = 1;\n"
    "  a += b + c;  // why  //@ add other\n"
    "\n"
    "  done();  //@ last";

std::string planted(const Mutation& mutation) {
  std::string text = kText;
  check::plant(mutation, text);
  return text;
}

TEST(PlantedMarkers, AMistakeReplacesTheLinesCodeAndLeavesItsComments) {
  EXPECT_THAT(planted({"add", {}, "a -= b;"}),
              HasSubstr(";\n  a -= b;  // why  //@ add other\n\n"));
  EXPECT_THAT(planted({"other", {}, ""}), HasSubstr(";\n    // why  //@ add other\n\n"));
  EXPECT_THAT(planted({"last", {}, "if (a) {line} {line}"}),
              HasSubstr("\n  if (a) done(); done();  //@ last"));
  EXPECT_THAT(planted({"add", "b +", "b -"}),
              HasSubstr("\n  a += b - c;  // why  //@ add other\n"));
  EXPECT_EQ(planted({"elsewhere", "b +", "b -"}), kText);
}

/// Why a mistake cannot be planted in some sources; empty if it can.
std::string refusal(const Mutation& mutation,
                    const std::vector<std::pair<std::string, std::string>>& sources) {
  try {
    check::expect_plantable(mutation, sources);
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
    return error.what();
  }
}

TEST(PlantedMarkers, AMistakeWithoutExactlyOnePlaceIsRefused) {
  EXPECT_EQ(refusal({"add", "b", "d"}, {{"x.cu", kText}, {"y.cuh", "int b;\n"}}), "");
  EXPECT_THAT(refusal({"gone", {}, ""}, {{"x.cu", kText}}),
              HasSubstr("--mutate gone: no line of a kernel source has this marker, a comment "
                        "\"//@ gone\" at its end"));
  EXPECT_THAT(refusal({"add", {}, ""}, {{"x.cu", kText}, {"y.cuh", "int b;  //@ add\n"}}),
              HasSubstr("--mutate add: one line of the kernel sources has to have this marker, and "
                        "2 have it: x.cu:2 and y.cuh:1"));
  EXPECT_THAT(refusal({"add", "1", "2"}, {{"x.cu", kText}}),
              HasSubstr("--mutate-in add: \"1\" has to occur exactly once in the line, and occurs "
                        "0 times: a += b + c;"));
  EXPECT_THAT(refusal({"add", "+", "-"}, {{"x.cu", kText}}), HasSubstr("occurs 2 times"));
  EXPECT_THAT(refusal({"add", "why", "-"}, {{"x.cu", kText}}), HasSubstr("occurs 0 times"));
  EXPECT_THAT(refusal({"add", {}, "a;\nb;"}, {{"x.cu", kText}}), HasSubstr("has to be one line"));
}

TEST(PlantedMarkers, TheCheckerRefusesWithStatus2) {
  const Mistake gone = {" --mutate no-such-marker ''"};
  for (const auto& [mistake, why] :
       {std::pair{gone, "no line of a kernel source has this marker"},
        std::pair{changed("pipeline-wait-full"_marker, "no such text", ""), "occurs 0 times: "},
        std::pair{changed("tiled-multiply-add"_marker, "tile_", ""), "occurs 2 times: "}}) {
    const Result result = check(TILEWISE_CHECK_PLAIN, kTiled, mistake);
    EXPECT_EQ(result.status, 2) << result.output;
    EXPECT_THAT(result.output, HasSubstr(why));
  }
}

}  // namespace
}  // namespace tilewise::test::planted_markers_test
