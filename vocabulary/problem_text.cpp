#include "vocabulary/problem_text.hpp"

#include <array>

#include "tilewise/error.hpp"
#include "vocabulary/text.hpp"

namespace tilewise {
namespace {

std::string option(const char* name, std::string_view value) {
  return std::string(" --") + name + " " + std::string(value);
}

/// Options for types, mode, batch, epilogue and order, without defaults.
std::string kind_options(const Problem& problem) {
  std::string options;
  if (problem.a.type != DType::f32) options += option("dtype", to_string(problem.a.type));
  if (problem.b.type != problem.a.type) options += option("dtype-b", to_string(problem.b.type));
  if (problem.c.type != default_result(problem.a.type))
    options += option("out", to_string(problem.c.type));
  if (problem.math != MathMode::strict) options += option("math", to_string(problem.math));
  if (is_grouped(problem)) {
    options += option("groups", std::to_string(problem.batch));
    if (problem.grouping != Grouping::rows)
      options += option("grouped", to_string(problem.grouping));
    if (problem.distribution != Distribution::even)
      options += option("distribution", to_string(problem.distribution));
  } else if (problem.batch != 1) {
    options += option("batch", std::to_string(problem.batch));
  }
  if (problem.epilogue) options += option("epilogue", "'" + epilogue_text(problem) + "'");
  if (problem.order) options += option("order", order_text(problem));
  return options;
}

}  // namespace

std::string kind_text(const Problem& problem) {
  std::string text = operands_text(problem.a.type, problem.b.type);
  if (problem.c.type != default_result(problem.a.type))
    text += " to " + std::string(to_string(problem.c.type));
  if (problem.math != MathMode::strict) text += " by " + std::string(to_string(problem.math));
  return text;
}

std::string table_text(const Problem& problem) {
  std::string text = std::string(to_string(layout_of(problem))) + " " + size_text(problem);
  if (const std::string kind = kind_text(problem); kind != "f32") text += " " + kind;
  if (problem.batch != 1) text += " batch " + std::to_string(problem.batch);
  if (is_grouped(problem)) text += " grouped by " + grouping_text(problem);
  if (problem.epilogue) text += " epilogue " + epilogue_text(problem);
  if (problem.order) text += " order " + order_text(problem);
  return text;
}

std::string alignment_text(const Alignment& alignment) {
  return join(std::array{alignment.a, alignment.b, alignment.c}, ",");
}

std::string kind_name(const ProductKind& kind) {
  const bool of_f32 = kind.math == MathMode::tf32 || kind.math == MathMode::f32x3;
  std::string name(of_f32 ? to_string(kind.math) : to_string(kind.a));
  if (kind.b != kind.a) name += "x" + std::string(to_string(kind.b));
  if (kind.math == MathMode::fast || kind.math == MathMode::emulated)
    name += "-" + std::string(to_string(kind.math));
  if (kind.c != default_result(kind.a)) name += ":" + std::string(to_string(kind.c));
  return name;
}

std::string kind_name(const Problem& problem) {
  const ProductKind* kind = product_kind(problem);
  if (!kind) throw Error(ErrorKind::unsupported, "nothing computes " + to_string(problem));
  return kind_name(*kind);
}

const ProductKind& parse_kind(std::string_view name) {
  for (const ProductKind& kind : product_kinds())
    if (kind_name(kind) == name) return kind;
  throw Error(ErrorKind::invalid_argument,
              "'" + std::string(name) + "' is no kind of product; there are all, or any of " +
                  join(product_kinds(), ", ", [](const ProductKind& x) { return kind_name(x); }));
}

std::vector<std::string> option_words(const std::string& options) {
  std::vector<std::string> words;
  for (const std::string& word : words_of(options)) {
    // Epilogues are in quotes, and have no blanks.
    const bool quoted = word.size() > 1 && word.front() == '\'' && word.back() == '\'';
    words.emplace_back(quoted ? word.substr(1, word.size() - 2) : word);
  }
  return words;
}

std::string problem_options(const Problem& problem) {
  return "--sizes " + size_text(problem) + option("layout", to_string(layout_of(problem))) +
         option("align", alignment_text(alignment_of(problem))) + kind_options(problem);
}

std::string tune_options(const Problem& asked) {
  const Problem problem = tuned_as(asked);
  std::string options = option("sizes", size_text(problem));
  if (layout_of(problem) != Layout::nn) options += option("layout", to_string(layout_of(problem)));
  options += kind_options(problem);
  const Alignment natural = natural_alignment(problem);
  if (alignment_of(problem) != natural)
    options += option("align", alignment_text(alignment_of(problem)));
  return options;
}

}  // namespace tilewise
