#include "matmul/portfolio.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "matmul/build.hpp"
#include "matmul/embedded_portfolios.hpp"
#include "matmul/prediction.hpp"
#include "tilewise/error.hpp"
#include "vocabulary/renames.hpp"

namespace tilewise {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kPortfolioFormat = "tilewise portfolio";
constexpr int kPortfolioVersion = 1;

Record record_from(const Json& json, const std::string& gpu) {
  Record record;
  record.problem = problem_from_json(json.at("problem").dump());
  record.candidate = renamed({json.at("template").get<std::string>(),
                              Configuration::parse(json.at("configuration").dump())});
  record.gpu = gpu;
  record.origin = Origin::shipped;
  record.outcome = Outcome::ok;
  record.measurement = Measurement{};
  record.measurement->median_us = json.at("us").get<double>();
  record.environment.host = gpu.substr(0, gpu.find('|'));
  if (const KernelTemplate* kernel = known_template(record.candidate.kernel_template))
    record.launch_revision = launch_revision(*kernel);
  return record;
}

/// The records of one GPU as if they were measured on another.
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
    const double here = time_on(to), there = time_on(from);
    if (here > 0 && there > 0) record.measurement->median_us *= here / there;
  }
}

/// The portfolios by GPU key.
std::map<std::string, std::vector<Record>> shipped() {
  std::map<std::string, std::vector<Record>> portfolios;
  for (int i = 0; i < kEmbeddedPortfolioCount; ++i)
    for (Record& record : read_portfolio(kEmbeddedPortfolios[i].text))
      portfolios[record.gpu].push_back(std::move(record));
  return portfolios;
}

}  // namespace

std::vector<Record> portfolio_for(const DeviceInfo& device) {
  if (device.target.host) return {};
  std::map<std::string, std::vector<Record>> portfolios = shipped();
  if (const auto own = portfolios.find(gpu_key(device)); own != portfolios.end())
    return std::move(own->second);
  std::vector<Record> alike;
  for (auto& [gpu, records] : portfolios) {
    const DeviceInfo other = nominal_from_key(gpu);
    if (other.target.major != device.target.major || other.target.minor != device.target.minor)
      continue;
    scale(records, other, device);
    alike.insert(alike.end(), records.begin(), records.end());
  }
  return alike;
}

std::vector<Record> read_portfolio(const std::string& text) {
  try {
    const Json json = Json::parse(text);
    if (json.at("format") != kPortfolioFormat || json.at("version") != kPortfolioVersion)
      throw Error(ErrorKind::invalid_argument, "it is no portfolio of version 1");
    std::vector<Record> records;
    for (const Json& record : json.at("records"))
      records.push_back(record_from(record, json.at("gpu").get<std::string>()));
    return records;
  } catch (const std::exception& error) {  // of ours, or of the JSON library
    throw Error(ErrorKind::invalid_argument, std::string("not a portfolio: ") + error.what());
  }
}

std::string portfolio_text(const std::vector<Record>& records, const std::string& made_by) {
  Json json = {{"format", kPortfolioFormat},
               {"version", kPortfolioVersion},
               {"gpu", records.empty() ? "" : records.front().gpu},
               {"made_by", made_by}};
  std::string text = json.dump(1);
  text.resize(text.rfind('\n'));  // without the last bracket
  text += ",\n \"records\": [";
  for (const Record& record : records) {
    if (record.gpu != records.front().gpu)
      throw Error(ErrorKind::invalid_argument, "a portfolio is of one GPU, not of " +
                                                   records.front().gpu + " and " + record.gpu);
    // One record a line: changes are readable.
    text += (&record == &records.front() ? "\n  " : ",\n  ") +
            Json{{"problem", Json::parse(to_json(record.problem))},
                 {"template", record.candidate.kernel_template},
                 {"configuration", Json::parse(record.candidate.configuration.text())},
                 {"us", record.measurement ? record.measurement->median_us : 0}}
                .dump();
  }
  return text + "\n ]\n}\n";
}

}  // namespace tilewise
