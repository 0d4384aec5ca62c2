// Flipped bits and truncated files: a database and its cache are damaged at random, then a program
// serves from them and checks each product. Every product must be right or a clear error; no
// program may crash or hang.
#include <gtest/gtest.h>

#include <iostream>
#include <optional>

#include "db/database.hpp"
#include "tests/proof/programs.hpp"

namespace tilewise::proof::damage_test {
namespace {

class Damage : public Programs {
 protected:
  /// Makes the files: in "closed" as programs leave them, in "open" with the last writes only in
  /// the write-ahead logs.
  void prepare() {
    fs::create_directory(in("open"));
    fs::create_directory(in("closed"));
    {
      const Database database_in_use = Database::open(database());
      const Database cache_in_use = Database::open(image_cache_path(database()));
      ASSERT_NO_FATAL_FAILURE(prepare_database());
      copy_files(database(), in("open/test.db"));
      ASSERT_GT(fs::file_size(in("open/test.db-wal")), 100000U);
      ASSERT_GT(fs::file_size(in("open/test.db.cache-wal")), 100000U);
    }
    copy_files(database(), in("closed/test.db"));
    ASSERT_FALSE(fs::exists(in("closed/test.db-wal")));
  }

  /// Makes a fresh copy of the files. Returns one of them, not empty, to be damaged.
  fs::path fresh_file() {
    const fs::path from = in(generator_() % 2 == 0 ? "open/test.db" : "closed/test.db");
    copy_files(from, trial());
    std::vector<fs::path> files;
    for (const char* suffix : {"", "-wal", ".cache", ".cache-wal"})
      if (const fs::path file = trial().string() + suffix;
          fs::exists(file) && fs::file_size(file) > 0)
        files.push_back(file);
    return files[generator_() % files.size()];
  }
  fs::path trial() const { return in("trial.db"); }

  /// Flips one bit in most trials, a few in the others; half of the bits are in the pages of the
  /// schema and the small rows.
  std::string flip_bits() {
    constexpr std::uint64_t kFirstPages = 100 << 10;
    const fs::path file = fresh_file();
    std::uint64_t bytes = fs::file_size(file);
    if (generator_() % 2 == 0) bytes = std::min(bytes, kFirstPages);
    std::string what = "flipped in " + file.filename().string() + ":";
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    for (std::uint64_t left = generator_() % 4 == 0 ? 1 + generator_() % 8 : 1; left > 0; --left) {
      const auto at = static_cast<std::streamoff>(generator_() % bytes);
      const unsigned bit = generator_() % 8;
      stream.seekg(at);
      const int byte = stream.get();
      stream.seekp(at);
      stream.put(static_cast<char>(byte ^ (1 << bit)));
      what += " bit " + std::to_string(bit) + " of byte " + std::to_string(at);
    }
    return what;
  }

  std::string truncate() {
    const fs::path file = fresh_file();
    const std::uint64_t bytes = generator_() % fs::file_size(file);
    fs::resize_file(file, bytes);
    return file.filename().string() + " truncated to " + std::to_string(bytes) + " bytes";
  }

  /// Most trials have no compiler, so that only stored images can serve.
  void serve(const std::string& damage) {
    constexpr const char* kProducts = "12";
    const std::string seed = std::to_string(1000 + 12 * trials_++);
    std::vector<std::string> arguments{trial(), kProducts, seed, "stored", "host"};
    if (generator_() % 10 != 0) arguments.emplace_back("no-compile");
    const End end = run(TILEWISE_SERVE_PRODUCTS, arguments);
    EXPECT_FALSE(end.late) << damage;
    EXPECT_EQ(end.status, 0) << damage << ", seed " << seed << '\n' << end.err;
    const Json json = end.json();
    if (json.is_discarded()) return;
    served_.add(json);
    noticed_ += json.at("warnings") != 0 || !json.at("errors").empty();
  }

  std::mt19937_64 generator_{17};
  std::int64_t trials_ = 0, noticed_ = 0;
  Served served_;
};

TEST_F(Damage, EveryProductIsRightOrAClearError) {
  ASSERT_NO_FATAL_FAILURE(prepare());
  const int flips = full() ? 500 : 30, truncations = full() ? 150 : 10;
  for (int i = 0; i < flips && !HasFailure(); ++i) serve(flip_bits());
  for (int i = 0; i < truncations && !HasFailure(); ++i) serve(truncate());
  EXPECT_GT(served_.right, 6 * trials_) << "most damage leaves most products served";
  EXPECT_GT(noticed_, trials_ / 10) << "damage was noticed";
  std::cout << flips << " flips, " << truncations << " truncations: " << served_.text() << "; "
            << noticed_ << " of " << trials_ << " runs told of damage\n";
}

}  // namespace
}  // namespace tilewise::proof::damage_test
