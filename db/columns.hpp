#pragma once
#include <bit>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "db/sqlite.hpp"
#include "vocabulary/enum_names.hpp"
#include "vocabulary/fields.hpp"

// Columns of stored structs, from their fields(). A field is a column of its name; the fields of a
// nested struct are columns of the same row. The row of a struct with a Problem has problem_id. The
// row of a struct with an Environment has environment_id and the per_row fields.
namespace tilewise {

/// Sample times as a JSON array; NaN and infinities are null, since SQLite stores them as NULL.
std::string samples_text(const std::vector<double>& samples);
/// Throws Error(invalid_argument).
std::vector<double> parse_samples(const std::string& text);

/// A struct whose fields are columns in the row of the enclosing struct.
template <class T>
concept Nested =
    std::same_as<T, Candidate> || std::same_as<T, Measurement> || std::same_as<T, ResourceUsage>;

/// The part of an Environment: the table environments, or the row that refers to it.
enum class EnvironmentPart : std::uint8_t { shared, per_row };
inline bool is_in(std::optional<EnvironmentPart> part, const Field& about) {
  return !part || (*part == EnvironmentPart::per_row) == about.per_row;
}

// One value ---------------------------------------------------------------------------------------

/// The value of a column: enums by name, configurations and samples as text, and unsigned numbers
/// bit by bit, since SQLite's are signed.
template <class T>
decltype(auto) stored(const T& value) {
  if constexpr (Enumeration<T>)
    return to_string(value);
  else if constexpr (std::same_as<T, Configuration>)
    return value.text();
  else if constexpr (std::same_as<T, std::vector<double>>)
    return samples_text(value);
  else if constexpr (std::same_as<T, std::uint64_t>)
    return std::bit_cast<std::int64_t>(value);
  else
    return (value);
}

/// Reads a value of stored(). Throws Error(invalid_argument) for a name that this version lacks.
template <class T>
void read_stored(Query& row, T& out) {
  if constexpr (std::same_as<T, std::uint64_t>) {
    out = std::bit_cast<std::uint64_t>(row.next<std::int64_t>());
  } else if constexpr (Enumeration<T> || std::same_as<T, Configuration> ||
                       std::same_as<T, std::vector<double>>) {
    const auto text = row.next<std::string>();
    if constexpr (std::same_as<T, Layout>)
      out = parse_layout(text);
    else if constexpr (std::same_as<T, DType>)
      out = parse_dtype(text);
    else if constexpr (std::same_as<T, MathMode>)
      out = parse_math_mode(text);
    else if constexpr (Enumeration<T>)
      out = parse_named<T>(text, "name");
    else if constexpr (std::same_as<T, Configuration>)
      out = Configuration::parse(text);
    else
      out = parse_samples(text);
  } else {
    row.read(out);
  }
}

template <class T>
constexpr const char* sql_type() {
  if constexpr (std::floating_point<T>)
    return "REAL";
  else if constexpr (std::integral<T>)
    return "INTEGER";
  else
    return "TEXT";
}

// A struct's columns ------------------------------------------------------------------------------

/// Lists the columns of a struct.
class Columns {
 public:
  struct Column {
    std::string name, definition;  ///< definition: "TEXT NOT NULL"
  };
  /// Columns of a struct whose row is `alias` in a query: "r". For an Environment, its shared part.
  template <class T>
  static Columns of(const std::string& alias) {
    Columns columns;
    columns.alias_ = alias;
    if constexpr (std::same_as<T, Environment>) columns.part_ = EnvironmentPart::shared;
    const T value{};
    fields(columns, value);
    return columns;
  }

  /// The row's own columns, without id and hash.
  const std::vector<Column>& own() const { return own_; }
  /// "gpu TEXT NOT NULL, ..."
  std::string definitions() const;
  /// "gpu, kernel_template, ..."
  std::string names() const;
  /// The columns for ReadFields: "p.layout, ..., r.gpu, ..., e.driver, ...".
  const std::string& selected() const { return selected_; }

  template <class T>
  void operator()(const char* key, const T& value, const Field& about = {}) {
    if constexpr (std::same_as<T, Problem>) {
      own_.push_back({"problem_id", "INTEGER NOT NULL REFERENCES problems (id)"});
      select(of<Problem>("p").selected_);
    } else if constexpr (std::same_as<T, Environment>) {
      own_.push_back({"environment_id", "INTEGER NOT NULL REFERENCES environments (id)"});
      part_ = EnvironmentPart::per_row;
      fields(*this, value);
      part_.reset();
    } else if constexpr (std::same_as<T, std::optional<Measurement>>) {
      select(alias_ + ".samples IS NOT NULL");
      optional_ = true;
      const Measurement inner{};
      fields(*this, inner);
      optional_ = false;
    } else if constexpr (Nested<T>) {
      fields(*this, value);
    } else {
      add(key, sql_type<T>(), literal(stored(value)), about);
    }
  }

 private:
  static std::string literal(double) { return "0"; }
  static std::string literal(std::integral auto) { return "0"; }
  static std::string literal(std::string_view text) { return "'" + std::string(text) + "'"; }
  void select(const std::string& expression);
  void add(const std::string& name, const std::string& type, const std::string& fallback,
           const Field& about);

  std::string alias_, selected_;
  std::vector<Column> own_;
  std::optional<EnvironmentPart> part_;  ///< set while an Environment's fields are visited
  bool optional_ = false;
};

/// Reads a struct from the columns that Columns::selected() lists.
class ReadFields {
 public:
  explicit ReadFields(Query& row) : row_(row) {}
  template <class T>
  void operator()(const char*, T& out, const Field& = {}) {
    if constexpr (std::same_as<T, std::optional<Measurement>>) {
      static const int columns = static_cast<int>(Columns::of<Measurement>("").own().size());
      if (row_.next<bool>())
        fields(*this, out.emplace());
      else
        row_.skip(columns);
    } else if constexpr (Nested<T> || std::same_as<T, Environment> || std::same_as<T, Problem>) {
      fields(*this, out);
    } else {
      read_stored(row_, out);
    }
  }

 private:
  Query& row_;
};

/// Binds the row's own columns, in the order of Columns::own().
class BindFields {
 public:
  /// Binds also the ids of the struct's problem and environment, if it has them.
  explicit BindFields(Query& query, std::int64_t problem = 0, std::int64_t environment = 0)
      : query_(query), problem_(problem), environment_(environment) {}
  /// Binds the shared part.
  void bind_shared(const Environment& value) {
    part_ = EnvironmentPart::shared;
    fields(*this, value);
    part_.reset();
  }
  template <class T>
  void operator()(const char*, const T& value, const Field& about = {}) {
    if constexpr (std::same_as<T, Problem>) {
      query_.bind(problem_);
    } else if constexpr (std::same_as<T, Environment>) {
      query_.bind(environment_);
      part_ = EnvironmentPart::per_row;
      fields(*this, value);
      part_.reset();
    } else if constexpr (std::same_as<T, std::optional<Measurement>>) {
      const Measurement none{};
      absent_ = !value;
      fields(*this, value ? *value : none);
      absent_ = false;
    } else if constexpr (Nested<T>) {
      fields(*this, value);
    } else if (!about.id && is_in(part_, about)) {
      if (absent_)
        query_.bind(nullptr);
      else
        query_.bind(stored(value));
    }
  }

 private:
  Query& query_;
  std::int64_t problem_, environment_;
  std::optional<EnvironmentPart> part_;
  bool absent_ = false;
};

}  // namespace tilewise
