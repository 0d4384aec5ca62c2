#include "tuner/tuner.hpp"

#include "tuner/tuning.hpp"

namespace tilewise {

TuneResult tune(const Problem& problem, const TuneOptions& options, TuneContext& context) {
  Tuning run(problem, options, context);
  try {
    if (run.finished_before()) return run.finish();

    run.recall();
    run.propose();  // compiling starts while the CPU computes the reference
    run.prepare();
    while (run.goes_on()) {
      run.propose();
      if (run.nothing_under_way()) break;  // the space is exhausted
      run.step();
    }
    run.race();
    return run.finish();
  } catch (const Error& error) {
    return run.finish_unstored(error);
  }
}

}  // namespace tilewise
