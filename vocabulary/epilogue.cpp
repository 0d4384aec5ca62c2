#include "vocabulary/epilogue.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <utility>

#include "tilewise/error.hpp"
#include "vocabulary/decimal.hpp"
#include "vocabulary/text.hpp"

namespace tilewise {
namespace {

using Op = EpilogueOp;
using Over = EpilogueOver;
using Use = EpilogueUse;

constexpr std::size_t kMostText = 4096;  // of a text and of its normal form

struct Function {
  std::string_view name;
  Op op;
  std::size_t arguments;
};
constexpr Function kFunctions[] = {{"min", Op::minimum, 2},
                                   {"max", Op::maximum, 2},
                                   {"where", Op::where, 3},
                                   {"abs", Op::absolute, 1},
                                   {"sqrt", Op::square_root, 1},
                                   {"rsqrt", Op::reciprocal_root, 1},
                                   {"exp", Op::exponential, 1},
                                   {"log", Op::logarithm, 1},
                                   {"tanh", Op::hyperbolic_tangent, 1},
                                   {"erf", Op::error_function, 1},
                                   {"sigmoid", Op::sigmoid, 1},
                                   {"silu", Op::silu, 1},
                                   {"relu", Op::relu, 1},
                                   {"gelu", Op::gelu, 1},
                                   {"gelu_tanh", Op::gelu_tanh, 1}};
constexpr std::string_view kClamp = "clamp", kSum = "sum", kAcc = "acc";

struct Operator {
  std::string_view sign;
  Op op;
  int level;   // how tightly it binds
  bool swaps;  // its arguments are read in the other order
};
constexpr Operator kOperators[] = {{"<=", Op::less_or_equal, 0, false},
                                   {">=", Op::less_or_equal, 0, true},
                                   {"==", Op::equal, 0, false},
                                   {"!=", Op::not_equal, 0, false},
                                   {"<", Op::less, 0, false},
                                   {">", Op::less, 0, true},
                                   {"+", Op::add, 1, false},
                                   {"-", Op::subtract, 1, false},
                                   {"*", Op::multiply, 2, false},
                                   {"/", Op::divide, 2, false}};
constexpr int kHighestLevel = 2;

bool is_comparison(Op op) { return op >= Op::less && op <= Op::not_equal; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

const Function* find_function(std::string_view name) {
  const auto* found = std::find_if(std::begin(kFunctions), std::end(kFunctions),
                                   [&](const Function& f) { return f.name == name; });
  return found == std::end(kFunctions) ? nullptr : found;
}
bool is_taken(std::string_view name) {
  return find_function(name) || name == kClamp || name == kSum || name == kAcc || name == "i" ||
         name == "j";
}

/// Reads a text into nodes, each once. Operands are numbered as the text names them.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  NamedEpilogue read() {
    if (text_.size() > kMostText)
      fail_at(kMostText, "is too far behind", std::to_string(kMostText) + " characters");
    for (skip_blanks(); !ended(); skip_blanks()) {
      if (c_) fail("is behind the last expression", "nothing");
      statement();
      if (!take(";") && !ended()) fail("is unexpected", "an operator, ; or the end");
    }
    if (!c_) fail("is too early", "a last expression, which is the value of C");
    for (const auto& [named, part] : parts_)
      if (!part.used) fail_at(part.at, "is never used", "a part that a later statement uses");
    read_.form.c = *c_;
    return std::move(read_);
  }

 private:
  std::string_view text_;
  std::size_t at_ = 0, depth_ = 0;
  NamedEpilogue read_;
  struct Part {
    std::size_t node, at;
    bool used = false;
  };
  std::map<std::string, Part, std::less<>> parts_;  // by name
  std::optional<std::size_t> c_;

  static constexpr std::size_t kMostDepth = 100;

  /// Points at the place where the text goes wrong.
  [[noreturn]] void fail_at(std::size_t at, const std::string& what, std::string_view allowed) {
    std::size_t end = at;
    while (end < text_.size() && (is_letter(text_[end]) || is_digit(text_[end]))) ++end;
    const auto inside = [&](char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; };
    if (end == at && at < text_.size())
      for (++end; end < text_.size() && inside(text_[end]);)
        ++end;  // the rest of a UTF-8 character
    const std::string token =
        at < text_.size() ? "'" + std::string(text_.substr(at, end - at)) + "'" : "the end";
    throw Error(ErrorKind::invalid_argument, "epilogue \"" + std::string(text_) + "\": " + token +
                                                 " at character " + std::to_string(at + 1) + " " +
                                                 what + "; allowed is " + std::string(allowed));
  }
  [[noreturn]] void fail(const std::string& what, std::string_view allowed) {
    fail_at(at_, what, allowed);
  }

  bool ended() const { return at_ >= text_.size(); }
  void skip_blanks() {
    while (!ended() && std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos)
      ++at_;
  }
  bool take(std::string_view sign) {
    skip_blanks();
    if (text_.substr(at_, sign.size()) != sign) return false;
    at_ += sign.size();
    return true;
  }
  void require(std::string_view sign) {
    if (!take(sign)) fail("is unexpected", sign);
  }
  std::string name() {
    skip_blanks();
    const std::size_t begin = at_;
    while (!ended() && (is_letter(text_[at_]) || (at_ > begin && is_digit(text_[at_])))) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  /// An index into an operand. scales: its form, if it has scales, which are refused without it.
  Over index(EpilogueSlot* scales = nullptr) {
    if (!take("[")) return Over::all;
    const std::string_view inside = text_.substr(at_, text_.find(']', at_) - at_);
    if (inside.find('/') != std::string_view::npos) return scale_index(scales);
    const bool rows = take("i");
    if (rows && take("]")) return Over::rows;
    if (rows) require(",");
    require("j");
    require("]");
    return rows ? Over::elements : Over::columns;
  }

  std::int64_t steps_of_k() {
    constexpr std::int64_t least = 32, most = std::int64_t{1} << 30;
    if (!take("/")) fail("is unexpected", "k/128");
    const std::size_t begin = at_;
    while (!ended() && is_digit(text_[at_])) ++at_;
    const auto steps = number_in<std::int64_t>(text_.substr(begin, at_ - begin));
    if (!steps || *steps < least || *steps > most || (*steps & (*steps - 1)) != 0)
      fail_at(begin, "is no number of steps", "a power of two from 32 to 2^30, as in k/128");
    return *steps;
  }
  Over scale_index(EpilogueSlot* to) {
    if (!to) fail("begins an index of scales", "acc(a[i,k/128] * b[j/128,k/128])");
    to->k_first = take("k");
    if (to->k_first) {
      to->steps = steps_of_k();
      require(",");
    }
    Over over = Over::row_blocks;
    if (!take("i")) {
      require("j");
      over = take("/") ? Over::tiles : Over::column_blocks;
      if (over == Over::tiles && !take("128")) fail("is unexpected", "j or j/128");
    }
    if (!to->k_first) {
      require(",");
      require("k");
      to->steps = steps_of_k();
    }
    require("]");
    return over;
  }

  /// An operand of blocks of k: its slot and what it belongs to.
  std::pair<std::size_t, Over> operand_of_blocks(bool zero_points) {
    skip_blanks();
    const std::size_t at = at_;
    const std::string named = name();
    if (named.empty() || is_taken(named)) fail_at(at, "is no operand", "a name with an index");
    const std::optional<DType> of = type();
    EpilogueSlot operand;
    operand.over = index(&operand);
    if (!is_scale(operand.over))
      fail_at(at, "has no index of scales", "[i,k/128], [j,k/128], [j/128,k/128], or k/128 first");
    if (zero_points && operand.over != Over::column_blocks)
      fail_at(at, "has no index of zero points", "[j,k/128] or [k/128,j]");
    if (zero_points) operand.over = Over::zero_points;
    if (parts_.contains(named)) fail_at(at, "is used before", "a new name");
    operand.type = of;
    std::optional<std::size_t> slot_of = slot(named);
    if (!slot_of) slot_of = add_operand(at, named, operand);
    if (!operand.type) operand.type = read_.form.operands[*slot_of].type;
    if (read_.form.operands[*slot_of] != operand)
      fail_at(at, "is used in two ways", "one index and one type for each operand");
    return {*slot_of, operand.over};
  }

  /// "acc" with the scales and zero points behind it.
  std::size_t sum_of_products(std::size_t begin) {
    EpilogueNode made;
    if (take("(")) {
      bool of_a = false, of_b = false;
      do {
        skip_blanks();
        const std::size_t at = at_;
        const auto [slot_of, over] = operand_of_blocks(false);
        bool& known = over == Over::row_blocks ? of_a : of_b;
        if (std::exchange(known, true))
          fail_at(at, "is a second scale of a matrix", "one of A and one of B");
        made.x.push_back(node({Op::operand, 0, slot_of, {}}));
      } while (take("*"));
      if (take(",")) made.x.push_back(node({Op::operand, 0, operand_of_blocks(true).first, {}}));
      require(")");
      std::sort(made.x.begin(), made.x.end());
    }
    for (const EpilogueNode& other : read_.form.nodes)
      if (other.op == Op::sum_of_products && other != made)
        fail_at(begin, "has other scales or zero points than before", "the same ones everywhere");
    return node(std::move(made));
  }

  std::optional<DType> type() {
    if (!take(":")) return std::nullopt;
    skip_blanks();
    const std::size_t begin = at_;
    const std::string named = name();
    const auto whole = dtypes().first(kDTypes - 1);  // i4 has no bytes of its own
    for (const DTypeInfo& one : whole)
      if (one.name == named) return one.type;
    fail_at(begin, "is no type", join(whole, ", ", [](const DTypeInfo& x) { return x.name; }));
  }

  void statement() {
    const std::size_t begin = at_;
    const std::string named = name();
    const std::optional<DType> of = named.empty() ? std::nullopt : type();
    const Over over = named.empty() ? Over::all : index();
    const bool assigns = !named.empty() && take("=") && text_.substr(at_, 1) != "=";
    if (!assigns) {
      at_ = begin;
      c_ = value();
      return;
    }
    if (is_taken(named)) fail_at(begin, "is a word of the language", "another name");
    if (over == Over::all) {
      if (of) fail_at(begin, "is a part, which has no type", "its name alone");
      const std::size_t node = value();
      if (parts_.contains(named) || slot(named)) fail_at(begin, "is used before", "a new name");
      parts_.emplace(named, Part{node, begin});
      return;
    }
    skip_blanks();
    const std::size_t before = at_;
    const bool sums = name() == kSum && take("(");
    if (!sums) at_ = before;
    if (over == Over::rows || (over == Over::columns) != sums)
      fail_at(begin, "cannot be written so", "name[i,j] = x, or name[j] = sum(x)");
    const std::size_t node = value();
    if (sums) require(")");
    if (parts_.contains(named) || slot(named)) fail_at(begin, "is used before", "a new name");
    add_operand(begin, named, {over, sums ? Use::summed : Use::written, node, of});
  }

  std::optional<std::size_t> slot(std::string_view name) const { return read_.slot_of(name); }

  std::size_t add_operand(std::size_t at, const std::string& named, EpilogueSlot operand) {
    if (read_.names.size() == EpilogueForm::kMostOperands)
      fail_at(at, "is an operand too many", std::to_string(EpilogueForm::kMostOperands));
    read_.names.push_back(named);
    read_.form.operands.push_back(operand);
    return read_.names.size() - 1;
  }

  /// The node's place; an equal node is there once.
  std::size_t node(EpilogueNode made) {
    auto& nodes = read_.form.nodes;
    const auto found = std::find(nodes.begin(), nodes.end(), made);
    if (found != nodes.end()) return static_cast<std::size_t>(found - nodes.begin());
    if (nodes.size() == EpilogueForm::kMostNodes)
      fail("makes the epilogue too long", std::to_string(EpilogueForm::kMostNodes) + " nodes");
    nodes.push_back(std::move(made));
    return nodes.size() - 1;
  }
  std::size_t number(double value) { return node({Op::number, value, 0, {}}); }
  std::size_t apply(Op op, std::vector<std::size_t> x) { return node({op, 0, 0, std::move(x)}); }

  std::size_t value(bool condition = false) {
    skip_blanks();
    const std::size_t begin = at_, made = expression(0);
    if (is_comparison(read_.form.nodes[made].op) == condition) return made;
    if (condition) fail_at(begin, "begins no condition", "x < y, <=, >, >=, == or !=");
    fail_at(begin, "begins a condition", "a condition as the first argument of where() only");
  }

  const Operator* take_operator(int level) {
    skip_blanks();
    for (const Operator& one : kOperators)
      if (text_.substr(at_, one.sign.size()) == one.sign) {
        if (one.level != level) return nullptr;
        at_ += one.sign.size();
        return &one;
      }
    return nullptr;
  }

  std::size_t expression(int level) {
    if (level > kHighestLevel) return factor();
    std::size_t left = expression(level + 1);
    while (const Operator* found = take_operator(level)) {
      skip_blanks();
      if (is_comparison(read_.form.nodes[left].op))
        fail("follows a condition", "one comparison, as the first argument of where()");
      const std::size_t right = expression(level + 1);
      left = found->swaps ? apply(found->op, {right, left}) : apply(found->op, {left, right});
    }
    return left;
  }

  std::size_t factor() {
    if (++depth_ > kMostDepth) fail("is nested too deeply", std::to_string(kMostDepth) + " levels");
    const std::size_t made = unguarded_factor();
    --depth_;
    return made;
  }
  std::size_t unguarded_factor() {
    if (take("-")) {
      const std::size_t made = factor();
      const EpilogueNode& of = read_.form.nodes[made];
      return of.op == Op::number ? number(-of.value) : apply(Op::negate, {made});
    }
    if (take("(")) {
      const std::size_t made = value();
      require(")");
      return made;
    }
    skip_blanks();
    const std::size_t begin = at_;
    if (!ended() && (is_digit(text_[at_]) || text_[at_] == '.')) return literal();
    const std::string named = name();
    if (named.empty()) fail("is unexpected", "a number, a name, a function, - or (");
    if (named == kAcc) return sum_of_products(begin);
    if (take("(")) return call(begin, named);
    if (is_taken(named)) fail_at(begin, "is a word of the language", "an operand's name");
    const std::optional<DType> of = type();
    const Over over = index();
    if (const auto part = parts_.find(named); part != parts_.end()) {
      if (over != Over::all || of)
        fail_at(begin, "is a part, which has no index and no type", "its name alone");
      part->second.used = true;
      return part->second.node;
    }
    std::optional<std::size_t> known = slot(named);
    if (!known) known = add_operand(begin, named, {over, Use::read, 0, of});
    EpilogueSlot& operand = read_.form.operands[*known];
    if (!operand.type) operand.type = of;
    if (operand != EpilogueSlot{over, Use::read, 0, of ? of : operand.type})
      fail_at(begin, "is used in two ways",
              "one index and one type for each operand, which is read or written");
    return node({Op::operand, 0, *known, {}});
  }

  std::size_t literal() {
    const std::size_t begin = at_;
    while (!ended() && (is_digit(text_[at_]) || text_[at_] == '.' || is_letter(text_[at_]) ||
                        ((text_[at_] == '-' || text_[at_] == '+') &&
                         (text_[at_ - 1] == 'e' || text_[at_ - 1] == 'E'))))
      ++at_;
    const auto value = number_in<double>(text_.substr(begin, at_ - begin));
    if (!value || !std::isfinite(*value)) fail_at(begin, "is no number", "1, 0.5 or 1e-3");
    return number(*value);
  }

  std::size_t call(std::size_t begin, const std::string& named) {
    const Function* function = find_function(named);
    if (!function && named != kClamp)
      fail_at(begin, "is no function",
              join(kFunctions, ", ", [](const Function& f) { return f.name; }) + ", clamp");
    std::vector<std::size_t> x;
    const std::size_t wanted = function ? function->arguments : 3;
    while (x.size() < wanted) {
      if (!x.empty()) require(",");
      x.push_back(value(function && function->op == Op::where && x.empty()));
    }
    require(")");
    if (function) return apply(function->op, std::move(x));
    return apply(Op::minimum, {apply(Op::maximum, {x[0], x[1]}), x[2]});
  }
};

/// Writes nodes that are used once within their use, and others as parts t0, t1, ...
class Writer {
 public:
  explicit Writer(const EpilogueForm& epilogue)
      : epilogue_(epilogue), uses_(epilogue.nodes.size()), texts_(epilogue.nodes.size()) {
    for (const EpilogueSlot& operand : epilogue.operands)
      if (operand.use != Use::read) ++uses_[operand.node];
    ++uses_[epilogue.c];
    // A condition is no part: its arguments are written as often as it is used.
    for (std::size_t n = epilogue.nodes.size(); n-- > 0;) {
      const EpilogueNode& node = epilogue.nodes[n];
      for (const std::size_t x : node.x) uses_[x] += is_comparison(node.op) ? uses_[n] : 1;
    }
  }

  std::string text() {
    std::size_t next = 0;  // operand that is written
    std::string all;
    int parts = 0;
    for (std::size_t n = 0; n < epilogue_.nodes.size(); ++n) {
      texts_[n] = text_of(epilogue_.nodes[n]);
      const EpilogueNode& node = epilogue_.nodes[n];
      if (uses_[n] > 1 && !node.x.empty() && !is_comparison(node.op)) {
        const std::string part = "t" + std::to_string(parts++);
        all += part + "=" + texts_[n] + ";";
        texts_[n] = part;
      }
      for (; next < epilogue_.operands.size(); ++next) {
        const EpilogueSlot& operand = epilogue_.operands[next];
        if (operand.use != Use::read && operand.node > n) break;
        if (operand.use != Use::read) all += written(next);
      }
    }
    return all + texts_[epilogue_.c];
  }

 private:
  const EpilogueForm& epilogue_;
  std::vector<int> uses_;
  std::vector<std::string> texts_;

  std::string operand_text(std::size_t slot) const {
    const EpilogueSlot& operand = epilogue_.operands[slot];
    return "p" + std::to_string(slot) +
           (operand.type ? ":" + std::string(tilewise::to_string(*operand.type)) : "") +
           index_text(operand);
  }
  std::string written(std::size_t slot) const {
    const std::string value = texts_[epilogue_.operands[slot].node];
    const bool sums = epilogue_.operands[slot].use == Use::summed;
    return operand_text(slot) + "=" + (sums ? "sum(" + value + ")" : value) + ";";
  }
  std::string products_text(const EpilogueNode& node) const {
    std::string scales, zeros;
    for (const std::size_t x : node.x) {
      const EpilogueSlot& operand = epilogue_.operands[epilogue_.nodes[x].slot];
      if (is_scale(operand.over))
        scales += (scales.empty() ? "" : "*") + texts_[x];
      else
        zeros = "," + texts_[x];
    }
    return std::string(kAcc) + (node.x.empty() ? "" : "(" + scales + zeros + ")");
  }
  std::string text_of(const EpilogueNode& node) const {
    if (node.op == Op::sum_of_products) return products_text(node);
    if (node.op == Op::number) return in_shortest_form(node.value);
    if (node.op == Op::operand) return operand_text(node.slot);
    if (node.op == Op::negate) return "-" + texts_[node.x[0]];
    for (const Operator& one : kOperators)
      if (one.op == node.op && !one.swaps) {
        const std::string text = texts_[node.x[0]] + std::string(one.sign) + texts_[node.x[1]];
        return is_comparison(node.op) ? text : "(" + text + ")";
      }
    const auto* function = std::find_if(std::begin(kFunctions), std::end(kFunctions),
                                        [&](const Function& f) { return f.op == node.op; });
    return std::string(function->name) + "(" +
           join(node.x, ",", [&](std::size_t x) { return texts_[x]; }) + ")";
  }
};

}  // namespace

std::optional<std::size_t> NamedEpilogue::slot_of(std::string_view name) const {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<std::size_t>(found - names.begin());
}

NamedEpilogue parse_epilogue(std::string_view text) {
  const NamedEpilogue read = Reader(text).read();
  NamedEpilogue normal = normal_form(read);
  if (const std::size_t length = to_string(normal.form).size(); length > kMostText)
    throw Error(ErrorKind::invalid_argument,
                "epilogue \"" + std::string(text) + "\": its normal form has " +
                    std::to_string(length) + " characters; allowed is " +
                    std::to_string(kMostText));
  return normal;
}

std::string to_string(const EpilogueForm& epilogue) { return Writer(epilogue).text(); }

}  // namespace tilewise
