// Mutated exports: an import takes a text as a whole or not at all, and no text ends the program.
#include <gtest/gtest.h>

#include <iostream>
#include <set>

#include "db/database.hpp"
#include "tests/db/samples.hpp"
#include "tests/proof/mutations.hpp"
#include "tests/proof/programs.hpp"
#include "tilewise/error.hpp"

namespace tilewise::proof::imports_test {
namespace {

std::string all_of(const Database& db) { return db.export_json(); }

/// Records of all outcomes, winners, a baseline, a search.
std::string sample_export() {
  Database db = Database::in_memory();
  for (const int tile : {32, 64, 128}) {
    const std::int64_t id = db.add(samples::record(tile, 10 + tile, 1024 + tile));
    db.set_winner(id);
  }
  db.add(samples::rejected(16, Outcome::compile_error, "it does not \"compile\""));
  db.add(samples::rejected(8, Outcome::timeout, "20 s"));
  db.add(samples::baseline());
  db.add(samples::search());
  return all_of(db);
}

/// A database before an import: other rows, and one row of the export.
Database database_with_rows() {
  Database db = Database::in_memory();
  db.set_winner(db.add(samples::record(64, 5, 1024 + 64)));
  db.add(samples::record(256));
  return db;
}

/// The keys of all rows of a database.
std::set<std::string> rows_of(const Database& db) {
  std::set<std::string> rows;
  const auto key = [](const Problem& problem, const std::string& gpu) {
    return to_json(problem) + " " + gpu + " ";
  };
  for (const Record& r : db.records({}))
    rows.insert("record " + key(r.problem, r.gpu) + r.candidate.kernel_template + " " +
                r.candidate.configuration.text() + " " + r.source_hash);
  for (const Baseline& b : db.baselines())
    rows.insert("baseline " + key(b.problem, b.gpu) + b.library + b.version + b.variant);
  return rows;
}

class Imports : public Programs {
 protected:
  /// True if the text was imported.
  bool import_in_process(const std::string& text) {
    Database db = database_with_rows();
    const std::string before = all_of(db);
    try {
      db.import_json(text);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::invalid_argument) << error.what();
      EXPECT_EQ(all_of(db), before) << "refused, but something was imported: " << error.what();
      return false;
    }
    // The same text into an empty database, item by item.
    Database alone = Database::in_memory();
    const std::int64_t records = alone.import_json(text);
    const Json json = Json::parse(text, nullptr, false);
    const auto count = [&](const char* key) {
      return json.contains(key) ? std::int64_t(json.at(key).size()) : 0;
    };
    EXPECT_EQ(records, alone.counts().records);
    EXPECT_LE(count("records") - records, 1) << "one mutation can make one record equal";
    const std::set<std::string> rows = rows_of(db), wanted = rows_of(alone);
    EXPECT_TRUE(std::includes(rows.begin(), rows.end(), wanted.begin(), wanted.end()));
    EXPECT_EQ(db.check(), std::vector<std::string>{});
    return true;
  }
};

TEST_F(Imports, AreTakenWhollyOrNotAtAll) {
  const std::string text = sample_export();
  ASSERT_TRUE(import_in_process(text));
  Mutations mutated(31);
  std::map<Mutations::Kind, int> taken, tried;
  const int texts = full() ? 1000 : 300;
  for (int i = 0; i < texts; ++i) {
    const Mutations::Kind kind = Mutations::kKinds[std::size_t(i) % Mutations::kKinds.size()];
    const std::string changed = mutated(kind, text);
    SCOPED_TRACE(std::string(Mutations::name(kind)) + ", text " + std::to_string(i));
    try {
      taken[kind] += import_in_process(changed);
    } catch (const std::exception& error) {
      ADD_FAILURE() << "no tilewise::Error: " << error.what();
    }
    ++tried[kind];
    if (HasFailure()) {
      std::ofstream(fs::temp_directory_path() / "failed-import.json") << changed;
      break;
    }
  }
  for (const auto& [kind, count] : tried)
    std::cout << Mutations::name(kind) << ": " << taken[kind] << " of " << count << " taken\n";
  EXPECT_LT(taken[Mutations::Kind::truncation], 5);
  EXPECT_GT(taken[Mutations::Kind::huge], 0) << "a mutation that does no harm is taken";
}

/// The same with the program: a real export is imported into a file that has rows, then served.
TEST_F(Imports, OfTheProgramAreServedRightOrRefused) {
  ASSERT_NO_FATAL_FAILURE(prepare_database());
  ASSERT_EQ(run(TILEWISE_AUTOTUNE, {"export", in("export.json"), "--db", database()}).status, 0);
  const std::string text = read_file(in("export.json"));
  Mutations mutated(37);
  Served served;
  int taken = 0;
  const int trials = full() ? 160 : 8;
  for (int i = 0; i < trials && !HasFailure(); ++i) {
    const Mutations::Kind kind = Mutations::kKinds[std::size_t(i) % Mutations::kKinds.size()];
    std::ofstream(in("mutated.json"), std::ios::binary) << mutated(kind, text);
    for (const char* suffix : {"", "-wal", "-shm", ".cache", ".cache-wal", ".cache-shm"})
      fs::remove(in("other.db").string() + suffix);
    std::string before;
    {
      Database db = Database::open(in("other.db"));
      db.add(samples::record(256));
      before = all_of(db);
    }
    const End end = run(TILEWISE_AUTOTUNE, {"import", in("mutated.json"), "--db", in("other.db")});
    EXPECT_TRUE(end.status == 0 || end.status == 2)
        << Mutations::name(kind) << ": status " << end.status << '\n'
        << end.err;
    const bool same = all_of(Database::open(in("other.db"))) == before;
    if (end.status != 0) {
      EXPECT_TRUE(same) << Mutations::name(kind);
      continue;
    }
    ++taken;
    const End products =
        run(TILEWISE_SERVE_PRODUCTS, {in("other.db"), "6", std::to_string(i), "stored"}, 60);
    EXPECT_EQ(products.status, 0) << Mutations::name(kind) << '\n' << products.err;
    if (products.status >= 0) served.add(products.json());
  }
  std::cout << taken << " of " << trials << " taken; served from them: " << served.text() << '\n';
}

}  // namespace
}  // namespace tilewise::proof::imports_test
