#include "matmul/portfolio.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <functional>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <unordered_map>

#include "db/base64.hpp"
#include "matmul/embedded_portfolios.hpp"
#include "matmul/prediction.hpp"
#include "templates/cost_model.hpp"
#include "templates/kernel_template.hpp"
#include "tilewise/error.hpp"
#include "tilewise/version.hpp"
#include "vocabulary/problem_text.hpp"

namespace tilewise {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kPortfolioFormat = "tilewise portfolio";
constexpr int kPortfolioVersion = 1;

// Separates the records from the corrections in a text made by portfolio_text(). The two are needed
// at different times, and each takes milliseconds to read.
constexpr std::string_view kThenCorrections = ",\n \"corrections\": ";

void set_time(Record& record, const Json& us) {
  record.measurement->median_us = us.get<double>();
  if (!(record.measurement->median_us >= 0))
    throw Error(ErrorKind::invalid_argument, "a time is not " + us.dump() + " us");
}

/// An element of an "also", which is read a thousand times in a process's first product: parsing it
/// as a problem would take several times as long.
std::int64_t whole(const Json& also, std::size_t index, std::int64_t least, std::int64_t most) {
  const Json& value = also.at(index);
  if (!value.is_number_integer() || value < least || value > most)
    throw Error(ErrorKind::invalid_argument, "also has " + value.dump() + " where a number from " +
                                                 std::to_string(least) + " to " +
                                                 std::to_string(most) + " is allowed");
  return value.get<std::int64_t>();
}

void set_size(Record& record, const Json& also) {
  if (!also.is_array() || also.size() != 7)
    throw Error(ErrorKind::invalid_argument,
                "also has m, n, k, three alignments and a time, not " + also.dump());
  constexpr std::int64_t kLargest = std::int64_t{1} << 40;
  record.problem.m = whole(also, 0, 0, kLargest);
  record.problem.n = whole(also, 1, 0, kLargest);
  record.problem.k = whole(also, 2, 0, kLargest);
  int alignments[3];
  for (std::size_t i = 0; i < 3; ++i) {
    alignments[i] = static_cast<int>(whole(also, 3 + i, 1, 16));
    if (!std::has_single_bit(static_cast<unsigned>(alignments[i])))
      throw Error(ErrorKind::invalid_argument,
                  "an alignment is 1, 2, 4, 8 or 16, not " + also.at(3 + i).dump());
  }
  set_alignment(record.problem, {alignments[0], alignments[1], alignments[2]});
  set_time(record, also.at(6));
}

/// Adds the record of a line, and those of its "also": further sizes of the same kind of product.
void add_records(std::vector<Record>& records, const Json& json, const std::string& gpu) {
  const Json& problem = json.at("problem");
  Record record;
  json.at("template").get_to(record.candidate.kernel_template);
  for (const auto& [name, value] : json.at("configuration").items())
    record.candidate.configuration.set(name, value.get<int>());
  record.gpu = gpu;
  record.origin = Origin::shipped;
  record.outcome = Outcome::ok;
  record.measurement = Measurement{};
  record.environment.host = gpu.substr(0, gpu.find('|'));
  if (const KernelTemplate* kernel = known_template(record.candidate.kernel_template)) {
    record.launch_revision = launch_revision(*kernel);
    record.candidate.configuration = with_added(*kernel, std::move(record.candidate.configuration));
  }
  record.problem = problem_from_json(problem.dump());
  set_time(record, json.at("us"));
  records.push_back(record);
  if (!json.contains("also")) return;
  for (const Json& also : json.at("also").get_ref<const Json::array_t&>()) {
    set_size(record, also);
    records.push_back(record);
  }
}

/// Scales the records of one GPU to another.
void scale(std::vector<Record>& records, const DeviceInfo& from, const DeviceInfo& to) {
  for (Record& record : records) {
    record.gpu = gpu_key(to);
    const KernelTemplate* kernel = known_template(record.candidate.kernel_template);
    const auto time_on = [&](const DeviceInfo& device) {
      if (!kernel ||
          !rejection(*kernel, record.problem, record.candidate.configuration, device).empty())
        return 0.0;
      return cost_of(record.candidate, record.problem, device).seconds;
    };
    const double here = time_on(to), there = here > 0 ? time_on(from) : 0;
    if (there > 0) record.measurement->median_us *= here / there;
  }
}

/// The embedded text of a GPU's portfolio; empty without one.
std::string_view shipped_text(const std::string& gpu) {
  const std::string quoted = "\"gpu\": " + Json(gpu).dump();
  for (int i = 0; i < kEmbeddedPortfolioCount; ++i) {
    const std::string_view text = kEmbeddedPortfolios[i].text;
    if (text.substr(0, text.find("\"records\"")).find(quoted) != std::string_view::npos)
      return text;
  }
  return {};
}

/// The problem that a record serves besides its own: of 16-bit floats the same product of the other
/// one, of f32 and f64 the emulated product. The kernels of both take equal times.
std::optional<Problem> of_other_kind(const Problem& problem) {
  const auto other = [](DType type) {
    if (type == DType::f16) return DType::bf16;
    return type == DType::bf16 ? DType::f16 : type;
  };
  Problem of_other = problem;
  for (Operand* operand : {&of_other.a, &of_other.b, &of_other.c})
    operand->type = other(operand->type);
  const bool strict = problem.math == MathMode::strict && !problem.order;
  if (strict && (problem.a.type == DType::f32 || problem.a.type == DType::f64))
    of_other.math = MathMode::emulated;
  if (of_other == problem || !product_kind(of_other)) return std::nullopt;
  return of_other;
}

/// The records of a portfolio, and once more those that serve another kind of product.
std::vector<Record> records_of(std::string_view text) {
  const std::size_t end = text.rfind(kThenCorrections);
  std::vector<Record> records =
      read_portfolio(end == std::string_view::npos ? std::string(text)
                                                   : std::string(text.substr(0, end)) + "}")
          .records;
  std::vector<const Record*> own;
  for (const Record& record : records) own.push_back(&record);
  std::vector<Record> others = records_of_other_kinds(own);
  records.insert(records.end(), std::make_move_iterator(others.begin()),
                 std::make_move_iterator(others.end()));
  return records;
}

/// The records of the portfolios of GPUs that `of` accepts, scaled to the device.
std::vector<Record> scaled_records(const DeviceInfo& device,
                                   const std::function<bool(const Target&)>& of) {
  std::vector<Record> all;
  for (int i = 0; i < kEmbeddedPortfolioCount; ++i) {
    std::vector<Record> records = records_of(kEmbeddedPortfolios[i].text);
    if (records.empty()) continue;
    const DeviceInfo other = nominal_from_key(records.front().gpu);
    if (!of(other.target)) continue;
    scale(records, other, device);
    all.insert(all.end(), records.begin(), records.end());
  }
  return all;
}

}  // namespace

std::vector<Record> records_of_other_kinds(std::span<const Record* const> records) {
  std::unordered_map<Problem, std::vector<const Candidate*>> known;
  for (const Record* record : records) known[record->problem].push_back(&record->candidate);
  std::vector<Record> others;
  for (const Record* record : records) {
    const std::optional<Problem> other = of_other_kind(record->problem);
    if (!other) continue;
    const auto own = known.find(*other);
    if (own != known.end() &&
        std::any_of(own->second.begin(), own->second.end(),
                    [&](const Candidate* x) { return *x == record->candidate; }))
      continue;
    others.push_back(*record);
    others.back().problem = *other;
    others.back().id = 0;
    others.back().source_hash = "";
  }
  return others;
}

std::vector<std::string> portfolio_gpus(const Target& target) {
  std::vector<std::string> keys;
  for (int i = 0; i < kEmbeddedPortfolioCount; ++i) {
    const std::vector<Record> records = records_of(kEmbeddedPortfolios[i].text);
    if (!records.empty() && nominal_from_key(records.front().gpu).target == target)
      keys.push_back(records.front().gpu);
  }
  return keys;
}

std::string portfolio_images_name(const Target& target) {
  return "tilewise-" + std::string(version_text()) + "-" + to_string(target) + ".images";
}

std::vector<Record> portfolio_for(const DeviceInfo& device) {
  if (device.target.host) return {};
  if (const std::string_view own = shipped_text(gpu_key(device)); !own.empty())
    return records_of(own);
  std::vector<Record> alike = portfolios_of_capability(device);
  if (!alike.empty() || !can_estimate(device)) return alike;
  std::vector<Record> others = scaled_records(device, [](const Target&) { return true; });
  std::erase_if(others, [&](const Record& record) {
    const KernelTemplate* kernel = known_template(record.candidate.kernel_template);
    return !kernel ||
           !rejection(*kernel, record.problem, record.candidate.configuration, device).empty();
  });
  return others;
}

std::vector<Record> portfolios_of_capability(const DeviceInfo& device) {
  if (device.target.host) return {};
  return scaled_records(device, [&](const Target& other) {
    return other.major == device.target.major && other.minor == device.target.minor;
  });
}

std::optional<Corrections> portfolio_corrections(const Problem& problem, const DeviceInfo& device) {
  const std::string_view text = shipped_text(gpu_key(device));
  const std::size_t place = text.rfind(kThenCorrections);
  if (place == std::string_view::npos) return std::nullopt;
  const Json json = Json::parse("{" + std::string(text.substr(place + 1)));
  for (const std::optional<Problem>& kind : {std::optional(problem), of_other_kind(problem)}) {
    if (!kind) continue;
    const auto trees = json.at("corrections").find(kind_text(*kind));
    if (trees == json.at("corrections").end()) continue;
    Corrections corrections =
        Corrections::from_bytes(from_base64(trees->get<std::string>()), *kind, device);
    if (!corrections.empty()) return corrections;
  }
  return std::nullopt;
}

Portfolio read_portfolio(const std::string& text) {
  try {
    const Json json = Json::parse(text);
    if (json.at("format") != kPortfolioFormat || json.at("version") != kPortfolioVersion)
      throw Error(ErrorKind::invalid_argument, "it is no portfolio of version 1");
    Portfolio portfolio;
    portfolio.made_by = json.value("made_by", "");
    for (const Json& record : json.at("records"))
      add_records(portfolio.records, record, json.at("gpu").get<std::string>());
    if (json.contains("corrections"))
      for (const auto& [kind, bytes] : json.at("corrections").items())
        portfolio.corrections[kind] = from_base64(bytes.get<std::string>());
    return portfolio;
  } catch (const std::exception& error) {  // thrown by Tilewise or by the JSON library
    throw Error(ErrorKind::invalid_argument, std::string("not a portfolio: ") + error.what());
  }
}

std::string portfolio_text(const Portfolio& portfolio) {
  const std::vector<Record>& records = portfolio.records;
  Json json = {{"format", kPortfolioFormat},
               {"version", kPortfolioVersion},
               {"gpu", records.empty() ? "" : records.front().gpu},
               {"made_by", portfolio.made_by}};
  std::string text = json.dump(1);
  text.resize(text.rfind('\n'));  // without the last bracket
  text += ",\n \"records\": [";
  // A line for each candidate and kind of products.
  std::map<std::pair<Candidate, Problem>, std::vector<const Record*>> lines;
  std::vector<const std::vector<const Record*>*> in_order;
  for (const Record& record : records) {
    if (record.gpu != records.front().gpu)
      throw Error(ErrorKind::invalid_argument, "a portfolio is of one GPU, not of " +
                                                   records.front().gpu + " and " + record.gpu);
    Problem kind = record.problem;
    kind.m = kind.n = kind.k = 1;
    set_alignment(kind, {1, 1, 1});
    auto& line = lines[{record.candidate, kind}];
    if (line.empty()) in_order.push_back(&line);
    line.push_back(&record);
  }
  const auto us = [](const Record& record) {
    return record.measurement ? record.measurement->median_us : 0;
  };
  for (const std::vector<const Record*>* line : in_order) {
    const Record& record = *line->front();
    Json first{{"problem", Json::parse(to_json(record.problem))},
               {"template", record.candidate.kernel_template},
               {"configuration", Json::parse(record.candidate.configuration.text())},
               {"us", us(record)}};
    for (auto other = line->begin() + 1; other != line->end(); ++other) {
      const Problem& problem = (*other)->problem;
      const Alignment alignment = alignment_of(problem);
      first["also"].push_back(
          {problem.m, problem.n, problem.k, alignment.a, alignment.b, alignment.c, us(**other)});
    }
    text += (line == in_order.front() ? "\n  " : ",\n  ") + first.dump();
  }
  text += "\n ]";
  Json corrections = Json::object();
  for (const auto& [kind, bytes] : portfolio.corrections) corrections[kind] = to_base64(bytes);
  if (!corrections.empty()) text += std::string(kThenCorrections) + corrections.dump(1);
  return text + "\n}\n";
}

std::size_t fill_from(Portfolio& portfolio, Portfolio older, std::size_t most) {
  std::vector<Record>& records = portfolio.records;
  if (!records.empty() && !older.records.empty() &&
      records.front().gpu != older.records.front().gpu)
    throw Error(ErrorKind::invalid_argument, "a portfolio is of one GPU, not of " +
                                                 records.front().gpu + " and " +
                                                 older.records.front().gpu);
  std::map<std::pair<std::string, Layout>, std::set<Candidate>> kinds;
  std::set<Problem> problems;
  const auto of = [&](const Record& record) -> std::set<Candidate>& {
    return kinds[{kind_text(record.problem), layout_of(record.problem)}];
  };
  const auto family = [](const Record& record) {
    return known_template(record.candidate.kernel_template) ? family_of(record.candidate)
                                                            : record.candidate;
  };
  for (const Record& record : records) {
    of(record).insert(family(record));
    problems.insert(record.problem);
  }
  std::vector<Record> added;
  for (auto record = older.records.rbegin(); record != older.records.rend(); ++record) {
    std::set<Candidate>& kind = of(*record);
    if (problems.contains(record->problem)) continue;
    if (kind.size() < most) kind.insert(family(*record));
    if (kind.contains(family(*record))) added.push_back(std::move(*record));
  }
  const std::size_t count = added.size();
  std::move(added.rbegin(), added.rend(), std::back_inserter(records));
  portfolio.corrections.merge(older.corrections);
  return count;
}

}  // namespace tilewise
