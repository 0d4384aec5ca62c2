#include "vocabulary/sum_order.hpp"

#include <array>
#include <charconv>
#include <mutex>
#include <set>

#include "tilewise/error.hpp"
#include "vocabulary/text.hpp"

namespace tilewise {
namespace {

using Arithmetic = SumOrder::Arithmetic;

/// The order of Arithmetic.
constexpr std::array<std::string_view, 8> kArithmetics{
    "exact",        "fused",        "tensor",         "fp8_by_mma",
    "fp8_by_wgmma", "f32x3_by_mma", "f32x3_by_wgmma", "f32x3_swapped"};

constexpr std::string_view kKept = "kept";

[[noreturn]] void bad_order(std::string_view text) {
  throw Error(ErrorKind::invalid_argument,
              "\"" + std::string(text) +
                  "\" is no order of sums; an order is written as by `autotune explain`: fused, "
                  "tensor16, tensor16+parts2048+rows4");
}

/// Takes `word` from the front of `text`; false where it begins with another.
bool take(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  return true;
}

/// The number at the front of `text`; 0 where there is none.
template <class T>
T take_number(std::string_view& text) {
  T value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return 0;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

/// The orders of this process. Never destroyed: problems refer to them until it ends.
struct Orders {
  std::mutex mutex;
  std::set<SumOrder> all;
};
Orders& orders() {
  static Orders* const all = new Orders;
  return *all;
}

}  // namespace

std::string to_string(const SumOrder& order) {
  if (&order == kept_order()) return std::string(kKept);
  std::string text(kArithmetics.at(static_cast<std::size_t>(order.arithmetic)));
  if (order.arithmetic > Arithmetic::fused) text += std::to_string(order.together);
  if (order.promoted > 0) text += "+promoted" + std::to_string(order.promoted);
  if (order.slices > 1 || order.slice > 0)
    text += "+slices" + std::to_string(order.slices) + "x" + std::to_string(order.slice);
  if (order.lane_vector > 0) text += "+lanes" + std::to_string(order.lane_vector);
  if (order.part > 0) text += "+parts" + std::to_string(order.part);
  if (order.rows > 1) text += "+rows" + std::to_string(order.rows);
  return text;
}

SumOrder parse_sum_order(std::string_view text) {
  std::string_view rest = text;
  SumOrder order;
  std::size_t arithmetic = 0;
  while (arithmetic < kArithmetics.size() && !take(rest, kArithmetics[arithmetic])) ++arithmetic;
  if (arithmetic == kArithmetics.size()) bad_order(text);
  order.arithmetic = static_cast<Arithmetic>(arithmetic);
  if (order.arithmetic > Arithmetic::fused) order.together = take_number<int>(rest);
  if (take(rest, "+promoted")) order.promoted = take_number<int>(rest);
  if (take(rest, "+slices")) {
    order.slices = take_number<int>(rest);
    if (take(rest, "x")) order.slice = take_number<int>(rest);
  }
  if (take(rest, "+lanes")) order.lane_vector = take_number<int>(rest);
  if (take(rest, "+parts")) order.part = take_number<std::int64_t>(rest);
  if (take(rest, "+rows")) order.rows = take_number<int>(rest);
  // Refuses what is left, missing, negative, and a second text of the same order.
  const bool positive = order.together > 0 && order.promoted >= 0 && order.slices > 0 &&
                        order.slice >= 0 && order.lane_vector >= 0 && order.part >= 0 &&
                        (order.rows == 1 || order.rows == 2 || order.rows == 4 || order.rows == 8);
  if (!rest.empty() || !positive || to_string(order) != text) bad_order(text);
  return order;
}

const SumOrder* interned(const SumOrder& order) {
  const std::lock_guard lock(orders().mutex);
  return &*orders().all.insert(order).first;
}

const SumOrder* kept_order() {
  static const SumOrder kept{.arithmetic = Arithmetic::exact, .together = 0};
  return &kept;
}

Problem order_key(Problem problem) {
  problem.m = 1;
  problem.batch = 1;
  problem.pointers = false;
  problem.distribution = Distribution::even;
  if (is_grouped(problem)) problem.grouping = Grouping::rows;
  problem.a.transposed = false;
  set_alignment(problem, {});
  problem.order = nullptr;
  return problem;
}

void set_invariant(Problem& problem, bool invariant) {
  problem.order = invariant ? kept_order() : nullptr;
}

std::string order_text(const Problem& problem) {
  return problem.order ? to_string(*problem.order) : std::string();
}

void set_order(Problem& problem, std::string_view text) {
  if (text.empty())
    problem.order = nullptr;
  else
    problem.order = text == kKept ? kept_order() : interned(parse_sum_order(text));
}

}  // namespace tilewise
