#pragma once
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

/// Ways to damage a JSON text: changed bytes, and values that another program might write.
namespace tilewise::proof {

class Mutations {
 public:
  using Json = nlohmann::ordered_json;
  explicit Mutations(std::uint64_t seed) : generator_(seed) {}

  enum class Kind { flips, truncation, depth, type, huge, duplicate, removal, exchange };
  static constexpr std::array kKinds{Kind::flips, Kind::truncation, Kind::depth,   Kind::type,
                                     Kind::huge,  Kind::duplicate,  Kind::removal, Kind::exchange};
  static const char* name(Kind kind) {
    constexpr const char* names[] = {"flipped bits", "truncation",    "nesting", "wrong type",
                                     "huge number",  "duplicate key", "removal", "exchange"};
    return names[static_cast<int>(kind)];
  }

  std::string operator()(Kind kind, const std::string& text) {
    switch (kind) {
      case Kind::flips:
        return flipped(text);
      case Kind::truncation:
        return text.substr(0, below(text.size()));
      case Kind::depth:
        return with_text_for(pick(text), nested());
      case Kind::type:
        return with_text_for(pick(text), any(kOtherTypes));
      case Kind::huge:
        return with_text_for(pick(text, &Json::is_number), any(kHugeNumbers));
      case Kind::duplicate:
        return duplicated(text);
      case Kind::removal:
        return removed(text);
      case Kind::exchange:
        return exchanged(text);
    }
    return text;
  }

  std::uint64_t below(std::uint64_t limit) { return generator_() % limit; }

 private:
  static constexpr const char* kMark = "here it is";
  static inline const std::vector<std::string> kOtherTypes{
      "null",      "true",    "\"text\"",    "\"\"",        "7",
      "-1",        "0.5",     "[]",          "{}",          "[[1]]",
      "{\"a\":1}", "[1,2,3]", "\"\\u0000\"", "\"\\ud800\"", "\"'; DROP TABLE records; --\""};
  static inline const std::vector<std::string> kHugeNumbers{"1e999",
                                                            "-1e999",
                                                            "1e308",
                                                            "1e-400",
                                                            "18446744073709551615",
                                                            "18446744073709551616",
                                                            "9223372036854775807",
                                                            "9223372036854775808",
                                                            "-9223372036854775808",
                                                            "-9223372036854775809",
                                                            "2147483648",
                                                            "-2147483649",
                                                            "4294967296",
                                                            "0",
                                                            "-0.0",
                                                            "NaN",
                                                            "Infinity",
                                                            "1" + std::string(400, '0'),
                                                            "0." + std::string(400, '3')};

  const std::string& any(const std::vector<std::string>& list) { return list[below(list.size())]; }

  std::string flipped(std::string text) {
    for (std::uint64_t left = 1 + below(4); left > 0; --left)
      text[below(text.size())] ^= static_cast<char>(1 << below(8));
    return text;
  }

  std::string nested() {
    constexpr int depths[] = {10, 30, 33, 100, 5000, 75000};
    const int depth = depths[below(std::size(depths))];
    const bool objects = below(3) == 0, closed = below(2) == 0;
    std::string text;
    for (int i = 0; i < depth; ++i) text += objects ? "{\"a\":" : "[";
    text += "1";
    for (int i = 0; closed && i < depth; ++i) text += objects ? "}" : "]";
    return text;
  }

  static void collect(Json& json, std::vector<Json*>& values) {
    values.push_back(&json);
    if (json.is_structured())
      for (Json& child : json) collect(child, values);
  }
  std::vector<Json*> values_of(Json& document) {
    std::vector<Json*> values;
    collect(document, values);
    return values;
  }
  /// The document with a mark instead of a random value that `is` accepts. The mark never replaces
  /// the whole document.
  Json pick(const std::string& text, bool (Json::*is)() const noexcept = nullptr) {
    Json document = Json::parse(text);
    std::vector<Json*> values = values_of(document);
    values.erase(values.begin());
    if (is) std::erase_if(values, [is](const Json* value) { return !(value->*is)(); });
    // Half of the picks are at the top level, which has whole arrays.
    const bool top = !is && below(2) == 0;
    if (top) {
      auto at = document.begin();
      std::advance(at, below(document.size()));
      values = values_of(*at);
      if (below(2) == 0) values.resize(1);
    }
    *values[below(values.size())] = kMark;
    return document;
  }
  static std::string with_text_for(const Json& marked, const std::string& value) {
    std::string text = marked.dump();
    const std::string mark = '"' + std::string(kMark) + '"';
    return text.replace(text.find(mark), mark.size(), value);
  }

  /// Duplicates a line with a plain value, before or after it.
  std::string duplicated(const std::string& text) {
    std::vector<std::size_t> lines;
    for (std::size_t at = 0; (at = text.find("\": ", at)) != text.npos; ++at)
      if (text[at + 3] != '[' && text[at + 3] != '{') lines.push_back(text.rfind('\n', at) + 1);
    const std::size_t line = lines[below(lines.size())];
    const std::size_t colon = text.find("\": ", line);
    const std::string key = text.substr(line, colon - line);
    std::string changed = text;
    return changed.insert(
        line, key + "\": " + (below(2) == 0 ? any(kOtherTypes) : any(kHugeNumbers)) + ",\n");
  }

  std::string removed(const std::string& text) {
    Json document = Json::parse(text);
    std::vector<Json*> values = values_of(document);
    std::erase_if(values,
                  [](const Json* value) { return !value->is_structured() || value->empty(); });
    Json& from = *values[below(values.size())];
    auto at = from.begin();
    std::advance(at, below(from.size()));
    from.erase(at);
    return document.dump();
  }

  std::string exchanged(const std::string& text) {
    Json document = Json::parse(text);
    std::vector<Json*> leaves = values_of(document);
    std::erase_if(leaves, [](const Json* value) { return value->is_structured(); });
    std::swap(*leaves[below(leaves.size())], *leaves[below(leaves.size())]);
    return document.dump();
  }

  std::mt19937_64 generator_;
};

}  // namespace tilewise::proof
