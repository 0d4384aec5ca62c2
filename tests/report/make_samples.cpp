// Makes a database for the report's test in a browser.
// Usage: make_samples DATABASE PROBLEMS CANDIDATES_OF_EACH
#include <cstdlib>
#include <iostream>

#include "tests/cli/report_samples.hpp"

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: make_samples DATABASE PROBLEMS CANDIDATES_OF_EACH\n";
    return 2;
  }
  tilewise::Database database = tilewise::Database::open(argv[1]);
  cli_test::SampleOptions options;
  options.problems = std::atoll(argv[2]), options.candidates = std::atoll(argv[3]);
  cli_test::fill_samples(database, options);
  return 0;
}
