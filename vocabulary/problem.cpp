#include "vocabulary/problem.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <string>

#include "tilewise/error.hpp"
#include "vocabulary/enum_names.hpp"
#include "vocabulary/epilogue.hpp"
#include "vocabulary/text.hpp"

namespace tilewise {
namespace {

constexpr std::array<std::string_view, 4> kLayouts{"nn", "nt", "tn", "tt"};
constexpr std::int64_t kLargestSize = std::int64_t{1} << 40;

[[noreturn]] void bad_size(std::string_view item, const std::string& why) {
  throw Error(ErrorKind::invalid_argument,
              "bad size \"" + std::string(item) + "\": " + why +
                  ". A size is N or MxNxK, each number 1 .. 2^40, as in 1024,1024x512x2048");
}

std::int64_t parse_extent(std::string_view item, std::string_view number) {
  std::int64_t value = 0;
  const char* end = number.data() + number.size();
  const auto [stopped, error] = std::from_chars(number.data(), end, value);
  const std::string seen = "\"" + std::string(number) + "\"";
  if (error == std::errc::result_out_of_range) bad_size(item, seen + " is out of range");
  if (error != std::errc{} || stopped != end) bad_size(item, seen + " is not a whole number");
  if (value < 1) bad_size(item, seen + " is less than 1");
  if (value > kLargestSize) bad_size(item, seen + " is more than 2^40 (1099511627776)");
  return value;
}

std::vector<std::string_view> split(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> parts;
  for (;;) {
    const auto at = text.find_first_of(separators);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

Size parse_size(std::string_view item) {
  if (item.empty()) bad_size(item, "it is empty");
  const auto parts = split(item, "xX");
  if (parts.size() != 1 && parts.size() != 3) {
    bad_size(item, "it has " + std::to_string(parts.size()) + " numbers");
  }
  std::array<std::int64_t, 3> extents{};
  for (std::size_t i = 0; i < 3; ++i) {
    extents[i] = parse_extent(item, parts[parts.size() == 1 ? 0 : i]);
  }
  return {extents[0], extents[1], extents[2]};
}

std::string types_text(const Problem& problem) {
  std::string text(to_string(problem.a.type));
  if (problem.b.type == problem.a.type && problem.c.type == problem.a.type &&
      problem.accumulator == problem.a.type) {
    return text;
  }
  for (const DType type : {problem.b.type, problem.c.type, problem.accumulator}) {
    text += "," + std::string(to_string(type));
  }
  return text;
}

}  // namespace

std::string_view to_string(Layout layout) { return kLayouts.at(static_cast<std::size_t>(layout)); }

Layout parse_layout(std::string_view name) { return parse_named<Layout>(name, "layout"); }

const ProductKind* product_kind(const Problem& problem) {
  for (const ProductKind& kind : product_kinds())
    if (kind.a == problem.a.type && kind.b == problem.b.type && kind.c == problem.c.type &&
        kind.accumulator == problem.accumulator && kind.math == problem.math)
      return &kind;
  return nullptr;
}

std::string operands_text(DType a, DType b) {
  const std::string text(to_string(a));
  return a == b ? text : text + " x " + std::string(to_string(b));
}

void set_types(Problem& problem, const ProductKind& kind) {
  problem.a.type = kind.a;
  problem.b.type = kind.b;
  problem.c.type = kind.c;
  problem.accumulator = kind.accumulator;
  problem.math = kind.math;
}

void set_types(Problem& problem, DType a, DType b, DType c, MathMode math) {
  if (const ProductKind* kind = find_product_kind(a, b, c, math)) return set_types(problem, *kind);
  const std::string known = join(product_kinds(), ", ", [](const ProductKind& row) {
    return operands_text(row.a, row.b) + " to " + std::string(to_string(row.c)) + " " +
           std::string(to_string(row.math));
  });
  throw Error(ErrorKind::invalid_argument, "no product of " + operands_text(a, b) +
                                               " with results of " + std::string(to_string(c)) +
                                               " in mode " + std::string(to_string(math)) +
                                               "; there are: " + known);
}

void set_types(Problem& problem, DType operand, DType c, MathMode math) {
  set_types(problem, operand, operand, c, math);
}

double sum_bound(const Problem& problem) {
  const ProductKind* kind = product_kind(problem);
  if (!kind) {
    throw Error(ErrorKind::unsupported, "nothing computes " + types_text(problem) + " " +
                                            std::string(to_string(problem.math)));
  }
  const auto gamma = [](double n, double u) {
    return n * u < 0.5 ? n * u / (1 - n * u) : 2 * n * u;
  };
  const double k = static_cast<double>(problem.k), every = kind->promoted_every;
  if (every == 0 || k <= every) return gamma(k + 2, kind->sum_roundoff);
  return gamma(every + 2, kind->sum_roundoff) +
         gamma(k / every + 2, dtype_info(kind->accumulator).unit_roundoff);
}

double error_bound(const Problem& problem) {
  return std::min(1.0, sum_bound(problem) + product_kind(problem)->product_roundoff);
}

std::string size_text(const Problem& problem) {
  return std::to_string(problem.m) + "x" + std::to_string(problem.n) + "x" +
         std::to_string(problem.k);
}

std::string to_string(const Problem& problem) {
  std::string text = std::string(to_string(layout_of(problem))) + " " + size_text(problem) + " " +
                     types_text(problem) + " " + std::string(to_string(problem.math));
  if (problem.batch != 1) text += " batch " + std::to_string(problem.batch);
  if (problem.pointers) text += " by pointers";
  if (is_grouped(problem))
    text += " grouped by " + std::string(to_string(problem.grouping)) + ", " +
            std::string(to_string(problem.distribution));
  text += " align " + std::to_string(problem.a.alignment) + "," +
          std::to_string(problem.b.alignment) + "," + std::to_string(problem.c.alignment);
  if (problem.epilogue) text += " epilogue \"" + to_string(*problem.epilogue) + '"';
  if (problem.order) text += " order " + order_text(problem);
  return text;
}

double flops_of(const Problem& problem) {
  return 2.0 * static_cast<double>(problem.m) * static_cast<double>(problem.n) *
         mean_depth(problem) * static_cast<double>(matrices_c(problem));
}

double epilogue_bytes(const Problem& problem) {
  if (!problem.epilogue) return 0;
  double bits = 0;
  const auto products = static_cast<double>(problem.batch),
             matrices = static_cast<double>(matrices_c(problem));
  for (const EpilogueSlot& slot : problem.epilogue->operands) {
    const EpilogueShape shape = shape_of(slot, problem);
    bits += double(shape.rows) * double(shape.columns) *
            (is_of_rows(slot.over) ? matrices : products) * bits_of(type_of(slot, problem.c.type));
  }
  return bits / 8;
}

double operand_bytes(const Problem& problem) {
  const auto m = static_cast<double>(problem.m);
  const auto n = static_cast<double>(problem.n);
  const auto k = static_cast<double>(problem.k);
  return (static_cast<double>(matrices_a(problem)) * m * k * bits_of(problem.a.type) +
          static_cast<double>(matrices_b(problem)) * k * n * bits_of(problem.b.type) +
          static_cast<double>(matrices_c(problem)) * m * n * bits_of(problem.c.type)) /
             8 +
         epilogue_bytes(problem);
}

std::vector<Size> parse_sizes(std::string_view text) {
  if (trimmed(text).empty()) {
    throw Error(ErrorKind::invalid_argument,
                "no sizes given; write them as 1024,4096 or MxNxK, as in 1024x512x2048");
  }
  std::vector<Size> sizes;
  for (const std::string_view item : split(text, ",")) {
    const Size size = parse_size(trimmed(item));
    if (std::find(sizes.begin(), sizes.end(), size) == sizes.end()) sizes.push_back(size);
  }
  return sizes;
}

Alignment natural_alignment(const Problem& problem) {
  const auto aligned = [](std::int64_t ld, DType type) {
    return common_alignment({static_cast<std::uint64_t>(bytes_of(type, ld))});
  };
  return {rows_begin_anywhere(problem) ? bytes_of(problem.a.type)
                                       : aligned(min_lda(problem), problem.a.type),
          aligned(min_ldb(problem), problem.b.type), aligned(min_ldc(problem), problem.c.type)};
}

Problem typed_problem(Layout layout, std::int64_t m, std::int64_t n, std::int64_t k, DType operand,
                      DType c, MathMode math, std::int64_t batch) {
  return typed_problem(layout, m, n, k, operand, operand, c, math, batch);
}

Problem typed_problem(Layout layout, std::int64_t m, std::int64_t n, std::int64_t k, DType a,
                      DType b, DType c, MathMode math, std::int64_t batch) {
  Problem problem;
  problem.m = m, problem.n = n, problem.k = k;
  problem.batch = batch;
  set_layout(problem, layout);
  set_types(problem, a, b, c, math);
  set_alignment(problem, natural_alignment(problem));
  return problem;
}

std::int64_t min_lda(const Problem& p) { return p.a.transposed ? p.m : p.k; }
std::int64_t min_ldb(const Problem& p) { return p.b.transposed ? p.k : p.n; }
std::int64_t min_ldc(const Problem& p) { return p.n; }
std::int64_t rows_a(const Problem& p) { return p.a.transposed ? p.k : p.m; }
std::int64_t rows_b(const Problem& p) { return p.b.transposed ? p.n : p.k; }

}  // namespace tilewise

std::size_t std::hash<tilewise::Problem>::operator()(const tilewise::Problem& p) const noexcept {
  // Multiplies and rotates each part into the hash (odd constant: 2^64 over the golden ratio). Hot
  // path: no allocation.
  std::uint64_t h = 0;
  const auto mix = [&h](std::uint64_t value) {
    h = (h ^ value) * 0x9e3779b97f4a7c15u;
    h ^= h >> 29;
  };
  mix(static_cast<std::uint64_t>(p.m));
  mix(static_cast<std::uint64_t>(p.n));
  mix(static_cast<std::uint64_t>(p.k));
  mix(static_cast<std::uint64_t>(p.batch));
  mix(static_cast<std::uint64_t>(layout_of(p)) | static_cast<std::uint64_t>(p.a.type) << 8 |
      static_cast<std::uint64_t>(p.b.type) << 16 | static_cast<std::uint64_t>(p.c.type) << 24 |
      static_cast<std::uint64_t>(p.accumulator) << 32 | static_cast<std::uint64_t>(p.math) << 40 |
      static_cast<std::uint64_t>(p.pointers) << 48 | static_cast<std::uint64_t>(p.grouping) << 49 |
      static_cast<std::uint64_t>(p.distribution) << 51);
  if (p.epilogue) mix(reinterpret_cast<std::uintptr_t>(p.epilogue));
  if (p.order) mix(reinterpret_cast<std::uintptr_t>(p.order));
  mix(static_cast<std::uint64_t>(p.a.alignment) | static_cast<std::uint64_t>(p.b.alignment) << 16 |
      static_cast<std::uint64_t>(p.c.alignment) << 32);
  return static_cast<std::size_t>(h);
}
