// Products with epilogues on the CPU executor: what is served, what is stored and what is refused.
#include <fstream>
#include <iterator>

#include "db/database.hpp"
#include "matmul/check_call.hpp"
#include "matmul/request.hpp"
#include "tests/matmul/epilogue_checks.hpp"
#include "tilewise/matmul.h"
#include "vocabulary/record.hpp"

namespace tilewise::epilogue_host_test {
namespace {

using testing::HasSubstr;

struct EpiloguesOnTheCpu : test::EpiloguesServed {
  EpiloguesOnTheCpu() : EpiloguesServed("host") {}
};
TEST_F(EpiloguesOnTheCpu, EveryKind) { check_every_kind(2); }
TEST_F(EpiloguesOnTheCpu, Batches) { check_batches(); }
TEST_F(EpiloguesOnTheCpu, ScalesOfBlocks) { check_scales(); }
TEST_F(EpiloguesOnTheCpu, WithoutSums) { check_empty(); }

struct HopperEpiloguesOnTheCpu : test::EpiloguesServed {
  HopperEpiloguesOnTheCpu() : EpiloguesServed("host:sm_90a") {}
};
TEST_F(HopperEpiloguesOnTheCpu, EveryKind) { check_every_kind(2); }
TEST_F(HopperEpiloguesOnTheCpu, ScalesOfBlocks) { check_scales(); }

// What no kernel scales is refused, and so are scales that are too few.
TEST_F(EpiloguesOnTheCpu, WrongScalesAreRefused) {
  Matmul matmul(options);
  const std::vector<float> scales(64, 1);
  std::vector<std::uint8_t> a(16 * 300), b(300 * 16);
  std::vector<float> c(16 * 16);
  const auto refusal = [&](Problem problem, std::int64_t ld, const void* data) {
    set_epilogue(problem, Epilogue("acc(s[i,k/128])"));
    const EpilogueOperand operand{data, ld, 0, 0};
    Call call;
    call.a = a.data(), call.b = b.data(), call.c = c.data();
    call.lda = 300, call.ldb = call.ldc = 16;
    call.operands = {&operand, 1};
    try {
      matmul(problem, call);
      return std::string();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
      return std::string(error.what());
    }
  };
  const Problem right =
      typed_problem(Layout::nn, 16, 16, 300, DType::e4m3, DType::f32, MathMode::strict);
  EXPECT_EQ(refusal(right, 3, scales.data()), "");
  EXPECT_THAT(refusal(right, 2, scales.data()), HasSubstr("is 2, shorter than a row of 3"));
  EXPECT_THAT(refusal(right, 3, nullptr), HasSubstr("null"));
  // C as scales: its elements are written while other blocks read them.
  Problem square = right;
  square.n = 3;
  EXPECT_THAT(refusal(square, 16, c.data()), HasSubstr("overlaps C"));
  EXPECT_THAT(refusal(typed_problem<float, float>(Layout::nn, 16, 16, 300), 3, scales.data()),
              HasSubstr("strict products of e4m3 or e5m2"));
  EXPECT_THAT(
      refusal(typed_problem(Layout::nn, 16, 16, 300, DType::e4m3, DType::f32, MathMode::fast), 3,
              scales.data()),
      HasSubstr("by fast"));
}

// C itself may be read: each element before it is written.
TEST_F(EpiloguesOnTheCpu, ResidualsMayBeReplaced) {
  Matmul matmul(options);
  const float a[] = {1, 2}, b[] = {3, 4};
  float c[] = {10, 20, 30, 40};
  Problem problem = typed_problem<float, float>(Layout::nn, 2, 2, 1);
  set_epilogue(problem, Epilogue("acc + residual[i,j]"));
  const EpilogueOperand residual{c, 2, 0, 0};
  Call call;
  call.a = a, call.b = b, call.c = c;
  call.lda = 1, call.ldb = call.ldc = 2;
  call.operands = {&residual, 1};
  matmul(problem, call);
  device->synchronize(nullptr);
  EXPECT_THAT(c, testing::ElementsAre(13, 24, 36, 48));
}

// A record serves its own epilogue exactly, and predicts for others.
TEST_F(EpiloguesOnTheCpu, AreServedByTheirOwnRecords) {
  const Problem bare = typed_problem<float, float>(Layout::nn, 24, 24, 24);
  Problem relu = bare, other = bare;
  set_epilogue(relu, Epilogue("relu(acc + b[j])"));
  set_epilogue(other, Epilogue("acc * s"));
  {
    Database database = Database::open(options.database, OpenMode::read_write);
    double us = 10;
    for (const auto& [problem, name] : {std::pair(bare, "tiled"), std::pair(relu, "naive")}) {
      Record record;
      record.problem = problem;
      const KernelTemplate& kernel = find_template(name);
      record.candidate = {name, kernel.default_configuration(problem, device->info())};
      record.gpu = gpu_key(device->info());
      record.launch_revision = launch_revision(kernel);
      record.measurement.emplace();
      record.measurement->median_us = us;
      us *= 2;
      database.set_winner(database.add(record));
    }
  }
  Matmul matmul(options);
  EXPECT_EQ(matmul.explain(bare).kernel_template, "tiled");
  EXPECT_EQ(matmul.explain(relu).kernel_template, "naive");
  EXPECT_EQ(matmul.explain(relu).kind, MatchKind::exact);
  EXPECT_EQ(matmul.explain(other).kind, MatchKind::predicted);
  check(matmul, bare, "relu(acc + bias[j])");
  check(matmul, bare, "acc * s");
}

TEST_F(EpiloguesOnTheCpu, HostPointersAreRefused) {
  Matmul matmul(options);
  Problem problem = typed_problem<float, float>(Layout::nn, 1, 1, 1);
  set_epilogue(problem, Epilogue("relu(acc)"));
  const float x = 1;
  float c = 0;
  Call call;
  call.a = call.b = &x, call.c = &c;
  call.lda = call.ldb = call.ldc = 1;
  EXPECT_THAT([&] { matmul.host(problem, call); },
              testing::ThrowsMessage<Error>(HasSubstr("takes no epilogue")));
  EXPECT_THAT([&] { matmul.host_split(problem); },
              testing::ThrowsMessage<Error>(HasSubstr("takes no epilogue")));
}

// The recipes of docs/epilogues.md.
TEST_F(EpiloguesOnTheCpu, RecipesOfThePage) {
  std::ifstream page(TILEWISE_SOURCE_DIR "/docs/epilogues.md");
  const std::string text{std::istreambuf_iterator<char>(page), {}};
  const std::string begin = "```epilogue\n";
  Matmul matmul(options);
  int recipes = 0;
  for (std::size_t at = text.find(begin); at != text.npos; at = text.find(begin, at)) {
    at += begin.size();
    const std::string recipe = text.substr(at, text.find("```", at) - at);
    const EpilogueForm& form = *Epilogue(recipe).form();
    const bool scales = has_scales(form);
    // Other blocks of k than 128 are those of narrow weights.
    const bool narrow = scales && form.operands.at(0).steps != kScaledSteps;
    const Problem problem =
        narrow
            ? typed_problem(Layout::nt, 19, 23, 6, DType::f16, DType::i8, DType::f16)
            : typed_problem(Layout::nt, 19, 23, 6, scales ? DType::e4m3 : DType::f32, DType::f32);
    tolerance_ = narrow ? 1e-3 : 1e-5;
    check(matmul, problem, recipe);
    if (HasFatalFailure()) return;
    ++recipes;
  }
  EXPECT_GE(recipes, 10);
}

TEST_F(EpiloguesOnTheCpu, InC) {
  tilewise_options of_c = TILEWISE_OPTIONS_INIT;
  of_c.device = "host";
  of_c.database = options.database.c_str();
  tilewise_matmul* handle = nullptr;
  ASSERT_EQ(tilewise_create(&of_c, &handle), TILEWISE_OK) << tilewise_last_error();
  tilewise_epilogue* epilogue = nullptr;
  ASSERT_EQ(tilewise_epilogue_create("u[i,j] = acc * s; relu(acc * s + bias[j])", &epilogue),
            TILEWISE_OK);
  ASSERT_EQ(tilewise_epilogue_operands(epilogue), 3);
  EXPECT_EQ(tilewise_epilogue_operands(nullptr), 0);
  const auto slot = [&](const char* name) {
    int found = -1;
    EXPECT_EQ(tilewise_epilogue_slot(epilogue, name, &found), TILEWISE_OK);
    return found;
  };
  int unknown = -1;
  EXPECT_EQ(tilewise_epilogue_slot(epilogue, "scale", &unknown), TILEWISE_NOT_FOUND);
  EXPECT_THAT(tilewise_last_error(), HasSubstr("'scale'"));
  tilewise_problem problem = TILEWISE_PROBLEM_INIT;
  problem.m = problem.n = 2, problem.k = 3;
  problem.epilogue = epilogue;
  const float a[] = {1, 2, 3, 4, 5, 6}, b[] = {1, 0, 0, 1, 1, 1};
  float c[] = {0, 0, 0, 0}, biases[] = {-10, 100}, before[] = {0, 0, 0, 0};
  tilewise_operand operands[3] = {};
  operands[slot("bias")].data = biases;
  operands[slot("u")].data = before, operands[slot("u")].ld = 2;
  operands[slot("s")].value = 2;
  tilewise_call call = TILEWISE_CALL_INIT;
  call.a = a, call.b = b, call.c = c;
  call.lda = 3, call.ldb = call.ldc = 2;
  call.operands = operands, call.operand_count = 3;
  ASSERT_EQ(tilewise_multiply(handle, &problem, &call), TILEWISE_OK) << tilewise_last_error();
  device->synchronize(nullptr);
  EXPECT_THAT(before, testing::ElementsAre(8, 10, 20, 22));
  EXPECT_THAT(c, testing::ElementsAre(0, 110, 10, 122));
  for (const std::int64_t count : {std::int64_t{2}, std::int64_t{9}, std::int64_t{-1}}) {
    call.operand_count = count;
    EXPECT_EQ(tilewise_multiply(handle, &problem, &call), TILEWISE_INVALID_ARGUMENT) << count;
  }
  call.operand_count = 3, call.operands = nullptr;
  EXPECT_EQ(tilewise_multiply(handle, &problem, &call), TILEWISE_INVALID_ARGUMENT);
  EXPECT_THAT(tilewise_last_error(), HasSubstr("operands null"));
  EXPECT_EQ(tilewise_multiply_host(handle, &problem, &call), TILEWISE_INVALID_ARGUMENT);
  tilewise_epilogue* none = epilogue;
  EXPECT_EQ(tilewise_epilogue_create("acc +", &none), TILEWISE_INVALID_ARGUMENT);
  EXPECT_EQ(none, nullptr);
  EXPECT_THAT(tilewise_last_error(), HasSubstr("the end at character 6"));
  tilewise_epilogue_destroy(epilogue);
  tilewise_epilogue_destroy(nullptr);
  tilewise_destroy(handle);
}

/// 4 x 6 = (4 x 8) (8 x 6) with bias[j], residual[i,j], out[i,j] and g[j] = sum. Addresses are not
/// dereferenced.
struct Asked {
  Asked() : problem(typed_problem<float, float>(Layout::nn, 4, 6, 8)) {
    set_epilogue(problem, epilogue);
    operands.resize(4);
    of("bias") = {at(0x40000), 0, 0, 0};
    of("residual") = {at(0x50000), 6, 0, 0};
    of("out") = {at(0x60000), 6, 0, 0};
    of("g") = {at(0x70000), 0, 0, 0};
    call.a = at(0x10000), call.b = at(0x20000), call.c = at(0x30000);
    call.lda = 8, call.ldb = call.ldc = 6;
  }
  static void* at(std::uint64_t address) { return reinterpret_cast<void*>(address); }
  EpilogueOperand& of(std::string_view name) { return operands[epilogue.slot(name)]; }
  std::string refusal() {
    call.operands = operands;
    try {
      check_call(problem, call);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
      return error.what();
    }
    return "";
  }
  Epilogue epilogue{"x = acc + bias[j]; out[i,j] = x; g[j] = sum(x); x + residual[i,j]"};
  Problem problem;
  std::vector<EpilogueOperand> operands;
  Call call;
};

TEST(EpilogueOperands, AreChecked) {
  EXPECT_EQ(Asked().refusal(), "");
  const auto refused = [](const std::function<void(Asked&)>& change) {
    Asked asked;
    change(asked);
    return asked.refusal();
  };
  EXPECT_THAT(refused([](Asked& x) { x.operands.pop_back(); }), HasSubstr("binds 3 operands"));
  EXPECT_THAT(refused([](Asked& x) { x.problem.epilogue = nullptr; }), HasSubstr("no epilogue"));
  EXPECT_THAT(refused([](Asked& x) { x.of("bias").data = nullptr; }), HasSubstr("null pointer"));
  EXPECT_THAT(refused([](Asked& x) { x.of("bias").data = Asked::at(0x40002); }),
              HasSubstr("4-byte elements"));
  EXPECT_THAT(refused([](Asked& x) { x.of("out").ld = 5; }), HasSubstr("leading dimension"));
  EXPECT_THAT(refused([](Asked& x) { x.of("out").data = x.call.c; }), HasSubstr("overlaps C"));
  EXPECT_THAT(refused([](Asked& x) { x.of("out").data = x.call.a; }), HasSubstr("overlaps A"));
  EXPECT_THAT(refused([](Asked& x) { x.of("g").data = x.of("bias").data; }),
              HasSubstr("one of them is written"));
  EXPECT_EQ(refused([](Asked& x) { x.of("residual").data = x.call.c; }), "") << "C itself";
  EXPECT_THAT(refused([](Asked& x) { x.of("residual").data = Asked::at(0x30004); }),
              HasSubstr("overlaps C"));
  EXPECT_THAT(refused([](Asked& x) { x.of("bias").data = Asked::at(0x30004); }),
              HasSubstr("overlaps C"));
  const auto batch = [](Asked& x) {
    x.problem.batch = 2;
    x.call.stride_a = 32, x.call.stride_b = 48, x.call.stride_c = 24;
    x.of("out").stride = 24, x.of("g").stride = 6;
  };
  EXPECT_EQ(refused(batch), "");
  EXPECT_THAT(refused([&](Asked& x) { batch(x), x.of("g").stride = 0; }), HasSubstr("overlaps"));
  EXPECT_THAT(refused([&](Asked& x) { batch(x), x.of("bias").stride = -6; }),
              HasSubstr("strides are 0 or more"));
  EXPECT_EQ(refused([](Asked& x) { x.problem.m = 0, x.of("bias").data = nullptr; }), "");
  EXPECT_THAT(refused([](Asked& x) { x.problem.m = 0, x.of("g").data = nullptr; }),
              HasSubstr("null pointer"));
}

// A batch is one product only where each operand follows.
TEST(EpilogueOperands, DecideWhetherABatchIsOneProduct) {
  const auto folds = [](const char* text, bool shared_b, EpilogueOperand operand) {
    Problem problem = typed_problem<float, float>(Layout::nn, 4, 6, 8, MathMode::strict, 3);
    set_epilogue(problem, Epilogue(text));
    Call call;
    call.lda = 8, call.ldb = call.ldc = shared_b ? 6 : 18;
    call.stride_a = shared_b ? 32 : 0, call.stride_b = shared_b ? 0 : 6;
    call.stride_c = shared_b ? 24 : 6;
    call.operands = {&operand, 1};
    return Normalized(problem, call).request.product.has_value();
  };
  const float some = 0;
  EXPECT_TRUE(folds("acc + x[j]", true, {&some, 0, 0, 0}));
  EXPECT_FALSE(folds("acc + x[j]", true, {&some, 0, 6, 0}));
  EXPECT_TRUE(folds("acc + x[i]", true, {&some, 0, 4, 0}));
  EXPECT_FALSE(folds("acc + x[i]", true, {&some, 0, 0, 0}));
  EXPECT_TRUE(folds("acc + x[i,j]", true, {&some, 6, 24, 0}));
  EXPECT_FALSE(folds("acc + x[i,j]", true, {&some, 6, 0, 0}));
  EXPECT_FALSE(folds("x[j] = sum(acc); acc", true, {&some, 0, 6, 0}));
  EXPECT_TRUE(folds("acc * x", true, {nullptr, 0, 1, 2}));
  EXPECT_FALSE(folds("acc * x", true, {&some, 0, 1, 2}));
  EXPECT_TRUE(folds("acc + x[j]", false, {&some, 0, 6, 0}));
  EXPECT_FALSE(folds("acc + x[j]", false, {&some, 0, 0, 0}));
  EXPECT_TRUE(folds("acc + x[i]", false, {&some, 0, 0, 0}));
  EXPECT_FALSE(folds("acc + x[i]", false, {&some, 0, 4, 0}));
  EXPECT_TRUE(folds("acc + x[i,j]", false, {&some, 18, 6, 0}));
  EXPECT_FALSE(folds("acc + x[i,j]", false, {&some, 6, 24, 0}));
  EXPECT_TRUE(folds("x[j] = sum(acc); acc", false, {&some, 0, 6, 0}));
}

}  // namespace
}  // namespace tilewise::epilogue_host_test
