// The order in which every template adds products, on the CPU.
#include "tests/matmul/sum_order_checks.hpp"

namespace tilewise::sum_order_host_test {
namespace {

struct SumOrders : test::SumOrderTest {
  SumOrders() : SumOrderTest("host:sm_90a") {}

  void check_with(const char* name, const Problem& problem, const Configuration& values) {
    const KernelTemplate& kernel = find_template(name);
    Configuration c = kernel.default_configuration(problem, device_->info());
    for (const auto& [parameter, value] : values.values()) c.set(parameter, value);
    ASSERT_EQ(rejection(kernel, problem, c, device_->info()), "");
    const int before = probed_;
    probe(kernel, problem, c);
    EXPECT_EQ(probed_, before + 1);
  }
};

constexpr MathMode kStrict = MathMode::strict;

TEST_F(SumOrders, OfNarrowWeights) {
  Problem problem = typed_problem(Layout::nt, 4096, 256, 512, DType::bf16, DType::i4, DType::bf16);
  const auto order = [&](const char* name) {
    const auto c = default_for(find_template(name), problem, device_->info());
    const auto of = sum_order_of({name, *c}, problem, device_->info());
    return of ? to_string(*of) : "none";
  };
  EXPECT_EQ(order("wgmma"), "tensor16");
  EXPECT_EQ(order("narrow"), "none");  // its steps of k are permuted
  EXPECT_EQ(order("naive"), "fused");
  set_epilogue(problem, Epilogue("acc(s[k/256,j])"));
  EXPECT_EQ(order("wgmma"), "tensor16+promoted128");
  EXPECT_EQ(order("naive"), "fused+promoted256");
  problem.order = interned(parse_sum_order("tensor16+promoted64"));
  EXPECT_EQ(order("wgmma"), "tensor16+promoted64");
  // One chain for all of k, of naive: no tile of wgmma is so deep.
  problem.order = nullptr;
  set_epilogue(problem, Epilogue("acc(s[k/1073741824,j])"));
  EXPECT_EQ(order("naive"), "fused+promoted1073741824");
  problem.order = interned(parse_sum_order("fused+promoted1073741824"));
  EXPECT_FALSE(default_for(find_template("wgmma"), problem, device_->info()));
  EXPECT_EQ(order("naive"), "fused+promoted1073741824");
}
TEST_F(SumOrders, OfNaive) { check("naive", DType::bf16, DType::f32, kStrict, 9, 8, 100, 1); }
TEST_F(SumOrders, OfTiled) { check("tiled", DType::f64, DType::f64, kStrict, 9, 8, 100, 1); }
TEST_F(SumOrders, OfSmall) {
  check("small", DType::f32, DType::f32, kStrict, 12, 8, 48);
  check("small", DType::bf16, DType::f32, kStrict, 12, 8, 48);
}
TEST_F(SumOrders, OfSkinny) {
  check("skinny", DType::f32, DType::f32, kStrict, 3, 40, 700);
  check("skinny", DType::bf16, DType::f32, kStrict, 40, 3, 700);
}
TEST_F(SumOrders, OfSimt) { check("simt", DType::f32, DType::f32, kStrict, 20, 12, 260, 3); }
TEST_F(SumOrders, OfMma) {
  check("mma", DType::bf16, DType::f32, kStrict, 20, 16, 260);
  check("mma", DType::f16, DType::f32, kStrict, 20, 16, 260, 1);
  check("mma", DType::f64, DType::f64, kStrict, 20, 16, 100, 1);
  check("mma", DType::f32, DType::f32, MathMode::tf32, 20, 16, 100, 1);
  check("mma", DType::f32, DType::f32, MathMode::f32x3, 20, 16, 200, 1);
  check("mma", DType::e4m3, DType::f32, kStrict, 20, 16, 300, 1);
}
TEST_F(SumOrders, OfWgmma) {
  check("wgmma", DType::bf16, DType::f32, kStrict, 72, 16, 264, 1);
  check("wgmma", DType::f32, DType::f32, MathMode::tf32, 72, 16, 132, 1);
  check("wgmma", DType::f32, DType::f32, MathMode::f32x3, 72, 16, 132, 1);
  check("wgmma", DType::e5m2, DType::f32, kStrict, 72, 16, 272, 1);
}
// Of rows of random operands, whatever the tiles, the template and the other rows are.
TEST_F(SumOrders, ThatAreEqualGiveEqualBits) {
  compare_bits({{"naive", "tiled", "simt", "skinny"}, DType::f32, DType::f32, kStrict, 24, 20, 150},
               5);
  compare_bits({{"mma", "wgmma"}, DType::bf16, DType::f32, kStrict, 24, 16, 136}, 6);
  compare_bits({{"mma", "naive"}, DType::f64, DType::f64, kStrict, 20, 16, 90}, 3);
  EXPECT_GE(pairs_, 60);
  EXPECT_GE(forms_.size(), 10u);
}
// Weights of fewer bits, and sums of blocks of k that have scales.
TEST_F(SumOrders, OfScaledAndNarrowProducts) {
  const auto compare = [&](std::vector<const char*> templates, DType narrow, const char* epilogue) {
    compare_bits({std::move(templates), DType::bf16, DType::bf16, kStrict, 80, 48, 288, "", narrow,
                  epilogue},
                 6);
  };
  compare({"wgmma"}, DType::i8, "");
  compare({"wgmma"}, DType::i8, "acc(s[k/128,j],z[k/128,j])");
  compare({"wgmma", "naive"}, DType::e4m3, "acc(s[j,k/128])+bias[j]");
  compare_bits({{"wgmma", "naive"},
                DType::e4m3,
                DType::f32,
                kStrict,
                80,
                48,
                288,
                "",
                {},
                "acc(b[j/128,k/128])"},
               6);
  EXPECT_GE(pairs_, 40);
}
// Parts of k in one row of the reduce step and in several, slices, and lanes that share k.
TEST_F(SumOrders, OfPartsAndSlices) {
  const auto of = [](std::int64_t m, std::int64_t n, std::int64_t k) {
    return typed_problem(Layout::nt, m, n, k, DType::f32, DType::f32, kStrict, 1);
  };
  check_with("simt", of(20, 12, 500), {{"SPLIT_K", 3}});
  check_with("simt", of(20, 12, 1000), {{"SPLIT_K", 16}});
  check_with("simt", of(20, 12, 500), {{"SLICE_K", 2}, {"UNROLL", 4}, {"SPLIT_K", 2}});
  check_with("skinny", of(3, 40, 3000), {{"SPLIT_K", 4}, {"WARPS_K", 2}});
  EXPECT_GE(orders_.size(), 4u);
}
// Parts that a block adds itself, and parts of k that blocks share, with a reduce step in one row.
TEST_F(SumOrders, OfPartsThatABlockAdds) {
  Problem problem = typed_problem(Layout::nt, 72, 16, 264, DType::bf16, DType::f32, kStrict, 1);
  problem.order = interned(parse_sum_order("tensor16+parts128"));
  check_with("wgmma", problem, {{"PROMOTE", 3}, {"SPLIT_K", 1}});
  check_with("wgmma", problem, {{"PROMOTE", 0}, {"SPLIT_K", 3}, {"EPILOGUE", 0}, {"VECTOR_C", 1}});
  EXPECT_EQ(orders_, std::set<std::string>{"tensor16+parts128"});
  compare_bits(
      {{"wgmma", "mma"}, DType::bf16, DType::bf16, kStrict, 80, 16, 520, "tensor16+parts128"}, 12);
  EXPECT_GE(pairs_, 100);
  for (const int promote : {0, 3})
    EXPECT_TRUE(std::any_of(
        configurations_.begin(), configurations_.end(),
        [&](const Configuration& c) { return c.find("STREAM_K") && c.at("PROMOTE") == promote; }))
        << promote;
}
// No order of a plan has a part that is not shorter than k.
TEST_F(SumOrders, WithOnePartAreNotInParts) {
  const KernelTemplate& wgmma = find_template("wgmma");
  const DeviceInfo device = nominal_device(parse_target("sm_90a"));
  for (const char* text :
       {"tensor16+parts1024", "tensor16+parts137438953472", "tensor16+parts274877906944"}) {
    Problem problem =
        typed_problem(Layout::nt, 256, 192, 1024, DType::bf16, DType::bf16, kStrict, 1);
    problem.order = interned(parse_sum_order(text));
    EXPECT_FALSE(default_for(wgmma, problem, device)) << text;
  }
}
// A block adds the parts where the tiles occupy the GPU, and blocks share k where they do not.
TEST_F(SumOrders, InPartsByDefault) {
  const KernelTemplate& wgmma = find_template("wgmma");
  const DeviceInfo device = nominal_device(parse_target("sm_90a"));
  for (const std::int64_t m : {1, 8192}) {
    Problem problem =
        typed_problem(Layout::nt, m, 1024, 8192, DType::bf16, DType::bf16, kStrict, 1);
    problem.order = interned(parse_sum_order("tensor16+parts2048"));
    const auto c = default_for(wgmma, problem, device);
    ASSERT_TRUE(c);
    EXPECT_EQ(c->at("SPLIT_K"), m == 1 ? 4 : 1);
    EXPECT_EQ(c->at("PROMOTE"), m == 1 ? 0 : 3);
  }
}
// An order that depends on m or on the GPU is none.
TEST_F(SumOrders, ThatAreNotFixedAreNone) {
  const Problem problem =
      typed_problem(Layout::nt, 64, 64, 256, DType::f32, DType::f32, kStrict, 1);
  const KernelTemplate& simt = find_template("simt");
  Configuration c = simt.default_configuration(problem, device_->info());
  EXPECT_TRUE(simt.sum_order(problem, c, device_->info()));
  for (const char* name : {"SPLIT_K", "STREAM_K"}) {
    Configuration free = c;
    free.set(name, name == std::string("STREAM_K"));
    EXPECT_FALSE(simt.sum_order(problem, free, device_->info())) << name;
  }
}
// What the search varies most does not change the order.
TEST_F(SumOrders, DoNotDependOnTiles) {
  const Problem problem =
      typed_problem(Layout::nt, 256, 256, 512, DType::bf16, DType::bf16, kStrict, 1);
  std::set<std::string> orders;
  for (const char* name : {"mma", "wgmma"}) {
    const KernelTemplate& kernel = find_template(name);
    const SearchSpace space(problem, device_->info(), {&kernel});
    for (int i = 0; i < 20; ++i)
      if (const auto drawn = space.random_of(kernel, random_, 100000)) {
        Configuration c = drawn->configuration;
        if (c.at("SPLIT_K") != 1 || (c.find("STREAM_K") && c.at("STREAM_K") == 1) ||
            (c.find("SLICE_K") && c.at("SLICE_K") != 1) || c.at("PROMOTE") != 0)
          continue;
        const auto order = kernel.sum_order(problem, c, device_->info());
        ASSERT_TRUE(order);
        orders.insert(to_string(*order));
      }
  }
  EXPECT_EQ(orders, std::set<std::string>{"tensor16"});
}

}  // namespace
}  // namespace tilewise::sum_order_host_test
