// The choice for a problem that was not tuned takes the call's own packing into account.
#include <random>

#include "matmul/prediction.hpp"
#include "matmul_fixture.hpp"
#include "resolver_parts.hpp"
#include "templates/space/search_space.hpp"

namespace tilewise::packed_choice_test {
namespace {

using resolver_parts::device;
using resolver_parts::modelled;
using resolver_parts::winner_by_model;

Problem rows(std::int64_t m) { return resolver_parts::problem_of(m, 4095, 4096, Layout::nn); }

/// A simt candidate that packs B, or neither operand, and serves other sizes.
Candidate simt(int pack_b) {
  const KernelTemplate& kernel = find_template("simt");
  const SearchSpace space(
      rows(512), device(), {&kernel},
      {{"PACK_A", {0}}, {"PACK_B", {pack_b}}, {"SPLIT_K", {1}}, {kernel.specialises, {0}}});
  std::mt19937_64 generator(3);
  return space.random(generator).value();
}

GivenPackings packing_of(const Candidate& candidate, const Problem& problem) {
  GivenPackings given;
  for (const LaunchStep& step : plan_of(candidate, problem, device()).steps)
    for (const Packing& packing : step.packs)
      if (packing.role == StepRole::pack_b) given.b = packing;
  return given;
}

/// Two winners for 512 rows. For 520 rows the one that packs is expected to be slower with its
/// packing, and faster without it.
struct Winners {
  Candidate packs = simt(1), reads = simt(0);
  Problem tuned = rows(512), asked = rows(520);
  GivenPackings given = packing_of(packs, asked);
  Winner packing = winner_by_model(1, tuned, packs);
  Winner reading;
  Winners() {
    const double with = modelled(packs, asked);
    const double without = cost_of(packs, asked, device(), given).seconds * 1e6;
    EXPECT_LT(without, with);
    reading = winner_by_model(2, tuned, reads, (with + without) / 2 / modelled(reads, asked));
  }
};

TEST(PackedChoice, ThePackThatIsGivenIsNotCounted) {
  const Winners winners;
  ASSERT_TRUE(winners.given.b);
  const Resolver resolver({winners.packing, winners.reading}, device());
  EXPECT_EQ(resolver.resolve(winners.asked).record->id, 2);
  const Resolution given = resolver.resolve(winners.asked, {.given = winners.given});
  EXPECT_EQ(given.record->id, 1);
  EXPECT_LT(given.predicted_us, modelled(winners.packs, winners.asked));
  GivenPackings other = winners.given;
  other.b->ld += 32;
  EXPECT_EQ(resolver.resolve(winners.asked, {.given = other}).record->id, 2) << "another form of B";
}

TEST(PackedChoice, AnExactWinnerServesAllTheSame) {
  const Winners winners;
  Winner exact = winners.reading;
  exact.record.problem = winners.asked;
  exact.record.id = 3;
  const Resolver resolver({winners.packing, exact}, device());
  EXPECT_EQ(resolver.resolve(winners.asked, {.given = winners.given}).record->id, 3);
}

TEST(PackedChoice, KeysDifferByPackings) {
  const Packing one = *packing_of(simt(1), rows(512)).b;
  Packing other = one;
  other.rows += 1;
  EXPECT_NE(key_of(one), 0U);
  EXPECT_NE(key_of(one), key_of(other));
  EXPECT_EQ(key_of(one), key_of(*packing_of(simt(1), rows(520)).b))
      << "B's form does not depend on m";
}

class PackedChoiceMatmul : public MatmulTest {
 protected:
  PackedChoiceMatmul() {
    device->facts = resolver_parts::device();
    device->on_launch = [this](const KernelSpec& kernel, const LaunchShape&, const void*, Stream) {
      ++(kernel.source == "pack.cu" ? packs : multiplies);
    };
    Database database = Database::in_memory();
    // The records are of two problems, so both are winners.
    for (const Winner& winner : {winner_by_model(1, rows(513), winners.packs), winners.reading}) {
      Record record = winner.record;
      record.id = 0;
      database.set_winner(database.add(record));
    }
    parts.database = std::move(database);
    call.a = reinterpret_cast<const void*>(0x100000000);
    call.b = reinterpret_cast<const void*>(0x200000000);
    call.c = reinterpret_cast<void*>(0x300000000);
    call.lda = 4096, call.ldb = call.ldc = 4095;
  }
  Winners winners;
  Call call;
  int packs = 0, multiplies = 0;
};

TEST_F(PackedChoiceMatmul, APackedOperandIsUsedWhereItPays) {
  Matmul multiply = make_matmul(std::move(parts));
  const PackedOperand b = multiply.pack_b(rows(513), call.b, 4095);
  ASSERT_GT(b.bytes(), 0);
  packs = 0;
  for (int i = 0; i < 3; ++i) multiply(winners.asked, call);
  Call packed = call;
  packed.packed_b = &b;
  for (int i = 0; i < 3; ++i) multiply(winners.asked, packed);
  EXPECT_EQ(packs, 0) << "neither packs: one reads B, one has it packed";
  EXPECT_EQ(multiplies, 6);
  EXPECT_EQ(device->loaded.size(), 3U) << "the pack and two multiply kernels";
}

TEST_F(PackedChoiceMatmul, APreparedProblemKeepsItsChoice) {
  Matmul multiply = make_matmul(std::move(parts));
  const PackedOperand b = multiply.pack_b(rows(513), call.b, 4095);
  multiply.prepare_range(winners.asked, winners.asked.m);
  const int loads = device->loads;
  Call packed = call;
  packed.packed_b = &b;
  multiply(winners.asked, packed);
  EXPECT_EQ(device->loads, loads);
}

TEST_F(PackedChoiceMatmul, InACaptureWhatIsLoadedServes) {
  Matmul multiply = make_matmul(std::move(parts));
  multiply.prepare(winners.asked);
  const PackedOperand b = multiply.pack_b(rows(513), call.b, 4095);
  Call packed = call;
  packed.packed_b = &b;
  packed.stream = device->create_stream();
  device->captured.insert(packed.stream);
  multiply(winners.asked, packed);
  EXPECT_EQ(multiplies, 1);
}

}  // namespace
}  // namespace tilewise::packed_choice_test
