#include "templates/space/search_space.hpp"

#include <algorithm>
#include <set>

#include "tilewise/error.hpp"

namespace tilewise {
namespace {

Error bad_argument(const std::string& message) {
  return Error(ErrorKind::invalid_argument, message);
}

/// Whether the subspace leaves every parameter of the template a value.
bool survives(const KernelTemplate& kernel, const Subspace& subspace) {
  for (const Parameter& parameter : kernel.parameters) {
    const auto narrowed = subspace.find(parameter.name);
    if (narrowed == subspace.end()) continue;
    const std::vector<int>& kept = narrowed->second;
    if (std::find_first_of(kept.begin(), kept.end(), parameter.values.begin(),
                           parameter.values.end()) == kept.end())
      return false;
  }
  return true;
}

/// Throws where the subspace has a parameter or a value that no template has: a mistake, not an
/// empty space.
void check_subspace(const std::vector<const KernelTemplate*>& templates, const Subspace& subspace) {
  for (const auto& [name, values] : subspace) {
    std::set<int> allowed;
    for (const KernelTemplate* kernel : templates)
      for (const Parameter& parameter : kernel->parameters)
        if (parameter.name == name)
          allowed.insert(parameter.values.begin(), parameter.values.end());
    if (allowed.empty()) throw no_such_parameter(name, templates);
    if (values.empty()) throw bad_argument("no value is given for " + name);
    for (int value : values)
      if (!allowed.count(value))
        throw bad_argument(not_one_of(name, value, {allowed.begin(), allowed.end()}));
  }
}

}  // namespace

std::vector<const KernelTemplate*> select_templates(const std::vector<std::string>& names) {
  std::vector<const KernelTemplate*> chosen;
  if (names.empty())
    for (const KernelTemplate& kernel : catalog()) chosen.push_back(&kernel);
  for (const std::string& name : names) {
    const KernelTemplate* kernel = &find_template(name);
    if (std::find(chosen.begin(), chosen.end(), kernel) == chosen.end()) chosen.push_back(kernel);
  }
  return chosen;
}

SearchSpace::SearchSpace(const Problem& problem, const DeviceInfo& device,
                         std::vector<const KernelTemplate*> templates, Subspace subspace)
    : problem_(problem), device_(device) {
  check_subspace(templates, subspace);
  for (const KernelTemplate* kernel : templates) {
    if (!kernel->supports(problem, device) || !survives(*kernel, subspace)) continue;
    templates_.push_back(kernel);
    spaces_.emplace_back(*kernel, problem, device, subspace);
  }
  if (templates_.empty())
    throw Error(ErrorKind::unsupported,
                "no chosen kernel template can do " + to_string(problem) + " on " + device.name);
}

const TemplateSpace* SearchSpace::space_of(const std::string& kernel_template) const {
  for (const TemplateSpace& space : spaces_)
    if (space.kernel().name == kernel_template) return &space;
  return nullptr;
}

double SearchSpace::raw_size() const {
  double sum = 0;
  for (const TemplateSpace& space : spaces_) sum += space.raw_size();
  return sum;
}

void SearchSpace::for_each(const std::function<bool(const Candidate&)>& visit) const {
  for (const TemplateSpace& space : spaces_) {
    Candidate candidate{space.kernel().name, {}};
    const bool all = space.for_each([&](const Configuration& configuration) {
      candidate.configuration = configuration;
      return visit(candidate);
    });
    if (!all) return;
  }
}

std::optional<std::int64_t> SearchSpace::count(std::int64_t limit) const {
  std::int64_t found = 0;
  for (const TemplateSpace& space : spaces_)
    if (!space.for_each([&](const Configuration&) { return ++found <= limit; }))
      return std::nullopt;
  return found;
}

PointCount SearchSpace::count_of(const KernelTemplate& kernel, const CountLimits& limits) const {
  const TemplateSpace* space = space_of(kernel.name);
  return space ? space->count(limits) : PointCount{};
}

std::optional<Candidate> SearchSpace::random(std::mt19937_64& generator, int attempts) const {
  // Where a template yields no valid configuration, the next one is tried.
  const std::size_t first = random_index(generator, spaces_.size());
  for (std::size_t i = 0; i < spaces_.size(); ++i) {
    const KernelTemplate* kernel = templates_[(first + i) % spaces_.size()];
    if (auto candidate = random_of(*kernel, generator, attempts)) return candidate;
  }
  return std::nullopt;
}

std::optional<Candidate> SearchSpace::random_of(const KernelTemplate& kernel,
                                                std::mt19937_64& generator, int attempts) const {
  const TemplateSpace* space = space_of(kernel.name);
  std::optional<Configuration> found = space ? space->random(generator, attempts) : std::nullopt;
  if (!found) return std::nullopt;
  return Candidate{kernel.name, std::move(*found)};
}

std::vector<Candidate> SearchSpace::neighbours(const Candidate& from) const {
  std::vector<Candidate> result;
  const TemplateSpace* space = space_of(from.kernel_template);
  if (!space) return result;
  for (Configuration& configuration : space->neighbours(from.configuration))
    result.push_back({from.kernel_template, std::move(configuration)});
  return result;
}

std::vector<Candidate> SearchSpace::defaults() const {
  std::vector<Candidate> result;
  for (const TemplateSpace& space : spaces_) {
    std::optional<Configuration> usual = default_for(space.kernel(), problem_, device_);
    if (usual && space.allows(*usual)) result.push_back({space.kernel().name, *std::move(usual)});
  }
  return result;
}

bool SearchSpace::contains(const Candidate& candidate) const {
  const TemplateSpace* space = space_of(candidate.kernel_template);
  return space && space->contains(candidate.configuration);
}

bool SearchSpace::allows(const Candidate& candidate) const {
  const TemplateSpace* space = space_of(candidate.kernel_template);
  return space && space->allows(candidate.configuration);
}

std::map<std::string, std::int64_t> SearchSpace::rejections(std::mt19937_64& generator,
                                                            int draws) const {
  std::map<std::string, std::int64_t> result;
  for (int i = 0; i < draws; ++i) {
    const TemplateSpace& space = spaces_[random_index(generator, spaces_.size())];
    if (const Constraint* constraint = space.refusal_of_draw(generator)) ++result[constraint->name];
  }
  return result;
}

}  // namespace tilewise
