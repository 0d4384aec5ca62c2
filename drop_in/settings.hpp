#pragma once
#include <string>

namespace tilewise::drop_in {

/// The values of the variables TILEWISE_DROP_IN_*.
struct Settings {
  bool on = true;        ///< TILEWISE_DROP_IN=0: everything is passed through
  bool predict = false;  ///< TILEWISE_DROP_IN_PREDICT=1
  /// TILEWISE_DROP_IN_ALWAYS=1, for tests: answers all that a kernel can compute; compiles if
  /// necessary.
  bool always = false;
  /// TILEWISE_DROP_IN_INVARIANT=1: answers every product by a batch-invariant one, compiling if
  /// necessary, and refuses those that it cannot answer. A process that records refuses nothing.
  bool invariant = false;
  /// TILEWISE_DROP_IN_EMULATE=1: products in f64 and f32 may be emulated (MathMode::emulated). Not
  /// with `invariant`: the mode has no order of sums.
  bool emulate = false;
  std::string report;  ///< TILEWISE_DROP_IN_REPORT: "1" (standard error) or a file; empty: none
  /// TILEWISE_DROP_IN_RECORD: the prefix of a file name, to which "." and the process id are added.
  /// Nothing is answered.
  std::string record;
  std::string device;  ///< TILEWISE_DROP_IN_DEVICE: "host" for tests; empty: the current GPU
};
Settings settings_of_environment();

}  // namespace tilewise::drop_in
