#include <utility>

#include "tuner/search/search.hpp"

namespace tilewise {
namespace {

/// Proposes the candidates of a list in order.
class List : public Strategy {
 public:
  explicit List(std::vector<Candidate> candidates) : candidates_(std::move(candidates)) {}

  std::optional<Candidate> next() override {
    while (next_ < candidates_.size())
      if (const Candidate& candidate = candidates_[next_++]; seen_.add(candidate)) return candidate;
    return std::nullopt;
  }

  void observe(const Candidate& candidate, std::optional<double>) override { seen_.add(candidate); }

 private:
  std::vector<Candidate> candidates_;
  std::size_t next_ = 0;
  Seen seen_;
};

}  // namespace

std::unique_ptr<Strategy> make_list(std::vector<Candidate> candidates) {
  return std::make_unique<List>(std::move(candidates));
}

}  // namespace tilewise
