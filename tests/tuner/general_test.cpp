// With a winner that is specialised on its size, tune() also keeps the form that serves other
// sizes.
#include "tests/tuner/tune_fixture.hpp"

namespace tilewise::general_test {
namespace {

using testing::Contains;
using testing::IsEmpty;
using testing::Not;

/// Y other than 0 stands for sizes as constants. The best is X = 6, Y = 2.
struct TuneGeneral : Tune {
  TuneGeneral() {
    special.specialises = "Y";
    options.templates = {&special};
  }
  std::vector<Point> general() const {
    std::vector<Point> points;
    for (const Record& record : database.general(gpu)) {
      const Configuration& c = record.candidate.configuration;
      points.emplace_back(c.at("X"), c.at("Y"));
      EXPECT_TRUE(record.measurement);
    }
    return points;
  }
  bool has_image(const Point& point) const {
    const auto images = database.images();
    return std::any_of(images.begin(), images.end(), [&](const Image& image) {
      const auto& defines = image.kernel.defines;
      return defines.count("X") && defines.at("X") == point.first &&
             defines.at("Y") == point.second;
    });
  }
  KernelTemplate special = grid_template("special");
};

TEST_F(TuneGeneral, TheGeneralFormOfTheWinnerIsStoredWithItsImages) {
  run();
  EXPECT_EQ(winner(), (Point{6, 2}));
  EXPECT_EQ(general(), (std::vector<Point>{{6, 0}}));
  EXPECT_TRUE(has_image({6, 0}));
  database.prune();
  EXPECT_TRUE(has_image({6, 0}));
}

TEST_F(TuneGeneral, ItIsMeasuredWhereTheSearchDidNotTryIt) {
  options.subspace = {{"Y", {1, 2, 3}}};
  const TuneResult result = run();
  EXPECT_EQ(general(), (std::vector<Point>{{6, 0}}));
  EXPECT_EQ(evaluator.evaluated.back(), (Point{6, 0}));
  EXPECT_EQ(result.evaluated, static_cast<std::int64_t>(evaluator.evaluated.size()) +
                                  3 /* X that the compiler refuses */);
}

TEST_F(TuneGeneral, AWinnerThatIsGeneralNeedsNoOther) {
  options.subspace = {{"Y", {0}}};
  run();
  EXPECT_EQ(winner(), (Point{6, 0}));
  EXPECT_THAT(general(), IsEmpty());
}

TEST_F(TuneGeneral, AFormThatIsWrongOrNotValidIsNotKept) {
  special.constraints = {{"constant", {"Y"}, "Y is not 0", [](const ConstraintInput& in) {
                            return in.configuration.at("Y") != 0;
                          }}};
  run();
  EXPECT_EQ(winner(), (Point{6, 2}));
  EXPECT_THAT(general(), IsEmpty());
  EXPECT_THAT(evaluator.evaluated, Not(Contains(Point{6, 0})));
}

TEST_F(TuneGeneral, AFormThatIsWrongNowAndThenIsNotKept) {
  for (auto* wrong : {&evaluator.observed_wrong, &evaluator.edge_wrong}) {
    evaluator.observed_wrong = evaluator.edge_wrong = nullptr;
    *wrong = [](Point p) { return p == Point(6, 0); };
    options.force = true;
    const TuneResult result = run();
    EXPECT_EQ(winner(), (Point{6, 2}));
    EXPECT_THAT(evaluator.observed, Contains(Point{6, 0}));
    EXPECT_EQ(result.wrong.back().candidate.configuration.at("Y"), 0);
    EXPECT_THAT(general(), IsEmpty());
  }
}

TEST_F(TuneGeneral, AnInterruptedRunKeepsNone) {
  evaluator.stop = &stop;
  evaluator.stop_after = 20;
  run();
  EXPECT_THAT(general(), IsEmpty());
}

}  // namespace
}  // namespace tilewise::general_test
