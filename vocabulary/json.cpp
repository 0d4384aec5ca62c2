// The JSON forms of the vocabulary; fields.hpp lists the keys of each struct.
// Doubles keep every bit; NaN and infinity are the strings "nan", "inf" and "-inf". An absent key
// leaves the field's default; a required key must be present.
#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "tilewise/error.hpp"
#include "vocabulary/enum_names.hpp"
#include "vocabulary/epilogue.hpp"
#include "vocabulary/fields.hpp"
#include "vocabulary/problem.hpp"
#include "vocabulary/record.hpp"
#include "vocabulary/text.hpp"

namespace tilewise {
namespace {

using Json = nlohmann::ordered_json;

std::string shown(const Json& json) {
  // Messages of a compiler or driver may have invalid UTF-8, which is replaced.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// A JSON value being read; `where` is its path, for messages.
struct Reader {
  const Json& json;
  std::string where;

  [[noreturn]] void bad(const std::string& expected) const {
    throw Error(ErrorKind::invalid_argument, "bad JSON: " + where + " must be " + expected +
                                                 ", not " + shown(json).substr(0, 80));
  }
  Reader at(std::size_t index) const {
    return {json[index], where + "[" + std::to_string(index) + "]"};
  }
  template <class T>
  void operator()(const char* key, T& out, const Field& about = {}) const {
    const auto found = json.find(key);
    if (found != json.end())
      read(Reader{*found, where + "." + key}, out);
    else if (about.required)
      bad(std::string("an object with the key \"") + key + "\"");
  }
};

/// A JSON value being written.
struct Writer {
  Json json;

  template <class T>
  void operator()(const char* key, const T& value, const Field& = {}) {
    Writer inner;
    write(inner, value);
    json[key] = std::move(inner.json);
  }
};

// Plain values ------------------------------------------------------------------------------------

template <class T>
void write(Writer& out, const T& value) {
  out.json = Json::object();
  fields(out, value);
}

template <class T>
void read(const Reader& in, T& out) {
  if (!in.json.is_object()) in.bad("an object");
  fields(in, out);
}

void write(Writer& out, const std::string& value) { out.json = value; }

void read(const Reader& in, std::string& out) {
  if (!in.json.is_string()) in.bad("a string");
  out = in.json.get<std::string>();
}

void write(Writer& out, bool value) { out.json = value; }

void read(const Reader& in, bool& out) {
  if (!in.json.is_boolean()) in.bad("true or false");
  out = in.json.get<bool>();
}

void write(Writer& out, const std::integral auto& value) { out.json = value; }

template <std::integral T>
void read(const Reader& in, T& out) {
  using Limits = std::numeric_limits<T>;
  const Json& json = in.json;
  const bool fits = json.is_number_unsigned()  ? std::in_range<T>(json.get<std::uint64_t>())
                    : json.is_number_integer() ? std::in_range<T>(json.get<std::int64_t>())
                                               : false;
  if (!fits) {
    in.bad("a whole number from " + std::to_string(Limits::min()) + " to " +
           std::to_string(Limits::max()));
  }
  out = json.get<T>();
}

void write(Writer& out, double value) {
  if (std::isnan(value)) {
    out.json = "nan";
  } else if (std::isinf(value)) {
    out.json = value > 0 ? "inf" : "-inf";
  } else {
    out.json = value;
  }
}

void read(const Reader& in, double& out) {
  if (in.json.is_number()) {
    out = in.json.get<double>();
  } else if (in.json == "nan") {
    out = std::numeric_limits<double>::quiet_NaN();
  } else if (in.json == "inf" || in.json == "-inf") {
    out = std::numeric_limits<double>::infinity() * (in.json == "inf" ? 1 : -1);
  } else {
    in.bad("a number, \"nan\", \"inf\" or \"-inf\"");
  }
}

template <class T>
void write(Writer& out, const std::vector<T>& values) {
  out.json = Json::array();
  for (const T& value : values) {
    Writer item;
    write(item, value);
    out.json.push_back(std::move(item.json));
  }
}

template <class T>
void read(const Reader& in, std::vector<T>& out) {
  if (!in.json.is_array()) in.bad("an array");
  out.assign(in.json.size(), T{});
  for (std::size_t i = 0; i < out.size(); ++i) read(in.at(i), out[i]);
}

template <class T>
void write(Writer& out, const std::optional<T>& value) {
  if (value) write(out, *value);
}

template <class T>
void read(const Reader& in, std::optional<T>& out) {
  if (!in.json.is_null()) read(in, out.emplace());
}

// Enums, by name ----------------------------------------------------------------------------------

void write(Writer& out, const Enumeration auto& value) { out.json = to_string(value); }

template <Enumeration Enum>
void read(const Reader& in, Enum& out) {
  const auto value = in.json.is_string() ? named<Enum>(in.json.get<std::string>()) : std::nullopt;
  if (!value) in.bad("one of " + names_of<Enum>());
  out = *value;
}

// Forms of their own ------------------------------------------------------------------------------

void write(Writer& out, const Configuration& value) {
  out.json = Json::object();
  for (const auto& [name, number] : value.values()) out.json[name] = number;
}

void read(const Reader& in, Configuration& out) {
  if (!in.json.is_object()) in.bad("an object");
  for (const auto& [name, number] : in.json.items()) {
    int value = 0;
    read(Reader{number, in.where + "." + name}, value);
    out.set(name, value);
  }
}

using Defines = std::map<std::string, std::int64_t>;

void write(Writer& out, const Defines& defines) {
  out.json = Json::object();
  for (const auto& [name, number] : defines) out.json[name] = number;
}

void read(const Reader& in, Defines& out) {
  if (!in.json.is_object()) in.bad("an object");
  for (const auto& [name, number] : in.json.items()) {
    read(Reader{number, in.where + "." + name}, out[name]);
  }
}

void write(Writer& out, const Target& target) { out.json = to_string(target); }

void read(const Reader& in, Target& out) {
  std::string text;
  read(in, text);
  out = parse_target(text);
}

void write(Writer& out, const Features& features) {
  out.json = Json::array();
  for (std::size_t i = 0; i < features.size(); ++i) {
    if (features.test(i)) out.json.push_back(to_string(static_cast<Feature>(i)));
  }
}

/// Skips unknown names, which are features that this version does not use.
void read(const Reader& in, Features& out) {
  std::vector<std::string> names;
  read(in, names);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto name = to_string(static_cast<Feature>(i));
    out.set(i, std::find(names.begin(), names.end(), name) != names.end());
  }
}

void write(Writer& out, const Dim3& d) { out.json = {d.x, d.y, d.z}; }

void read(const Reader& in, Dim3& out) {
  std::vector<std::uint32_t> values;
  read(in, values);
  if (values.size() != 3) in.bad("three numbers");
  out = {values[0], values[1], values[2]};
}

void write(Writer& out, const Alignment& alignment) {
  out.json = {alignment.a, alignment.b, alignment.c};
}

void read(const Reader& in, Alignment& out) {
  std::vector<int> values;
  read(in, values);
  const bool good = std::all_of(values.begin(), values.end(), [](int value) {
    return value == common_alignment({static_cast<std::uint64_t>(value)});
  });
  if (values.size() != 3 || !good) in.bad("three powers of two, 1 .. 16");
  out = {values[0], values[1], values[2]};
}

// Problem: its four types are one key, "f32" for all or "A,B,C,accumulator" ----------------------

struct Extent {
  std::int64_t& value;
  std::int64_t least;
};

void read(const Reader& in, Extent& out) {
  read(in, out.value);
  if (out.value < out.least || out.value > std::int64_t{1} << 40) {
    in.bad(std::to_string(out.least) + " .. 2^40");
  }
}

using Types = std::array<DType, 4>;

void write(Writer& out, const Types& types) {
  const bool alike = types == Types{types[0], types[0], types[0], types[0]};
  out.json = alike ? std::string(to_string(types[0])) : join(types, ",");
}

void read(const Reader& in, Types& out) {
  std::string names;
  read(in, names);
  std::vector<DType> types;
  for (std::size_t begin = 0; begin <= names.size();) {
    const std::size_t end = std::min(names.find(',', begin), names.size());
    types.push_back(parse_dtype(std::string_view(names).substr(begin, end - begin)));
    begin = end + 1;
  }
  if (types.size() == 1) types.resize(4, types.front());
  if (types.size() != 4) in.bad("one type, or four: A,B,C,accumulator");
  std::copy(types.begin(), types.end(), out.begin());
}

void write(Writer& out, const Problem& x) {
  out("layout", layout_of(x));
  out("m", x.m);
  out("n", x.n);
  out("k", x.k);
  out("dtype", Types{x.a.type, x.b.type, x.c.type, x.accumulator});
  out("math", x.math);
  out("batch", x.batch);
  out("align", alignment_of(x));
  if (x.epilogue) out("epilogue", to_string(*x.epilogue));
  if (x.order) out("order", order_text(x));
  if (is_grouped(x)) out("grouped", grouping_text(x));
}

void read(const Reader& in, Problem& out) {
  if (!in.json.is_object()) in.bad("an object");
  Extent m{out.m, 0}, n{out.n, 0}, k{out.k, 0}, batch{out.batch, 1};
  Types types{out.a.type, out.b.type, out.c.type, out.accumulator};
  Layout layout = layout_of(out);
  Alignment alignment = alignment_of(out);
  in("layout", layout, kRequired);
  in("m", m, kRequired);
  in("n", n, kRequired);
  in("k", k, kRequired);
  in("dtype", types);
  in("math", out.math);
  in("batch", batch);
  in("align", alignment);
  std::string epilogue, order, grouped;
  in("epilogue", epilogue);
  out.epilogue = interned(epilogue);
  in("order", order);
  set_order(out, order);
  in("grouped", grouped);
  set_grouping(out, grouped);
  set_layout(out, layout);
  set_alignment(out, alignment);
  out.a.type = types[0];
  out.b.type = types[1];
  out.c.type = types[2];
  out.accumulator = types[3];
}

// Text --------------------------------------------------------------------------------------------

template <class T>
std::string text_of(const T& value) {
  Writer out;
  write(out, value);
  return shown(out.json);
}

template <class T>
T parsed(std::string_view text, const char* name) {
  if (nests_deeper(text)) {
    throw Error(ErrorKind::invalid_argument, std::string("bad JSON: a ") + name +
                                                 " with brackets nested more than " +
                                                 std::to_string(kMostJsonDepth) + " deep");
  }
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) {
    throw Error(ErrorKind::invalid_argument,
                std::string("bad JSON: no ") + name + " in " + std::string(text.substr(0, 80)));
  }
  T value{};
  read(Reader{json, name}, value);
  return value;
}

}  // namespace

bool nests_deeper(std::string_view json, int most) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char letter = json[i];
    if (in_string) {
      if (letter == '\\') ++i;  // an escaped character does not end the string
      if (letter == '"') in_string = false;
    } else if (letter == '"') {
      in_string = true;
    } else if (letter == '[' || letter == '{') {
      if (++depth > most) return true;
    } else if (letter == ']' || letter == '}') {
      --depth;
    }
  }
  return false;
}

std::string to_json(const Problem& problem) { return text_of(problem); }
std::string to_json(const Candidate& candidate) { return text_of(candidate); }
std::string to_json(const Measurement& measurement) { return text_of(measurement); }
std::string to_json(const Environment& environment) { return text_of(environment); }
std::string to_json(const Record& record) { return text_of(record); }
std::string to_json(const Baseline& baseline) { return text_of(baseline); }
std::string to_json(const Search& search) { return text_of(search); }
std::string to_json(const KeptOrder& order) { return text_of(order); }
std::string to_json(const DeviceInfo& info) { return text_of(info); }
std::string to_json(const DeviceFacts& facts) { return text_of(facts); }
std::string to_json(const Plan& plan) { return text_of(plan); }
Problem problem_from_json(std::string_view text) { return parsed<Problem>(text, "problem"); }
Plan plan_from_json(std::string_view text) { return parsed<Plan>(text, "plan"); }
Measurement measurement_from_json(std::string_view text) {
  return parsed<Measurement>(text, "measurement");
}
Record record_from_json(std::string_view text) { return parsed<Record>(text, "record"); }
Baseline baseline_from_json(std::string_view text) { return parsed<Baseline>(text, "baseline"); }
KeptOrder kept_order_from_json(std::string_view text) { return parsed<KeptOrder>(text, "order"); }
DeviceFacts device_facts_from_json(std::string_view text) {
  return parsed<DeviceFacts>(text, "device_facts");
}
DeviceInfo device_info_from_json(std::string_view text) {
  return parsed<DeviceInfo>(text, "device_info");
}

}  // namespace tilewise
