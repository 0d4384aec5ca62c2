#include "tuner/evaluate/known_results.hpp"

#include <iterator>

#include "tilewise/error.hpp"

namespace tilewise {
namespace {

constexpr std::size_t kMostOfARun = 4;

}  // namespace

std::optional<Judgement> KnownResults::find(std::size_t run, const DeviceMatrix& c, Stream stream) {
  std::list<Result>& results = runs_[run];
  for (auto result = results.begin(); result != results.end(); ++result) {
    const DeviceMatrix& copy = result->copy;
    if (!device_.known_equal(copy.allocation(), c.allocation(), c.placement().bytes, stream))
      continue;
    results.splice(results.begin(), results, result);
    return result->judgement;
  }
  return std::nullopt;
}

// Puts a matrix for a copy into held_. False without memory.
bool KnownResults::take_place(std::list<Result>& results, const Placement& placement) {
  if (!held_.empty()) return true;  // left by a wrong result
  if (results.size() < kMostOfARun && placement.bytes <= bytes_left_) {
    try {
      held_.push_back({DeviceMatrix(device_, placement), {}});
      bytes_left_ -= placement.bytes;
      return true;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::out_of_memory) throw;
      bytes_left_ = 0;  // another process took the memory
    }
  }
  if (!results.empty()) held_.splice(held_.begin(), results, std::prev(results.end()));
  return !held_.empty();
}

const DeviceMatrix* KnownResults::hold(std::size_t run, const DeviceMatrix& c, Stream stream) {
  if (!take_place(runs_[run], c.placement())) return nullptr;
  const DeviceMatrix& copy = held_.front().copy;
  device_.copy_on_device(copy.allocation(), c.allocation(), c.placement().bytes, stream);
  device_.synchronize(stream);
  return &copy;
}

void KnownResults::accept_copy(std::size_t run, const Judgement& judgement) {
  held_.front().judgement = judgement;
  runs_[run].splice(runs_[run].begin(), held_);
}

void KnownResults::forget_all() {
  for (std::list<Result>& results : runs_) {
    for (const Result& result : results) bytes_left_ += result.copy.placement().bytes;
    results.clear();
  }
}

}  // namespace tilewise
