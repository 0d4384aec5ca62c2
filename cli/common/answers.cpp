#include "cli/common/answers.hpp"

#include <set>

#include "cli/common/inputs.hpp"
#include "cli/common/stored.hpp"
#include "device/machines.hpp"
#include "matmul/kept_orders.hpp"
#include "matmul/portfolio.hpp"
#include "matmul/resolve.hpp"
#include "matmul/stored_corrections.hpp"

namespace tilewise::cli {

void add_subject_options(CLI::App& app, AnswerOptions& options) {
  auto* device =
      add_list_option(app, "--device", options.device, "A GPU of this machine, or its CPU (host)")
          ->type_name("{auto,all,0,1,UUID,host}");
  add_gpu_option(app, options.gpu);
  app.get_option("--gpu")->excludes(device);
}

std::vector<Subject> subjects_of(const AnswerOptions& options, const std::vector<Gpu>& gpus,
                                 const std::optional<Database>& database, bool with_facts) {
  std::vector<Subject> subjects;
  for (const Gpu& gpu : gpus) subjects.push_back({gpu_key(gpu.info), gpu.info});
  if (!options.device.empty()) return subjects;
  for (const std::string& key : stored_gpus(*database, options.gpu)) {
    subjects.push_back({key, {}});
    if (!with_facts) continue;
    const std::optional<DeviceFacts> facts = database->device(key);
    subjects.back().info = facts ? device_of(key, facts) : nominal_from_key(key);
    subjects.back().typical = !facts;
  }
  return subjects;
}

std::vector<Answer> answers_for(const std::optional<Database>& database,
                                const std::vector<Subject>& subjects, const AnswerOptions& options,
                                bool stale) {
  std::vector<Answer> answers;
  std::set<std::string> said;
  for (const Subject& subject : subjects) {
    const std::string compiler =
        stale ? load_compiler(subject.info.target, options.nvrtc)->identity() : "";
    const std::vector<Winner> winners =
        database ? database->winners(subject.key) : std::vector<Winner>{};
    const auto learned = [&](const Problem& kind) {
      return database ? load_corrections(*database, kind, subject.info) : std::nullopt;
    };
    const Resolver resolver(winners, subject.info, compiler,
                            database ? database->general(subject.key) : std::vector<Record>{},
                            learned);
    const Resolver portfolio(
        {}, subject.info, compiler, portfolio_for(subject.info), [&](const Problem& kind) {
          auto own = learned(kind);
          return own ? std::move(own) : portfolio_corrections(kind, subject.info);
        });
    for (const std::string& line : resolver.notes()) warn(line);
    const auto shipped = [&portfolio] { return &portfolio; };
    for (const Problem& asked : problems_of(options.problems, subject.info, winners)) {
      const Problem problem = in_kept_order(asked, subject.info, database ? &*database : nullptr);
      if (const Problem key = order_key(asked);
          asked.order == kept_order() && database && !database->order(key, subject.key))
        for (const std::string& line : foreign_orders(*database, key, subject.key, *problem.order))
          if (said.insert(line).second) warn(line);
      answers.push_back({subject, problem, resolve_with_portfolio(resolver, shipped, problem)});
      Resolution& answer = answers.back().resolution;
      const std::string off =
          answer.kind == MatchKind::predicted ? resolver.how_far_off(problem) : "";
      if (!off.empty()) answer.why += "; " + off;
    }
  }
  return answers;
}

}  // namespace tilewise::cli
