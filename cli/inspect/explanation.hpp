#pragma once
#include <optional>
#include <string>
#include <vector>

#include "cli/common/answers.hpp"
#include "cli/common/order_price.hpp"
#include "cli/report/report_data.hpp"
#include "templates/cost_model.hpp"

/// Why a record serves a product, in numbers.
namespace tilewise::cli {

/// Another candidate measured for the same problem.
struct Rival {
  Record record;
  double ratio = 0;  ///< its time over that of the serving candidate
  /// "TILE_K 16 instead of 8" for the same template; otherwise empty.
  std::vector<std::string> differences;
};

/// Quality of the cost model's predictions for one problem's candidates.
struct ModelOpinion {
  std::int64_t ranked = 0;      ///< candidates with a prediction and a time
  std::int64_t place = 0;       ///< rank of the serving candidate by prediction; 1: the best
  double correlation = 0;       ///< Spearman's; NaN for too few candidates
  double best_of_first_10 = 0;  ///< best time among the model's first ten over the best time
};

struct Explanation {
  Answer answer;
  Plan plan;                          ///< of the serving candidate for the product
  std::optional<SumOrder> sum_order;  ///< of the plan; none where it is not fixed
  std::vector<OrderPrice> prices;     ///< of the problem's order
  std::optional<Cost> cost;           ///< empty where the model does not cover the device
  /// The measured problem of the record that serves, with all its candidates.
  std::optional<ReportProblem> measured;
  std::optional<std::size_t> serving;  ///< index into measured->candidates
  double roof_us = 0;                  ///< of the product; 0: not known
  std::vector<Rival> rivals;           ///< the fastest other candidates
  std::vector<Rival> of_templates;     ///< the fastest of each other template
  double median_ratio = 0;             ///< of all other measured candidates; 0: none
  std::optional<Certainty> certainty;  ///< that the serving candidate is the fastest of its race
  ModelOpinion model;
};

/// `rivals`: the number of fastest other candidates to include.
Explanation explain(const std::optional<Database>& database, Answer answer, std::size_t rivals);

}  // namespace tilewise::cli
