// How results of epilogues are judged: bounds by interval arithmetic, and mistakes that they show.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <vector>

#include "tilewise/number.hpp"
#include "tuner/reference/epilogue_bounds.hpp"
#include "tuner/reference/generate.hpp"
#include "tuner/reference/reference.hpp"

namespace tilewise::epilogue_judge_test {
namespace {

using testing::HasSubstr;

template <class T>
bool holds(const Bounds<T>& bounds, T value) {
  return value != value ? bounds.nan : bounds.low <= value && value <= bounds.high;
}

/// A random epilogue of operators and functions, on acc and two numbers.
std::string expression(std::mt19937& random, int depth) {
  const auto below = [&](unsigned count) { return random() % count; };
  if (depth == 0) {
    const char* const leaves[] = {"acc", "x", "y", "0.7", "-2", "0"};
    return leaves[below(std::size(leaves))];
  }
  const std::string x = expression(random, depth - 1), y = expression(random, depth - 1);
  const char* const functions[] = {"abs", "sqrt",    "rsqrt", "exp",  "log",  "tanh",
                                   "erf", "sigmoid", "silu",  "relu", "gelu", "gelu_tanh"};
  const char* const comparisons[] = {" < ", " <= ", " == ", " != "};
  const char* const operators[] = {" + ", " - ", " * ", " / "};
  switch (below(8)) {
    case 0:
      return (below(2) ? "min(" : "max(") + x + ", " + y + ")";
    case 1:
      return "where(" + x + comparisons[below(4)] + y + ", " + y + ", " + x + ")";
    case 2:
    case 3:
      return std::string(functions[below(std::size(functions))]) + "(" + x + ")";
    default:
      return "(" + x + operators[below(4)] + y + ")";
  }
}

template <class T>
T drawn(std::mt19937& random) {
  const T special[] = {
      T(0),  T(1), T(-1), std::numeric_limits<T>::infinity(), -std::numeric_limits<T>::infinity(),
      T(NAN)};
  if (random() % 8 == 0) return special[random() % std::size(special)];
  return std::ldexp(T(static_cast<std::int32_t>(random())), int(random() % 16) - 36);
}

template <class T>
void check_bounds_hold() {
  std::mt19937 random(5);
  for (int n = 0; n < 3000; ++n) {
    const std::string text = expression(random, 1 + n % 4);
    const NamedEpilogue named = parse_epilogue(text);
    EpilogueBounds<T> bounds(named.form);
    const T acc = drawn<T>(random), width = std::abs(drawn<T>(random)) / 1024;
    std::vector<T> values(named.names.size());
    for (T& value : values) value = drawn<T>(random);
    bounds.evaluate(Bounds<T>::of(acc), values);
    EXPECT_TRUE(holds(bounds.c(), evaluate(named.form, acc, values))) << text << " of " << acc;
    if (!std::isfinite(acc) || !std::isfinite(width)) continue;
    bounds.evaluate({acc - width, acc + width, false}, values);
    for (int i = -4; i <= 4; ++i) {
      const T inside = acc + width * T(i) / 4;
      EXPECT_TRUE(holds(bounds.c(), evaluate(named.form, inside, values)))
          << text << " of " << inside << " in " << acc - width << " to " << acc + width;
    }
    if (testing::Test::HasFailure()) return;
  }
}
TEST(EpilogueBounds, HoldWhatTheArithmeticGivesInF32) { check_bounds_hold<float>(); }
TEST(EpilogueBounds, HoldWhatTheArithmeticGivesInF64) { check_bounds_hold<double>(); }

TEST(EpilogueBounds, OfOperatorsAreExact) {
  const EpilogueForm form = parse_epilogue("relu(acc * x + y) / 3 - sqrt(x)").form;
  EpilogueBounds<float> bounds(form);
  const std::vector<float> values{0.1F, 7};
  bounds.evaluate(Bounds<float>::of(1.7F), values);
  EXPECT_EQ(bounds.c().low, evaluate(form, 1.7F, values));
  EXPECT_EQ(bounds.c().high, bounds.c().low);
}

TEST(EpilogueBounds, KnowWhereBothBranchesArePossible) {
  const EpilogueForm form = parse_epilogue("where(acc < 1, -5, 5)").form;
  EpilogueBounds<float> bounds(form);
  const auto of = [&](float low, float high) {
    bounds.evaluate({low, high, false}, {});
    return std::pair(bounds.c().low, bounds.c().high);
  };
  EXPECT_EQ(of(0, 0.5F), std::pair(-5.0F, -5.0F));
  EXPECT_EQ(of(0, 1), std::pair(-5.0F, 5.0F));
  EXPECT_EQ(of(1, 2), std::pair(5.0F, 5.0F));
}

/// A product's results, computed here from the test data.
struct Computed {
  Computed(const Problem& p, DataSet set_, int index)
      : problem(p),
        set(set_),
        reference(Reference::compute(p, 3)),
        scalars(reference.scalars(set, index)) {}

  std::vector<double> numbers(const TestData& data) const {
    std::vector<double> all(static_cast<std::size_t>(data.rows() * data.columns()));
    data.values(0, data.rows() * data.columns(), all.data());
    return all;
  }
  struct Element {
    std::int64_t product, row, column;
    double acc;
    std::vector<double> values;  // of operands that are read, by slot
  };
  /// C and what is written, by slot, and C last; wrong: changes an element before its epilogue.
  std::vector<std::vector<double>> results(const std::function<void(Element&)>& wrong = {}) const {
    const EpilogueForm& form = *problem.epilogue;
    const std::int64_t m = problem.m, n = problem.n, k = problem.k;
    const std::vector<double> a = numbers(reference.data(set, DataOf::a)),
                              b = numbers(reference.data(set, DataOf::b)),
                              c0 = numbers(reference.data(set, DataOf::c0));
    std::vector<std::vector<double>> operands, all(form.operands.size() + 1);
    for (std::size_t slot = 0; slot < form.operands.size(); ++slot)
      operands.push_back(numbers(reference.operand_data(slot)));
    for (std::size_t slot = 0; slot <= form.operands.size(); ++slot) {
      const bool sums =
          slot < form.operands.size() && form.operands[slot].use == EpilogueUse::summed;
      all[slot].resize(static_cast<std::size_t>(problem.batch * (sums ? 1 : m) * n));
    }
    for (std::int64_t product = 0; product < problem.batch; ++product)
      for (std::int64_t i = 0; i < m; ++i)
        for (std::int64_t j = 0; j < n; ++j) {
          double sum = 0;
          for (std::int64_t q = 0; q < k; ++q)
            sum += a[static_cast<std::size_t>((product * m + i) * k + q)] *
                   b[static_cast<std::size_t>((product * k + q) * n + j)];
          const std::int64_t place = (product * m + i) * n + j;
          Element element{product,
                          i,
                          j,
                          scalars.alpha * sum + scalars.beta * c0[static_cast<std::size_t>(place)],
                          {}};
          for (std::size_t slot = 0; slot < operands.size(); ++slot)
            element.values.push_back(operands[slot][static_cast<std::size_t>(
                index_of(form.operands[slot].over, product, i, j))]);
          if (wrong) wrong(element);
          std::vector<float> values(element.values.begin(), element.values.end()), written;
          all.back()[static_cast<std::size_t>(place)] = static_cast<double>(
              evaluate(form, static_cast<float>(element.acc), values, &written));
          for (std::size_t slot = 0; slot < operands.size(); ++slot) {
            if (form.operands[slot].use == EpilogueUse::written)
              all[slot][static_cast<std::size_t>(place)] = static_cast<double>(written[slot]);
            if (form.operands[slot].use == EpilogueUse::summed)
              all[slot][static_cast<std::size_t>(product * n + j)] +=
                  static_cast<double>(written[slot]);
          }
        }
    return all;
  }
  std::int64_t index_of(EpilogueOver over, std::int64_t product, std::int64_t i,
                        std::int64_t j) const {
    switch (over) {
      case EpilogueOver::all:
        return product;
      case EpilogueOver::rows:
        return product * problem.m + i;
      case EpilogueOver::columns:
        return product * problem.n + j;
      default:
        return (product * problem.m + i) * problem.n + j;
    }
  }
  /// Judges C, or an operand.
  Comparison judged(const std::vector<std::vector<double>>& all, std::optional<std::size_t> slot,
                    const Reference* by = nullptr) const {
    const DType type =
        slot ? type_of(problem.epilogue->operands[*slot], problem.c.type) : problem.c.type;
    const std::vector<double>& values = slot ? all[*slot] : all.back();
    std::vector<std::byte> stored(values.size() * static_cast<std::size_t>(bytes_of(type)));
    for (std::size_t i = 0; i < values.size(); ++i)
      from_double(type, values[i], stored.data() + i * static_cast<std::size_t>(bytes_of(type)));
    ResultCheck check(by ? *by : reference, set, scalars, slot);
    check.rows(0, static_cast<std::int64_t>(values.size()) / problem.n, stored.data(), problem.n);
    return check.finish();
  }

  Problem problem;
  DataSet set;
  Reference reference;
  Scalars scalars;
};

constexpr const char* kText =
    "x = acc * s + bias[j]; aux[i,j] = x; g:f32[j] = sum(x); gelu(x) + r[i,j] * t[i]";

Problem asked(DType operand, DType c, std::int64_t batch = 1, const char* text = kText) {
  Problem problem = typed_problem(Layout::nn, 9, 14, 40, operand, c, MathMode::strict, batch);
  set_epilogue(problem, Epilogue(text));
  return problem;
}

TEST(EpilogueJudge, AcceptsRightResults) {
  for (const auto& [operand, c] : {std::pair(DType::f32, DType::f32),
                                   {DType::bf16, DType::bf16},
                                   {DType::f16, DType::f32},
                                   {DType::i8, DType::i32}})
    for (const DataSet set : {DataSet::exact, DataSet::bounded})
      for (const int index : {0, 1}) {
        const Computed right(asked(operand, c, 2), set, index);
        const auto all = right.results();
        const Comparison of_c = right.judged(all, {});
        EXPECT_TRUE(of_c.ok) << of_c.worst << " " << to_string(right.problem);
        for (std::size_t slot = 0; slot + 1 < all.size(); ++slot) {
          if (right.problem.epilogue->operands[slot].use == EpilogueUse::read) continue;
          const Comparison of_slot = right.judged(all, slot);
          EXPECT_TRUE(of_slot.ok) << of_slot.worst;
        }
      }
}

/// Whether mistakes are found in C, in aux and in the sums.
struct Found {
  bool c, aux, sums;
  bool operator==(const Found&) const = default;
};
Found found(const std::function<void(const Epilogue&, Computed::Element&)>& wrong,
            DType type = DType::bf16) {
  const Epilogue named(kText);
  const Computed computed(asked(type, type), DataSet::bounded, 1);
  const auto all = computed.results([&](Computed::Element& element) { wrong(named, element); });
  return {!computed.judged(all, {}).ok, !computed.judged(all, named.slot("aux")).ok,
          !computed.judged(all, named.slot("g")).ok};
}

TEST(EpilogueJudge, FindsMistakes) {
  const Computed data(asked(DType::bf16, DType::bf16), DataSet::bounded, 1);
  const Epilogue named(kText);
  const auto operand = [&](const char* name, std::int64_t index) {
    return data.numbers(
        data.reference.operand_data(named.slot(name)))[static_cast<std::size_t>(index)];
  };
  const auto set = [&](Computed::Element& x, const char* name, std::int64_t index) {
    x.values[named.slot(name)] = operand(name, index);
  };
  EXPECT_EQ(found([](const Epilogue&, Computed::Element&) {}), (Found{false, false, false}));
  // The bias of the row, and of the next column at the edge.
  EXPECT_EQ(found([&](const Epilogue&, Computed::Element& x) { set(x, "bias", x.row); }),
            (Found{true, true, true}));
  EXPECT_EQ(found([&](const Epilogue&, Computed::Element& x) {
              if (x.column == 13) set(x, "bias", 12);
            }),
            (Found{true, true, true}));
  EXPECT_EQ(found([&](const Epilogue&, Computed::Element& x) {
              if (x.column == 13 && x.row == 8) set(x, "r", 0);
            }),
            (Found{true, false, false}));
  EXPECT_EQ(found([&](const Epilogue&, Computed::Element& x) { x.acc *= 1.02; }).c, true);
}

// The results of another arithmetic: the activation before the bias, and aux after the activation.
TEST(EpilogueJudge, FindsAnotherOrder) {
  const auto is_wrong = [](const char* right, const char* computed, const char* name) {
    const Computed judge(asked(DType::f16, DType::f16, 1, right), DataSet::bounded, 0);
    const Computed other(asked(DType::f16, DType::f16, 1, computed), DataSet::bounded, 0);
    std::optional<std::size_t> slot;
    if (name) slot = Epilogue(right).slot(name);
    return !judge.judged(other.results(), slot).ok;
  };
  EXPECT_FALSE(is_wrong("relu(acc + b[j])", "relu(acc + b[j])", nullptr));
  EXPECT_TRUE(is_wrong("relu(acc + b[j])", "b[j] + relu(acc)", nullptr));
  const char* const before = "u[i,j] = acc + b[j]; relu(acc + b[j])";
  const char* const after = "x = relu(acc + b[j]); u[i,j] = x; x";
  EXPECT_FALSE(is_wrong(before, before, "u"));
  EXPECT_TRUE(is_wrong(before, after, "u"));
}

TEST(EpilogueJudge, NamesWhatIsWrong) {
  const Epilogue named(kText);
  const Computed right(asked(DType::f32, DType::f32), DataSet::exact, 0);
  auto all = right.results();
  all.back()[14 * 3 + 5] = 1e6;
  EXPECT_THAT(right.judged(all, {}).worst, HasSubstr("C[3][5] = 1000000 instead of"));
  all.back()[14 * 3 + 5] = NAN;
  EXPECT_FALSE(right.judged(all, {}).ok);
  all[named.slot("g")][7] += 1000;
  EXPECT_THAT(right.judged(all, named.slot("g")).worst,
              HasSubstr("p" + std::to_string(named.slot("g")) + "[7] = "));
}

TEST(EpilogueJudge, KnowsWhereNanBelongs) {
  Problem problem = asked(DType::f32, DType::f32, 1, "sqrt(acc)");
  const Computed right(problem, DataSet::exact, 0);
  auto all = right.results();
  EXPECT_TRUE(right.judged(all, {}).ok) << "a root of numbers below 0";
  for (double& value : all.back())
    if (std::isnan(value)) {
      value = 0;
      break;
    }
  EXPECT_FALSE(right.judged(all, {}).ok);
  // In integers NaN is 0.
  problem = asked(DType::i8, DType::i32, 1, "sqrt(acc)");
  const Computed integers(problem, DataSet::exact, 0);
  all = integers.results();
  EXPECT_TRUE(integers.judged(all, {}).ok);
}

// A sampled reference finds what lies in its samples: edges of tiles and corners among them.
TEST(EpilogueJudge, OfSamplesLooksAtThem) {
  const Computed right(asked(DType::f32, DType::f32), DataSet::bounded, 1);
  const Reference sampled = Reference::compute(right.problem, 3, 0, {0, 0});
  ASSERT_TRUE(sampled.sampled());
  const Epilogue named(kText);
  auto all = right.results();
  EXPECT_TRUE(right.judged(all, {}, &sampled).ok);
  EXPECT_TRUE(right.judged(all, named.slot("aux"), &sampled).ok);
  EXPECT_TRUE(right.judged(all, named.slot("g"), &sampled).ok);
  all.back().back() += 1;
  all[named.slot("g")].back() += 1;
  EXPECT_FALSE(right.judged(all, {}, &sampled).ok);
  EXPECT_FALSE(right.judged(all, named.slot("g"), &sampled).ok);
}

// Of a batch too, each product's sums are compared.
TEST(EpilogueJudge, OfASampledBatchLooksAtTheSumsOfEachProduct) {
  const Computed right(asked(DType::f32, DType::f32, 3), DataSet::bounded, 1);
  const Reference sampled = Reference::compute(right.problem, 3, 0, {0, 0});
  ASSERT_TRUE(sampled.sampled());
  const std::size_t sums = Epilogue(kText).slot("g");
  for (std::size_t product = 0; product < 3; ++product) {
    auto all = right.results();
    EXPECT_TRUE(right.judged(all, sums, &sampled).ok);
    all[sums][product * 14 + 13] += 1;  // the last column is a sample
    EXPECT_FALSE(right.judged(all, sums, &sampled).ok) << product;
  }
}

}  // namespace
}  // namespace tilewise::epilogue_judge_test
