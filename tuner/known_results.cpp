#include "tuner/known_results.hpp"

#include "tilewise/error.hpp"

namespace tilewise {
namespace {

constexpr std::size_t kMostOfARun = 4;

}  // namespace

std::optional<Judgement> KnownResults::find(std::size_t run, const DeviceMatrix& c, Stream stream) {
  std::list<Result>& results = runs_[run];
  for (auto result = results.begin(); result != results.end(); ++result) {
    if (!device_.surely_equal(result->copy.data(), c.allocation(), c.placement().bytes, stream))
      continue;
    results.splice(results.begin(), results, result);
    return result->judgement;
  }
  return std::nullopt;
}

// The first of the list; null where there is no memory for any.
KnownResults::Result* KnownResults::place_for_one(std::list<Result>& results, std::int64_t bytes) {
  if (results.size() < kMostOfARun && bytes <= bytes_left_) {
    try {
      results.push_front({DeviceBuffer(device_, bytes), {}});
      bytes_left_ -= bytes;
      return &results.front();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::out_of_memory) throw;
      bytes_left_ = 0;  // somebody else has it
    }
  }
  if (results.empty()) return nullptr;
  results.splice(results.begin(), results, std::prev(results.end()));
  return &results.front();
}

void KnownResults::remember(std::size_t run, const DeviceMatrix& c, const Judgement& judgement,
                            Stream stream) {
  Result* result = place_for_one(runs_[run], c.placement().bytes);
  if (!result) return;
  device_.copy_on_device(result->copy.data(), c.allocation(), c.placement().bytes, stream);
  device_.synchronize(stream);
  result->judgement = judgement;
}

void KnownResults::forget_all() {
  for (std::list<Result>& results : runs_) {
    for (const Result& result : results) bytes_left_ += result.copy.bytes();
    results.clear();
  }
}

}  // namespace tilewise
