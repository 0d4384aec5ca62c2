// Random products of every kind on the CPU: sizes from 0, layouts, addresses, leading dimensions,
// strides, batches, scalars. Each is compared exactly with a plain triple loop. None is refused.
#include <gtest/gtest.h>

#include <iostream>

#include "db/database.hpp"
#include "tests/proof/programs.hpp"

namespace tilewise::proof::products_test {
namespace {

class Products : public Programs {
 protected:
  void serve(int products, int seed, const std::string& forms, const std::string& device) {
    const End end =
        run(TILEWISE_SERVE_PRODUCTS,
            {database(), std::to_string(products), std::to_string(seed), forms, device}, 3000);
    ASSERT_EQ(end.status, 0) << end.err;
    const Json json = end.json();
    EXPECT_EQ(json.at("errors"), Json::object());
    EXPECT_EQ(json.at("right"), products);
    const Database cache = Database::open(image_cache_path(database()), OpenMode::read_only);
    kernels_ = cache.counts().images;
    std::cout << products << " products on " << device << ": " << json.at("right") << " right, "
              << kernels_ << " kernels, " << end.seconds << " s\n";
  }
  std::int64_t kernels_ = 0;
};

TEST_F(Products, FewKernelsServeManySizes) {
  serve(500, 1, "few", "host");
  EXPECT_LT(kernels_, 40) << "no kernel of its own for each size";
}

// Two tests, which run in parallel.
TEST_F(Products, OfAllForms) {
  if (!full()) GTEST_SKIP() << "only with TILEWISE_FULL=1";
  serve(2000, 100000, "all", "host");
}
TEST_F(Products, OfAllFormsByWhatHopperHas) {
  if (!full()) GTEST_SKIP() << "only with TILEWISE_FULL=1";
  serve(2000, 200000, "all", "host:sm_90a");
}

}  // namespace
}  // namespace tilewise::proof::products_test
