#pragma once
// Functions of epilogues in the kernel dialect on a device, within the bounds that the judge
// allows.
#include "tests/matmul/pointwise_checks.hpp"
#include "tuner/reference/epilogue_bounds.hpp"

namespace tilewise::test {

struct PointwiseBounds : Pointwise {
  using Pointwise::Pointwise;

  /// With what a function makes of another's result, and of a rounded argument.
  template <class T>
  void check_within_bounds() {
    std::vector<std::string> texts = computed();
    texts.insert(texts.end(),
                 {"gelu_tanh(acc * 0.1 + x[i,j])", "exp(-acc * acc) / (1 + sigmoid(s))",
                  "log(exp(acc * 0.01))", "erf(acc) * tanh(x[i]) - silu(y[j])"});
    int finite = 0;
    check<T>(texts, [&](const EpilogueForm& form, T acc, const std::vector<T>& values, T found) {
      EpilogueBounds<T> bounds(form);
      bounds.evaluate(Bounds<T>::of(acc), values);
      finite += std::isfinite(found);
      return std::isnan(found) ? bounds.c().nan
                               : bounds.c().low <= found && found <= bounds.c().high;
    });
    EXPECT_GT(finite, 4000);
  }
};

}  // namespace tilewise::test
