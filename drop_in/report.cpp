// The output of a process at its end: the report, and the record for `autotune --problems`.
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <locale>
#include <sstream>
#include <vector>

#include "drop_in/drop_in.hpp"
#include "tilewise/error.hpp"
#include "vocabulary/decimal.hpp"

namespace tilewise::drop_in {
namespace {

constexpr std::size_t kMostLines = 20;

std::string milliseconds(double us) { return in_digits(us / 1e3, 4) + " ms"; }
std::string microseconds(double us) { return in_digits(us, 4) + " us"; }

/// "1,234,567".
std::string grouped(std::uint64_t value) {
  std::string text = std::to_string(value);
  for (int at = static_cast<int>(text.size()) - 3; at > 0; at -= 3)
    text.insert(static_cast<std::size_t>(at), ",");
  return text;
}

double saved_us(const Entry& entry) {
  return static_cast<double>(entry.answered) * (entry.decision.cublas - entry.decision.ours);
}

void write(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::app);
  file << text << std::flush;
  if (!file) std::cerr << "tilewise: cannot write '" << path << "'\n";
}

}  // namespace

Samples::Sample* Samples::begin(Device& device, Stream stream) {
  const std::lock_guard lock(mutex_);
  if (samples_.size() >= kMost) return nullptr;
  auto sample = std::make_unique<Sample>();
  sample->begin = device.create_event(), sample->end = device.create_event();
  sample->begin->record(stream);
  samples_.push_back(std::move(sample));
  return samples_.back().get();
}

void Samples::end(Sample& sample, Stream stream) {
  const std::lock_guard lock(mutex_);
  sample.end->record(stream);
  sample.ended = true;
}

double Samples::median_us() {
  const std::lock_guard lock(mutex_);
  std::vector<double> times;
  for (const auto& sample : samples_)
    if (sample->ended && sample->end->reached())
      times.push_back(sample->end->microseconds_since(*sample->begin));
  if (times.empty()) return 0;
  // Of two the lesser: the first call takes longer.
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>((times.size() - 1) / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

std::uint64_t DropIn::answered() {
  const std::lock_guard lock(mutex_);
  std::uint64_t sum = 0;
  for (const auto& [key, entry] : entries_) sum += entry->answered;
  return sum;
}

std::string DropIn::report() {
  const std::lock_guard lock(mutex_);
  std::uint64_t answered = 0, passed = 0;
  double saved = 0, instead_of = 0;
  std::vector<const Entry*> entries;
  for (const auto& [key, entry] : entries_) {
    answered += entry->answered;
    saved += saved_us(*entry);
    instead_of += static_cast<double>(entry->answered) * entry->decision.cublas;
    entries.push_back(entry.get());
  }
  for (const auto& count : whys_) passed += count;
  std::ostringstream text;
  text.imbue(std::locale::classic());
  text << "tilewise: " << grouped(answered + passed) << " products of cuBLAS: " << grouped(answered)
       << " answered, " << grouped(passed) << (refuses() ? " refused\n" : " passed through\n");
  if (answered > 0)
    text << "tilewise: answered in " << milliseconds(instead_of - saved) << " instead of "
         << milliseconds(instead_of) << ": " << milliseconds(saved)
         << " of GPU time saved, by the times that were measured or expected\n";
  for (std::size_t i = 0; i < kWhys; ++i)
    if (const std::uint64_t count = whys_[i]; count > 0)
      text << (refuses() ? "tilewise: refused " : "tilewise: passed through ") << grouped(count)
           << ": " << to_string(static_cast<Why>(i)) << '\n';
  std::sort(entries.begin(), entries.end(), [](const Entry* x, const Entry* y) {
    return std::pair(saved_us(*x), x->passed.load()) > std::pair(saved_us(*y), y->passed.load());
  });
  if (entries.size() > kMostLines) entries.resize(kMostLines);
  for (const Entry* entry : entries) {
    const Decision& decision = entry->decision;
    text << "tilewise:   " << to_string(entry->problem) << ": " << grouped(entry->answered)
         << " answered, " << grouped(entry->passed)
         << (refuses() ? " refused (" : " passed through (") << to_string(decision.why) << ')';
    if (decision.ours > 0 && decision.cublas > 0)
      text << "; " << (decision.predicted ? "expected " : "") << microseconds(decision.ours)
           << ", cuBLAS " << microseconds(decision.cublas);
    text << '\n';
  }
  return text.str();
}

std::string DropIn::record() {
  const std::lock_guard lock(mutex_);
  std::ostringstream text;
  text.imbue(std::locale::classic());
  text << "layout,m,n,k,dtype,out,math,batch,align,epilogue,calls,us,lda,ldb,ldc\n";
  for (const auto& [key, entry] : entries_) {
    const Problem& problem = entry->problem;
    const std::uint64_t calls = entry->passed + entry->answered;
    double us = 0;
    try {
      us = entry->samples.median_us();
    } catch (const Error&) {  // the driver has ended
    }
    text << to_string(layout_of(problem)) << ',' << problem.m << ',' << problem.n << ','
         << problem.k << ',' << to_string(problem.a.type) << ',' << to_string(problem.c.type) << ','
         << to_string(problem.math) << ',' << problem.batch << ',' << problem.a.alignment << '/'
         << problem.b.alignment << '/' << problem.c.alignment << ','
         << (problem.epilogue ? '"' + epilogue_text(problem) + '"' : "") << ',' << calls << ','
         << us << ',' << entry->leading[0] << ',' << entry->leading[1] << ',' << entry->leading[2]
         << '\n';
  }
  return text.str();
}

void DropIn::finish() noexcept {
  if (is_forked() || finished_.exchange(true)) return;
  try {
    if (!settings_.record.empty())
      write(settings_.record + "." + std::to_string(getpid()), record());
    if (settings_.report.empty()) return;
    if (settings_.report == "1")
      std::cerr << report() << std::flush;
    else
      write(settings_.report, report());
  } catch (...) {  // the application's exit continues
  }
}

}  // namespace tilewise::drop_in
