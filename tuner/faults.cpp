#include "tuner/faults.hpp"

#include <algorithm>
#include <utility>

namespace tilewise {
namespace {

// Two candidates in a row may both be too much for the machine's memory, hardly three.
constexpr std::size_t kMostSuspects = 3;

}  // namespace

Faults::Next Faults::add(Record record) {
  ++count_;
  last_ = record.detail;
  const auto tried = std::find(tried_again_.begin(), tried_again_.end(), record.candidate);
  if (tried == tried_again_.end()) {
    tried_again_.push_back(record.candidate);
    return Next::try_again;
  }
  record.detail = "twice: " + record.detail;
  suspects_.push_back(std::move(record));
  return suspects_.size() < kMostSuspects ? Next::go_on : Next::end_search;
}

std::vector<Record> Faults::acquit_system() { return std::exchange(suspects_, {}); }

}  // namespace tilewise
