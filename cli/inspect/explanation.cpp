#include "cli/inspect/explanation.hpp"

#include <algorithm>
#include <limits>
#include <set>

#include "templates/kernel_template.hpp"

namespace tilewise::cli {
namespace {

double measured_us(const Record& record) {
  return record.outcome == Outcome::ok && record.measurement ? record.measurement->median_us : 0;
}

std::string value_text(const Candidate& candidate, const std::string& name, int value) {
  if (const KernelTemplate* kernel = known_template(candidate.kernel_template))
    for (const Parameter& parameter : kernel->parameters)
      if (parameter.name == name)
        for (std::size_t i = 0; i < parameter.labels.size(); ++i)
          if (parameter.values[i] == value) return parameter.labels[i];
  return std::to_string(value);
}

std::vector<std::string> differences_of(const Candidate& other, const Candidate& one) {
  std::vector<std::string> found;
  if (other.kernel_template != one.kernel_template) return found;
  for (const auto& [name, value] : other.configuration.values()) {
    const int* own = one.configuration.find(name);
    if (!own || *own == value) continue;
    found.push_back(name + " " + value_text(other, name, value) + " instead of " +
                    value_text(one, name, *own));
  }
  return found;
}

/// The stored problem of the record that serves, with all its candidates.
std::optional<ReportProblem> measured_problem(const Database& database, const Answer& answer,
                                              const DeviceInfo& device) {
  if (!answer.resolution.record) return std::nullopt;
  const Record& record = *answer.resolution.record;
  return read_problem_for_report(database, {record.gpu, record.problem, 0},
                                 database.winner(record.problem, record.gpu),
                                 std::numeric_limits<std::size_t>::max(), device);
}

void compare(Explanation& explanation, std::size_t most) {
  const std::vector<ReportCandidate>& all = explanation.measured->candidates;
  const Record& serving = all[*explanation.serving].record;
  std::vector<Rival> others;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (const double us = measured_us(all[i].record); us > 0 && i != *explanation.serving)
      others.push_back({all[i].record, us / measured_us(serving),
                        differences_of(all[i].record.candidate, serving.candidate)});
  if (explanation.measured->winner == explanation.serving)
    explanation.certainty = explanation.measured->certainty;
  std::stable_sort(others.begin(), others.end(),
                   [](const Rival& x, const Rival& y) { return x.ratio < y.ratio; });
  if (!others.empty()) explanation.median_ratio = others[others.size() / 2].ratio;
  std::set<std::string> seen{serving.candidate.kernel_template};
  for (const Rival& rival : others)
    if (seen.insert(rival.record.candidate.kernel_template).second)
      explanation.of_templates.push_back(rival);
  others.resize(std::min(others.size(), most));
  explanation.rivals = std::move(others);
}

/// Compares the predictions that are stored with the measurements.
void ask_model(Explanation& explanation) {
  std::vector<double> predicted, measured;
  double best = std::numeric_limits<double>::infinity();
  const Record& serving = explanation.measured->candidates[*explanation.serving].record;
  std::vector<std::pair<double, double>> pairs;
  for (const ReportCandidate& one : explanation.measured->candidates) {
    const double us = measured_us(one.record);
    if (!(us > 0) || !(one.record.predicted_us > 0)) continue;
    predicted.push_back(one.record.predicted_us), measured.push_back(us);
    pairs.emplace_back(one.record.predicted_us, us);
    best = std::min(best, us);
  }
  ModelOpinion& model = explanation.model;
  model.ranked = std::ssize(pairs);
  model.correlation = rank_correlation(predicted, measured);
  if (pairs.empty()) return;
  std::sort(pairs.begin(), pairs.end());
  if (serving.predicted_us > 0)
    model.place = 1 + std::count_if(pairs.begin(), pairs.end(), [&](const auto& pair) {
                    return pair.first < serving.predicted_us;
                  });
  double first = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < std::min<std::size_t>(10, pairs.size()); ++i)
    first = std::min(first, pairs[i].second);
  model.best_of_first_10 = first / best;
}

}  // namespace

Explanation explain(const std::optional<Database>& database, Answer answer, std::size_t rivals) {
  Explanation explanation;
  // Typical clocks are not those of this GPU.
  const DeviceInfo device =
      answer.subject.typical ? device_of(answer.subject.key, {}) : answer.subject.info;
  explanation.plan = plan_of(answer.resolution.candidate, answer.problem, device);
  explanation.sum_order = sum_order_of(answer.resolution.candidate, answer.problem, device);
  if (database && answer.problem.order)
    explanation.prices = order_prices(database->winners(answer.subject.key), answer.problem);
  if (can_estimate(device)) explanation.cost = estimate(explanation.plan, device);
  if (database) explanation.measured = measured_problem(*database, answer, device);
  if (explanation.measured) {
    const auto& all = explanation.measured->candidates;
    for (std::size_t i = 0; i < all.size(); ++i)
      if (all[i].record.id == answer.resolution.record->id && measured_us(all[i].record) > 0)
        explanation.serving = i;
    if (explanation.serving) {
      compare(explanation, rivals);
      ask_model(explanation);
    }
    ReportProblem product;  // the same GPU and types, but the product's own size
    product.problem = answer.problem;
    product.compute_roofs = explanation.measured->compute_roofs;
    product.memory_roofs = explanation.measured->memory_roofs;
    explanation.roof_us = roof_us(product);
  }
  explanation.answer = std::move(answer);
  return explanation;
}

}  // namespace tilewise::cli
