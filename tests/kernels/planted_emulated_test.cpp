// Mistakes planted in the families residues and halves: units, residues, halves, the certificate,
// the reconstruction.
#include "tests/kernels/planted.hpp"

namespace tilewise::test::planted_emulated_test {
namespace {

const std::string kWrong = " instead of ", kNative = "the native product ran";

Subject subject(const std::string& name, const std::string& layout) {
  return {name, TILEWISE_CHECK_PLAIN,
          R"(residues {"TILE_M":64,"TILE_N":64,"TILE_K":128,"CONSUMERS":1,"STAGES":2,)"
          R"("EPILOGUE":2,"VECTOR_C":1})",
          "--types f64 f64 emulated --layout " + layout};
}
Subject of_halves(const std::string& name, const std::string& layout) {
  return {name, TILEWISE_CHECK_PLAIN,
          R"(halves {"TILE_M":64,"TILE_N":64,"TILE_K":64,"CONSUMERS":1,"STAGES":2,)"
          R"("EPILOGUE":2,"VECTOR_C":1,"PROMOTE":1})",
          "--types f32 f32 emulated --layout " + layout};
}
const Subject kHalves = of_halves("Halves", "nn"), kTurnedHalves = of_halves("TurnedHalves", "tt");
const Subject kResidues = subject("Residues", "nn"), kTurned = subject("Turned", "tt");

class UnchangedResidues : public testing::TestWithParam<Subject> {};
TEST_P(UnchangedResidues, HasNothingThatIsFound) { expect_nothing_found(GetParam()); }
INSTANTIATE_TEST_SUITE_P(Each, UnchangedResidues,
                         testing::Values(kResidues, kTurned, kHalves, kTurnedHalves),
                         [](const auto& of) { return of.param.name; });

struct Planted {
  std::string name;
  Subject subject;
  Mistake mistake;
  std::vector<std::string> report;
  friend void PrintTo(const Planted& planted, std::ostream* to) { *to << planted.name; }
};
class PlantedResidues : public testing::TestWithParam<Planted> {};
TEST_P(PlantedResidues, IsFound) {
  expect_found(GetParam().subject, GetParam().mistake, GetParam().report);
}
INSTANTIATE_TEST_SUITE_P(
    Each, PlantedResidues,
    testing::Values(
        Planted{"AModulusTooFew",
                kResidues,
                changed("moduli-count"_marker, "count : 0", "count - 1 : 0"),
                {kWrong}},
        Planted{"TheNativeProductRunsInTheOtherCase",
                kResidues,
                changed("moduli-native"_marker, ">", "<"),
                {kWrong}},
        Planted{"AWrongReciprocal",
                kResidues,
                changed("residue-byte"_marker, "m.magic", "(m.magic - 4096u)"),
                {kWrong}},
        Planted{"AnotherModulus",
                kResidues,
                changed("wgmma-modulus"_marker, "/ int(args.moduli.parts)", "/ 2"),
                {kWrong}},
        Planted{"AUnitThatIsTooSmall",
                kResidues,
                changed("residues-unit"_marker, "0x7fffffu", "0u"),
                {kWrong}},
        Planted{"TheLargestIsForgotten", kResidues, removed("residues-largest"_marker), {kWrong}},
        Planted{"TinyNumbersCountAsZeros", kResidues, removed("residues-tiny"_marker), {kWrong}},
        Planted{"RowsOfTinyNumbersAreHeld",
                kResidues,
                changed("residues-held"_marker, "exponent >= -400", "true"),
                {kWrong}},
        Planted{"LanesDoNotJoin", kResidues, removed("residues-join"_marker), {kNative}},
        Planted{"WarpsDoNotWait", kResidues, removed("residues-barrier"_marker), {kNative}},
        Planted{"TheChoiceDoesNotBegin", kResidues, removed("residues-begin"_marker), {"1 wrong"}},
        Planted{"MagnitudesRoundedUp",
                kResidues,
                changed("residues-magnitude"_marker, "int(x < 0 ? -x : x)",
                        "int((x < 0 ? -x : x) + 0.999)"),
                {kWrong}},
        Planted{"CoarseIntegers",
                kResidues,
                changed("residues-round"_marker, "values[e] * scale)",
                        "values[e] * scale * 0x1p-12) * 4096"),
                {kWrong}},
        Planted{"WordsPastTheRow",
                kResidues,
                replaced("residues-row-end"_marker,
                         "*reinterpret_cast<unsigned*>(to + w * APART) = words[w];"),
                {kWrong}},
        Planted{"TheScaleOfAnotherRow",
                kTurned,
                changed("residues-scale-of-row"_marker, "x.first + row", "0"),
                {kWrong}},
        Planted{"ABoundThatIsTooSmall",
                kResidues,
                changed("residues-rounded"_marker, "0.5f *", "0.00005f *"),
                {kWrong}},
        Planted{"ALowerBoundThatIsTooLarge",
                kResidues,
                changed("residues-lower-bound"_marker, "float(some[e])", "1000 * float(some[e])"),
                {kWrong}},
        Planted{"ACertificateOfTheOpposite",
                kResidues,
                changed("residues-within"_marker, "!within", "within"),
                {kWrong}},
        Planted{"ResiduesOfOneModulus",
                kResidues,
                changed("residues-of-modulus"_marker, "+ Int64(l)", "+ Int64(0 * l)"),
                {kWrong}},
        Planted{"LowPartsAreForgotten",
                kResidues,
                changed("residues-integer"_marker, ", low[d][e])", ", 0.0)"),
                {kWrong}},
        Planted{"HalvesWithoutTheRest",
                kHalves,
                changed("halves-rest"_marker, "x - Half::widen(high[e])", "0.0f"),
                {kWrong}},
        Planted{"TheRestIsNotStored", kTurnedHalves, removed("halves-low"_marker), {kWrong}},
        Planted{"NoSteps",
                kHalves,
                changed("halves-sample"_marker, "step / SAMPLED * args.sampled_of", "args.k"),
                {kNative}},
        Planted{"HalvesInTheOtherCase",
                kHalves,
                changed("halves-native"_marker, "? 0 : 1", "? 1 : 0"),
                {kWrong}},
        Planted{"AnErrorOfHalvesThatIsTooLarge",
                kHalves,
                changed("halves-rounded"_marker, "0.5f *", "500000.0f *"),
                {kNative}},
        Planted{"HalvesWithoutACertificate",
                kHalves,
                changed("halves-within"_marker, "kMost + 1", "kLeast"),
                {kWrong}},
        Planted{"ColumnsAreNotScaledBack",
                kTurned,
                changed("residues-scaled-back"_marker, "of_row + of_column", "of_row"),
                {kWrong}}),
    [](const auto& of) { return of.param.name; });

}  // namespace
}  // namespace tilewise::test::planted_emulated_test
