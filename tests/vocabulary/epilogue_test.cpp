#include "vocabulary/epilogue.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>

#include "tilewise/error.hpp"
#include "tilewise/problem.hpp"
#include "vocabulary/record.hpp"

namespace tilewise::epilogue_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

EpilogueForm form(std::string_view text) { return parse_epilogue(text).form; }
std::string normal(std::string_view text) { return to_string(form(text)); }

/// The value of C for one sum; operands by name.
float value(std::string_view text, float acc, const std::map<std::string, float>& given = {}) {
  const NamedEpilogue named = parse_epilogue(text);
  std::vector<float> values(named.names.size());
  for (const auto& [name, operand] : given) values.at(named.slot_of(name).value()) = operand;
  return evaluate(named.form, acc, values);
}

TEST(Epilogue, ComputesWhatItSays) {
  EXPECT_EQ(value("acc", 3), 3);
  EXPECT_EQ(value("acc + bias[j]", 3, {{"bias", 4}}), 7);
  EXPECT_EQ(value("acc - 2 * x[i]", 3, {{"x", 4}}), -5);
  EXPECT_EQ(value("(acc - 2) * x[i,j] / s", 3, {{"x", 4}, {"s", 8}}), 0.5F);
  EXPECT_EQ(value("x = acc + 1; y = x * x; y - x", 3), 12);
  EXPECT_EQ(value("-acc * -2", 3), 6);
  EXPECT_EQ(value("--acc", 3), 3);
  EXPECT_EQ(value("1e2 + .5 + 2.5e-1", 0), 100.75F);
  EXPECT_EQ(value("relu(acc)", -3), 0);
  EXPECT_EQ(value("min(acc, 2) + max(acc, 5) + abs(-acc)", 3), 10);
  EXPECT_EQ(value("clamp(acc, -1, 1)", -3), -1);
  EXPECT_EQ(value("where(acc > 2, 10, 20)", 3), 10);
  EXPECT_EQ(value("where(acc != acc, 10, 20)", 3), 20);
  EXPECT_EQ(value("where(2 >= acc, 10, 20)", 3), 20);
  EXPECT_EQ(value("sqrt(acc) + rsqrt(acc)", 4), 2.5F);
  EXPECT_FLOAT_EQ(value("exp(acc) + log(acc) + tanh(acc) + erf(acc)", 2),
                  std::exp(2.F) + std::log(2.F) + std::tanh(2.F) + std::erf(2.F));
  EXPECT_FLOAT_EQ(value("sigmoid(acc)", 1), 0.7310586F);
  EXPECT_FLOAT_EQ(value("silu(acc)", 1), 0.7310586F);
  EXPECT_FLOAT_EQ(value("gelu(acc)", 1), 0.8413447F);
  EXPECT_FLOAT_EQ(value("gelu_tanh(acc)", 1), 0.8411920F);
}

TEST(Epilogue, KeepsNaN) {
  for (const char* text : {"relu(acc)", "min(acc, 1)", "min(1, acc)", "max(acc, 1)", "max(1, acc)",
                           "clamp(acc, 0, 1)", "gelu(acc)", "silu(acc)", "acc * 0"})
    EXPECT_TRUE(std::isnan(value(text, kNan))) << text;
  EXPECT_EQ(value("where(acc == acc, 1, 2)", kNan), 2);
  EXPECT_EQ(value("relu(acc)", kInfinity), kInfinity);
  EXPECT_EQ(value("relu(acc)", -kInfinity), 0);
  for (const char* text : {"1 / max(acc, 0)", "1 / max(0, acc)", "-1 / min(acc, 0)"})
    EXPECT_EQ(value(text, -0.F), kInfinity) << text;
}

TEST(Epilogue, WritesFurtherResults) {
  const NamedEpilogue named =
      parse_epilogue("x = acc + bias[j]; aux[i,j] = x; y = relu(x); grad[j] = sum(y); y * 2");
  std::vector<float> values(named.names.size()), results;
  values.at(named.slot_of("bias").value()) = 4;
  EXPECT_EQ(evaluate(named.form, 3.F, values, &results), 14);
  EXPECT_EQ(results.at(named.slot_of("aux").value()), 7);
  EXPECT_EQ(results.at(named.slot_of("grad").value()), 7);
  const auto& operands = named.form.operands;
  EXPECT_EQ(operands.at(named.slot_of("bias").value()).use, EpilogueUse::read);
  EXPECT_EQ(operands.at(named.slot_of("bias").value()).over, EpilogueOver::columns);
  EXPECT_EQ(operands.at(named.slot_of("aux").value()).use, EpilogueUse::written);
  EXPECT_EQ(operands.at(named.slot_of("aux").value()).over, EpilogueOver::elements);
  EXPECT_EQ(operands.at(named.slot_of("grad").value()).use, EpilogueUse::summed);
}

TEST(Epilogue, HasOneFormForEqualTexts) {
  EXPECT_EQ(normal("acc + bias[j]"), "(acc+p0[j])");
  const std::pair<const char*, const char*> equal[] = {
      {"acc + bias[j]", "  b [ j ]+acc ;\r\n"},
      {"x = acc + b[j]; relu(x)", "relu(acc + b[j])"},
      {"x = acc + b[j]; x * x", "(acc + b[j]) * (b[j] + acc)"},
      {"min(acc, s)", "min(t, acc)"},
      {"where(acc > 0, acc, 0)", "where(0 < acc, acc, 0)"},
      {"where(acc == 0, 1, 2)", "where(0 == acc, 1, 2)"},
      {"clamp(acc, 0, 6)", "min(6, max(0, acc))"},
      {"acc + -2", "-2.0 + acc"},
      {"u[i,j] = acc; v[i,j] = acc + 1; acc", "v[i,j] = 1 + acc; u[i,j] = acc; acc"},
      {"a[i] * acc + r[i,j]", "q[i,j] + acc * w[i]"}};
  for (const auto& [x, y] : equal) EXPECT_EQ(normal(x), normal(y));
  const std::pair<const char*, const char*> other[] = {
      {"acc + b[j]", "acc + b[i]"},
      {"acc - b[j]", "b[j] - acc"},
      {"acc + a[j] + b[i]", "acc + (a[j] + b[i])"},
      {"acc * 0.5", "acc / 2"},
      {"acc", "acc + 0"},
      {"where(acc > 0, 1, 2)", "where(acc >= 0, 1, 2)"},
      {"u[i,j] = acc; acc", "u[j] = sum(acc); acc"}};
  for (const auto& [x, y] : other) EXPECT_NE(normal(x), normal(y));
}

// Operands are found by the caller's names, wherever the normal form has them.
TEST(Epilogue, NamesFollowTheirSlots) {
  const char* const texts[] = {"(acc + a[i]) * b[j] - c[i,j]", "b[j] * (a[i] + acc) - c[i,j]"};
  for (const char* text : texts)
    EXPECT_EQ(value(text, 1, {{"a", 2}, {"b", 10}, {"c", 3}}), 27) << text;
  EXPECT_EQ(parse_epilogue(texts[0]).names, parse_epilogue(texts[1]).names);
  EXPECT_EQ(parse_epilogue("acc").slot_of("a"), std::nullopt);
  // Between two operands of one kind a change of places changes no bit.
  EXPECT_EQ(value("acc + a[j] * b[j]", 1, {{"a", 2}, {"b", 3}}), 7);
}

TEST(Epilogue, OperandsHaveTypes) {
  const EpilogueForm made = form("acc * s + b:bf16[j] + b[j]; ");
  const auto type = [&](EpilogueOver over, DType c) {
    for (const EpilogueSlot& slot : made.operands)
      if (slot.over == over) return type_of(slot, c);
    return DType::e5m2;
  };
  EXPECT_EQ(type(EpilogueOver::columns, DType::f32), DType::bf16);
  EXPECT_EQ(type(EpilogueOver::all, DType::f16), DType::f32);
  EXPECT_EQ(type(EpilogueOver::all, DType::f64), DType::f64);
  EXPECT_EQ(form(to_string(made)), made);
  EXPECT_EQ(to_string(form("u:f32[i,j] = acc; g:f32[j] = sum(acc); acc")),
            "p0:f32[i,j]=acc;p1:f32[j]=sum(acc);acc");
}

TEST(Epilogue, ScalesBlocksOfK) {
  const EpilogueForm made = form("acc(b[j/128,k/128] * a:bf16[k/128,i]) + bias[j]");
  EXPECT_TRUE(has_scales(made));
  EXPECT_FALSE(has_scales(form("acc * a[i]")));
  EXPECT_EQ(form(to_string(made)), made);
  EXPECT_EQ(form("bias[j] + acc(x:bf16[ k/128 , i ]*y[j/128,k/128])"), made);
  EXPECT_NE(form("acc(b[k/128,j/128] * a:bf16[k/128,i]) + bias[j]"), made);
  EXPECT_NE(form("acc(b[j,k/128] * a:bf16[k/128,i]) + bias[j]"), made);
  const Problem problem = typed_problem(Layout::nt, 5, 300, 129, DType::e4m3, DType::bf16);
  const std::pair<const char*, EpilogueShape> shapes[] = {
      {"acc(a[i,k/128])", {5, 2}},     {"acc(a[k/128,i])", {2, 5}},
      {"acc(b[j,k/128])", {300, 2}},   {"acc(b[k/128,j])", {2, 300}},
      {"acc(b[j,k/32])", {300, 5}},    {"acc(b[k/4096,j])", {1, 300}},
      {"acc(b[j/128,k/128])", {3, 2}}, {"acc(b[k/128,j/128])", {2, 3}}};
  for (const auto& [text, shape] : shapes) {
    const EpilogueForm one = form(text);
    const EpilogueShape found = shape_of(one.operands.at(0), problem);
    EXPECT_EQ(found.rows, shape.rows) << text;
    EXPECT_EQ(found.columns, shape.columns) << text;
    EXPECT_EQ(type_of(one.operands.at(0), DType::bf16), DType::f32) << text;
  }
  // The sum is there, scaled; once more it counts as one node.
  EXPECT_EQ(value("x = acc(a[i,k/128]); x * acc(a[i,k/128])", 3, {{"a", 2}}), 9);
}

TEST(Epilogue, HasZeroPointsBehindItsScales) {
  const EpilogueForm made = form("acc(s[k/64,j], z[j,k/64]) + bias[j]");
  EXPECT_TRUE(has_scales(made));
  EXPECT_EQ(form(to_string(made)), made);
  EXPECT_EQ(form("b[j] + acc(x[k/64,j],y[ j,k/64 ])"), made);
  EXPECT_NE(form("acc(s[j,k/64], z[k/64,j]) + bias[j]"), made);
  // Both have one index: the place behind the comma tells which is which.
  const NamedEpilogue alike = normal_form(parse_epilogue("acc(s[j,k/64],z[j,k/64])"));
  EXPECT_EQ(alike.form, form("acc(a[j,k/64],b[j,k/64])"));
  EXPECT_EQ(alike.form.operands.at(*alike.slot_of("z")).over, EpilogueOver::zero_points);
  EXPECT_EQ(alike.form.operands.at(*alike.slot_of("s")).over, EpilogueOver::column_blocks);
  EXPECT_EQ(form(to_string(alike.form)), alike.form);
  Problem problem = typed_problem(Layout::nt, 5, 300, 129, DType::f16, DType::i4, DType::f16);
  set_epilogue(problem, Epilogue("acc(s:f16[j,k/64], z[j,k/64])"));
  const EpilogueSlot* zeros = zero_points_of(problem);
  ASSERT_TRUE(zeros);
  EXPECT_EQ(shape_of(*zeros, problem).rows, 300);
  EXPECT_EQ(shape_of(*zeros, problem).columns, 3);
  EXPECT_EQ(type_of(*zeros, DType::f16), DType::i8);
  EXPECT_EQ(type_of(*scales_of(problem), DType::f16), DType::f16);
  EXPECT_EQ(unsupported_scales(problem), "");
}

// Operands of one kind are told apart by all that is made of them, and by their types.
TEST(Epilogue, TheOrderOfCommutativeArgumentsNeverCounts) {
  for (const auto& [one, other] : std::vector<std::pair<const char*, const char*>>{
           {"acc + a[j]*b[j] + a[j]", "acc + b[j]*a[j] + a[j]"},
           {"acc + a[j]*b[j] + b[j]", "b[j] + (a[j]*b[j] + acc)"},
           {"acc + x:f64[j]*y[j]", "acc + y[j]*x:f64[j]"},
           {"acc + y:f64[j]*x[j]", "acc + y[j]*x:f64[j]"},
           {"max(a[j], b[j]) + acc*exp(b[j])", "exp(a[j])*acc + max(a[j], b[j])"},
           {"x = a[j]+b[j]; aux[i,j] = acc*b[j]; x*acc", "x = b[j]+a[j]; q[i,j] = a[j]*acc; acc*x"},
           {"acc*(a*b) + c*(a*d)", "(d*a)*c + (b*a)*acc"},
           {"(a+b)*(c+d) + acc + a/b", "acc + (d+c)*(b+a) + b/a"}})
    EXPECT_EQ(to_string(parse_epilogue(one).form), to_string(parse_epilogue(other).form))
        << one << " and " << other;
  EXPECT_NE(to_string(parse_epilogue("acc + a[j]*b[j] + a[j]").form),
            to_string(parse_epilogue("acc + a[j]*b[j] + a[j]*b[j]").form));
  EXPECT_NE(to_string(parse_epilogue("max(a[j], b[j]) + acc*(a[j]/b[j])").form),
            to_string(parse_epilogue("max(a[j], b[j]) + acc*(a[j]/a[j])").form));
}

// Random expressions, with their commutative arguments swapped and their operands renamed at
// random.
TEST(Epilogue, RandomTextsHaveOneNormalForm) {
  std::mt19937 random(3);
  for (int turn = 0; turn < 400; ++turn) {
    std::vector<std::string> pool{"acc", "A", "B", "C", "D"}, swapped = pool;
    for (int i = 0; i < 8; ++i) {
      const std::size_t x = random() % pool.size(), y = random() % pool.size();
      switch (const auto op = random() % 4; op) {
        case 0:
        case 1: {
          const std::string sign = op == 0 ? "+" : "*";
          pool.push_back("(" + pool[x] + sign + pool[y] + ")");
          swapped.push_back(random() % 2 == 0 ? "(" + swapped[x] + sign + swapped[y] + ")"
                                              : "(" + swapped[y] + sign + swapped[x] + ")");
          break;
        }
        case 2:
          pool.push_back("(" + pool[x] + "/" + pool[y] + ")");
          swapped.push_back("(" + swapped[x] + "/" + swapped[y] + ")");
          break;
        default:
          pool.push_back("tanh(" + pool[x] + ")");
          swapped.push_back("tanh(" + swapped[x] + ")");
      }
    }
    std::string names = "wxyz";
    std::shuffle(names.begin(), names.end(), random);
    std::string one = pool.back() + "+acc", other = swapped.back() + "+acc";
    for (std::size_t i = 0; i < 4; ++i) {
      const auto rename = [&](std::string& text, const std::string& name) {
        for (std::size_t at; (at = text.find("ABCD"[i])) != text.npos;)
          text.replace(at, 1, name + "[j]");
      };
      rename(one, std::string(1, "pqrs"[i]));
      rename(other, std::string(1, names[i]));
    }
    if (one.size() > 2000) continue;
    ASSERT_EQ(to_string(parse_epilogue(one).form), to_string(parse_epilogue(other).form))
        << one << "\n"
        << other;
    const std::string normal = to_string(parse_epilogue(one).form);
    ASSERT_EQ(to_string(parse_epilogue(normal).form), normal);
  }
}

TEST(Epilogue, OfAProblemStatesNoTypeThatTheProblemImplies) {
  Problem bf16 = typed_problem(Layout::nn, 8, 8, 8, DType::bf16, DType::bf16), f32 = bf16;
  set_types(f32, DType::bf16, DType::f32, MathMode::strict);
  const Epilogue typed("acc + b:bf16[j] * s:f32"), plain("s * b[j] + acc");
  Problem same = bf16;
  set_epilogue(bf16, typed);
  set_epilogue(same, plain);
  set_epilogue(f32, typed);
  EXPECT_EQ(bf16, same);
  EXPECT_EQ(std::hash<Problem>{}(bf16), std::hash<Problem>{}(same));
  EXPECT_EQ(epilogue_text(bf16), "((p0*p1[j])+acc)");
  EXPECT_EQ(epilogue_text(f32), "((p0*p1:bf16[j])+acc)");
  EXPECT_EQ(typed.slot("b"), plain.slot("b"));
  EXPECT_THAT(to_string(f32), HasSubstr("epilogue \"((p0*p1:bf16[j])+acc)\""));
  EXPECT_EQ(problem_from_json(to_json(f32)), f32);
  Problem bare = f32;
  bare.epilogue = nullptr;
  EXPECT_NE(bare, f32);
  EXPECT_EQ(operand_bytes(f32) - operand_bytes(bare), 8 * 2 + 4);
  EXPECT_THAT([&] { (void)typed.slot("bias"); },
              testing::ThrowsMessage<Error>(HasSubstr("it has s, b")));
}

TEST(Epilogue, ConditionsAndSignsMayBeShared) {
  for (const char* text :
       {"where(acc > 0, 1, 2) + where(acc > 0, 3, 4)",
        "x = acc * 2; where(x > s, x, 1) + where(x > s, 3, 4) * where(x + 1 > s, 5, x)",
        "y = where(acc + 1 > s, 1, 2); where(y > acc, y, 3) - where(y > acc, acc, y)",
        "-acc + -(acc + 1) * -acc"}) {
    const EpilogueForm made = form(text);
    EXPECT_EQ(form(to_string(made)), made) << to_string(made);
  }
  EXPECT_EQ(value("where(acc > 0, 1, 2) + where(acc > 0, 3, 4)", 1), 4);
  const EpilogueForm nested = form(std::string(60, '-') + "acc");
  EXPECT_EQ(form(to_string(nested)), nested);
}

TEST(Epilogue, SharedPartsAreComputedOnce) {
  std::string text = "x0 = acc + 1; ";
  for (int n = 1; n < 60; ++n) {
    const std::string before = "x" + std::to_string(n - 1);
    text += "x" + std::to_string(n) + " = " + before + " + " + before + "; ";
  }
  const EpilogueForm made = form(text + "x59");
  EXPECT_EQ(made.nodes.size(), 62u);
  EXPECT_EQ(form(to_string(made)), made);
  EXPECT_EQ(evaluate(made, 0.F, {}), std::ldexp(1.F, 59));
}

/// A random expression, and its value computed beside it.
struct Random {
  std::mt19937 generator;
  std::map<std::string, float> operands;
  std::vector<std::pair<std::string, float>> made_before = {};  // to be used again

  int below(int n) { return static_cast<int>(generator() % static_cast<unsigned>(n)); }
  using Made = std::pair<std::string, float>;
  Made leaf() {
    constexpr const char* names[] = {"a[i]", "b[j]", "c[i,j]", "s", "t[j]"};
    switch (below(4)) {
      case 3:
        if (!made_before.empty())
          return made_before[static_cast<std::size_t>(below(int(made_before.size())))];
        [[fallthrough]];
      case 0:
        return {"acc", 0.75F};
      case 1: {
        const int n = below(7) - 3;
        return {std::to_string(n), float(n)};
      }
      default: {
        const std::string name = names[below(5)];
        const std::string bare = name.substr(0, name.find('['));
        operands.emplace(bare, 0.25F * float(1 + below(9)));
        return {name, operands.at(bare)};
      }
    }
  }
  Made expression(int depth) {
    const Made made = new_expression(depth);
    if (made.first.size() < 200) made_before.push_back(made);
    return made;
  }
  Made new_expression(int depth) {
    if (depth == 0 || below(5) == 0) return leaf();
    const Made x = expression(depth - 1), y = expression(depth - 1);
    const std::string pair = x.first + ", " + y.first + ")";
    switch (below(9)) {
      case 0:
        return {"(" + x.first + " + " + y.first + ")", x.second + y.second};
      case 1:
        return {"(" + x.first + " - (" + y.first + "))", x.second - y.second};
      case 2:
        return {"(" + x.first + ") * (" + y.first + ")", x.second * y.second};
      case 3:
        return {"(" + x.first + ") / (" + y.first + ")", x.second / y.second};
      case 4:
        if (x.second == y.second)  // 0 is more than -0
          return {"max(" + pair, std::signbit(x.second) ? y.second : x.second};
        return {"max(" + pair, x.second > y.second || std::isnan(x.second) ? x.second : y.second};
      case 5:
        return {"where(" + x.first + " < " + y.first + ", " + pair,
                x.second < y.second ? x.second : y.second};
      case 6:
        return {"relu(" + x.first + ")", x.second < 0 ? 0 : x.second};
      case 7:
        return {"-(" + x.first + ")", -x.second};
      default:
        return {"exp(min(" + x.first + ", 2))",
                std::exp(x.second < 2 || std::isnan(x.second) ? x.second : 2)};
    }
  }
};

TEST(Epilogue, RandomOnesKeepTheirBitsInNormalForm) {
  int read = 0;
  for (unsigned seed = 0; seed < 2000; ++seed) {
    Random random{std::mt19937(seed), {}};
    const auto [text, expected] = random.expression(1 + int(seed % 5));
    NamedEpilogue named;
    try {
      named = parse_epilogue(text);
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("64 nodes")) << text;
      continue;
    }
    ++read;
    std::vector<float> values(named.names.size());
    for (std::size_t slot = 0; slot < values.size(); ++slot)
      values[slot] = random.operands.at(named.names[slot]);
    const float found = evaluate(named.form, 0.75F, values);
    EXPECT_TRUE((std::isnan(found) && std::isnan(expected)) ||
                std::bit_cast<unsigned>(found) == std::bit_cast<unsigned>(expected))
        << text << ": " << found << ", and not " << expected;
    EXPECT_EQ(parse_epilogue(to_string(named.form)).form, named.form) << text;
  }
  EXPECT_GT(read, 1900);
}

TEST(Epilogue, ErrorsPointIntoTheText) {
  const auto message = [](const std::string& text) -> std::string {
    try {
      parse_epilogue(text);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
      return error.what();
    }
    return "no error";
  };
  const struct {
    std::string text, where, what;
  } cases[] = {
      {"", "the end at character 1", "the value of C"},
      {"x = acc", "the end at character 8", "the value of C"},
      {"acc +", "the end at character 6", "a number, a name"},
      {"acc + )", "')' at character 7", "a number, a name"},
      {"acc bias[j]", "'bias' at character 5", "an operator"},
      {"acc; acc", "'acc' at character 6", "behind the last expression"},
      {"acc + bias[k]", "'k' at character 12", "j"},
      {"acc + bias[j,i]", "',' at character 13", "]"},
      {"acc + b[j] + b[i]", "'b' at character 14", "used in two ways"},
      {"x = acc; x[j]", "'x' at character 10", "a part"},
      {"x = acc; x = acc; x", "'x' at character 10", "used before"},
      {"acc + tan(2)", "'tan' at character 7", "gelu_tanh"},
      {"relu(acc, 1)", "',' at character 9", "allowed is )"},
      {"min(acc)", "')' at character 8", "allowed is ,"},
      {"acc > 0", "'acc' at character 1", "where() only"},
      {"where(acc, 1, 2)", "'acc' at character 7", "x < y"},
      {"where(0 < acc < 1, 1, 2)", "'1' at character 17", "one comparison"},
      {"relu = acc; relu", "'relu' at character 1", "a word of the language"},
      {"acc + i", "'i' at character 7", "a word of the language"},
      {"u[j] = acc; acc", "'u' at character 1", "name[j] = sum(x)"},
      {"u[i,j] = sum(acc); acc", "'u' at character 1", "name[j] = sum(x)"},
      {"u[i,j] = acc; u[i,j]", "'u' at character 15", "used in two ways"},
      {"x = acc; 2", "'x' at character 1", "never used"},
      {"acc + b:f33[j]", "'f33' at character 9", "f32, f64, f16, bf16"},
      {"acc + b:f32[j] + b:bf16[j]", "'b' at character 18", "one type"},
      {"x:f32 = acc; x", "'x' at character 1", "no type"},
      {"x = acc; x:f32", "'x' at character 10", "no type"},
      {"acc + 1.5.2", "'1' at character 7", "1, 0.5 or 1e-3"},
      {"acc + 1e999", "'1e999' at character 7", "1, 0.5 or 1e-3"},
      {"acc @ 2", "'@' at character 5", "an operator"},
      {"acc \xC3\x97 2", "'\xC3\x97' at character 5", "an operator"},
      {"acc + " + std::string(300, '('), "'('", "100 levels"},
      {"a0+a1+a2+a3+a4+a5+a6+a7+a8", "'a8' at character 25", "allowed is 8"},
      {"acc + a[i,k/128]", "'i' at character 9", "acc(a[i,k/128] * b[j/128,k/128])"},
      {"acc(a[i])", "'a' at character 5", "[i,k/128]"},
      {"acc(a[i,k/96])", "'96' at character 11", "power of two from 32 to 2^30, as in k/128"},
      {"acc(a[i,k/16])", "'16' at character 11", "32 to 2^30"},
      {"acc(a[j/64,k/128])", "'64' at character 9", "j/128"},
      {"acc(a[i/128,k/128])", "'/' at character 8", "allowed is ,"},
      {"acc(a[j,k/128] * b[j/128,k/128])", "'b' at character 18", "one of A and one of B"},
      {"acc(a[i,k/128]) + acc", "'acc' at character 19", "the same ones"},
      {"acc(s[j,k/64],z[i,k/64])", "'z' at character 15", "[j,k/128] or [k/128,j]"},
      {"acc(s[j,k/64],s[j,k/64])", "'s' at character 15", "two ways"},
      {"acc(s[j,k/64],z[j,k/64]) + acc(s[j,k/64])", "'acc' at character 28", "the same ones"},
      {"acc(2)", "'2' at character 5", "a name"},
      {"acc(a[i,k/128] + b[j,k/128])", "'+' at character 16", "allowed is )"},
      {std::string(5000, ' ') + "acc", "at character 4097", "4096 characters"}};
  for (const auto& one : cases)
    EXPECT_THAT(message(one.text), AllOf(HasSubstr(one.where), HasSubstr(one.what))) << one.text;
  std::string nested = "acc";
  for (int n = 0; n < 58; ++n) nested = "where(a < b, a, " + nested + ")";
  EXPECT_THAT(message("a = 1.2345678901234567e-300; b = 1.3345678901234567e-300; " + nested),
              HasSubstr("its normal form has"));
  std::string sum = "acc";
  for (int n = 0; n < 70; ++n) sum += " + " + std::to_string(n);
  EXPECT_THAT(message(sum), HasSubstr("64 nodes"));
}

TEST(Epilogue, AnyTextIsReadOrRefused) {
  std::mt19937 generator(1);
  constexpr std::string_view pieces[] = {":f32", "acc",   "+",     "-", "*",   "/",   "(",
                                         ")",    "[j]",   "[i,j]", "x", "=",   ";",   "relu",
                                         ",",    "<",     "==",    "2", "1e5", "min", "aux",
                                         "sum",  "where", " ",     "[", "i",   "\t",  "#"};
  for (int n = 0; n < 20000; ++n) {
    std::string text;
    for (unsigned i = generator() % 12; i > 0; --i) text += pieces[generator() % std::size(pieces)];
    try {
      const EpilogueForm made = form(text);
      EXPECT_EQ(form(to_string(made)), made) << text;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("allowed is")) << text;
    }
  }
}

}  // namespace
}  // namespace tilewise::epilogue_test
