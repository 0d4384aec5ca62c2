#pragma once
#include "tests/tuner/fake_kernels.hpp"

namespace tilewise::fake {

/// Another library that is right and slower than the fake kernels.
class Baseline : public BaselineLibrary {
 public:
  explicit Baseline(Device& device) : device_(device) {}
  std::string name() const override { return "fakeBLAS"; }
  std::string version() const override { return "2.0"; }
  bool supports(const Problem&) const override { return true; }
  void multiply(const Problem& problem, const Call& call) override {
    if (fails) throw Error(ErrorKind::device, "fakeBLAS: not initialised");
    device_.perform([=] {
      reference_multiply(layout_of(problem), problem.m, problem.n, problem.k, call.alpha,
                         static_cast<const float*>(call.a), call.lda,
                         static_cast<const float*>(call.b), call.ldb, call.beta,
                         static_cast<float*>(call.c), call.ldc, 1);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    });
  }
  bool fails = false;

 protected:
  Device& device_;
};

/// Offers four variants: slow, failing, fast, slow.
class ChoosyBaseline : public Baseline {
 public:
  using Baseline::Baseline;
  std::string variant() const override { return "lt_best"; }
  int offer(const Problem&, std::span<const Call> calls) override { return calls.empty() ? 0 : 4; }
  void choose(int way) override { chosen = way; }
  void multiply(const Problem& problem, const Call& call) override {
    if (chosen == 1) throw Error(ErrorKind::unsupported, "fakeBLAS: no such way");
    Baseline::multiply(problem, call);
    if (chosen != 2)
      device_.perform([] { std::this_thread::sleep_for(std::chrono::milliseconds(8)); });
  }
  int chosen = -1;
};

}  // namespace tilewise::fake
