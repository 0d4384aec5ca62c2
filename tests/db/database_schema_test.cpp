// Versions, and rows of a newer version.
#include "db/schema.hpp"
#include "samples.hpp"

namespace tilewise::database_schema_test {
namespace {

using namespace samples;
using testing::AllOf;
using testing::HasSubstr;

TEST(Schema, IsCompletedOnceAndAgain) {
  const Connection db;
  EXPECT_TRUE(is_new(db));
  for (int i = 0; i < 2; ++i) bring_up_to_date(db);
  EXPECT_FALSE(is_new(db));
  EXPECT_EQ(version_of(db), kSchema);
  EXPECT_EQ(db.integer("PRAGMA application_id"), kApplicationId);
  EXPECT_GT(db.integer("SELECT count(*) FROM sqlite_schema WHERE type = 'table'"), 10);
}

TEST(Schema, ThatCannotBeCompletedStaysAsItWas) {
  const Connection db;
  db.execute("CREATE VIEW devices AS SELECT 1 AS gpu; PRAGMA foreign_keys = ON");
  EXPECT_THAT(error_of(ErrorKind::database, [&] { bring_up_to_date(db); }), HasSubstr("view"));
  EXPECT_EQ(version_of(db), 0);
  EXPECT_EQ(db.integer("SELECT count(*) FROM sqlite_schema WHERE type = 'table'"), 0);
  EXPECT_FALSE(db.in_transaction());
  EXPECT_EQ(db.integer("PRAGMA foreign_keys"), 1);
}

TEST(Schema, OfAnOlderVersionIsRefused) {
  const TemporaryFolder folder;
  const auto path = folder / "x.db";
  Database::open(path).add(record());
  Connection(path, Connection::Access::write)
      .execute("PRAGMA user_version = " + std::to_string(kOldestSchema - 1));
  const std::string before = read_file(path);
  for (const OpenMode mode : {OpenMode::read_write, OpenMode::read_only})
    EXPECT_THAT(error_of(ErrorKind::database, [&] { Database::open(path, mode); }),
                AllOf(HasSubstr(path.string()), HasSubstr("older Tilewise"),
                      HasSubstr("schema version 5; this program reads versions 6 to " +
                                std::to_string(kSchema)),
                      HasSubstr("delete it"), HasSubstr("tune again")));
  EXPECT_TRUE(read_file(path) == before) << "it was touched";
}

TEST(Schema, OfANewerVersionIsRefused) {
  const TemporaryFolder folder;
  const auto path = folder / "x.db";
  Database::open(path).add(record());
  Connection(path, Connection::Access::write).execute("PRAGMA user_version = 99");
  const std::string before = read_file(path);
  for (const OpenMode mode : {OpenMode::read_write, OpenMode::read_only}) {
    EXPECT_THAT(
        error_of(ErrorKind::database, [&] { Database::open(path, mode); }),
        AllOf(HasSubstr(path.string()), HasSubstr("newer Tilewise"), HasSubstr("version 99"),
              HasSubstr("to " + std::to_string(kSchema)), HasSubstr("update this program")));
  }
  EXPECT_TRUE(read_file(path) == before) << "it was touched";
}

TEST(Schema, OfAnotherProgramIsRefused) {
  const TemporaryFolder folder;
  const auto path = folder / "x.db";
  Connection(path, Connection::Access::write).execute("CREATE TABLE cookies (name TEXT)");
  const std::string before = read_file(path);
  for (const OpenMode mode : {OpenMode::read_write, OpenMode::read_only}) {
    EXPECT_THAT(error_of(ErrorKind::database, [&] { Database::open(path, mode); }),
                AllOf(HasSubstr(path.string()), HasSubstr("another program")));
  }
  EXPECT_TRUE(read_file(path) == before) << "it was touched";
  Connection(path, Connection::Access::write).execute("PRAGMA application_id = 12345");
  EXPECT_THAT(error_of(ErrorKind::database, [&] { Database::open(path); }), HasSubstr("12345"));
  EXPECT_EQ(Connection(path, Connection::Access::read).text("PRAGMA journal_mode"), "delete")
      << "it was not touched";
}

/// A database changed from outside by `sql`.
Database changed(const TemporaryFolder& folder, const std::string& sql) {
  const auto path = folder / "x.db";
  {
    Database db = Database::open(path);
    db.set_winner(db.add(record(64)));
    db.set_winner(db.add(record(64, 10, 512)));
    db.add(baseline());
    db.put_image(image());
  }
  Connection(path, Connection::Access::write).execute(sql);
  return Database::open(path);
}

struct Unknown {
  const char* sql;
  const char* word;
};

class UnknownRows : public testing::TestWithParam<Unknown> {};

TEST_P(UnknownRows, AreSkippedWithAWarningAndKept) {
  const TemporaryFolder folder;
  Database db = changed(folder, GetParam().sql);
  EXPECT_THAT(db.warnings(), testing::IsEmpty());
  EXPECT_EQ(db.records({}).size(), 1u);
  EXPECT_EQ(db.winners().size(), 1u);
  EXPECT_FALSE(db.winner(problem(), kGpu));
  EXPECT_FALSE(db.record(1));
  ASSERT_FALSE(db.warnings().empty());
  EXPECT_THAT(db.warnings().front(),
              AllOf(HasSubstr(GetParam().word), HasSubstr("newer version"), HasSubstr("x.db")));
  const auto said = db.warnings().size();
  db.records({});
  EXPECT_EQ(db.warnings().size(), said) << "each is said once";
  EXPECT_EQ(db.counts().records, 2) << "nothing is lost";
  Database copy = Database::in_memory();
  EXPECT_EQ(copy.import_json(db.export_json()), 1) << "an export of the rest can be read";
  EXPECT_EQ(copy.counts().winners, 1);
}

INSTANTIATE_TEST_SUITE_P(
    Names, UnknownRows,
    testing::Values(Unknown{"UPDATE problems SET c_type = 'f8e9' WHERE m = 1024", "f8e9"},
                    Unknown{"UPDATE problems SET math = 'sloppy' WHERE m = 1024", "sloppy"},
                    Unknown{"UPDATE problems SET layout = 'zz' WHERE m = 1024", "zz"},
                    Unknown{"UPDATE problems SET variant = 'relu' WHERE m = 1024", "relu"},
                    Unknown{"UPDATE records SET outcome = 'melted' WHERE id = 1", "melted"},
                    Unknown{"UPDATE records SET configuration = '{\"A\":\"x\"}' WHERE id = 1",
                            "whole number"},
                    Unknown{"UPDATE records SET samples_us = 'soon' WHERE id = 1", "samples_us"},
                    Unknown{"UPDATE records SET registers = 1 << 40 WHERE id = 1", "registers"}));

TEST(UnknownImages, AreSkippedWithAWarning) {
  const TemporaryFolder folder;
  Database db = changed(folder, "UPDATE images SET target = 'gfx942'");
  EXPECT_EQ(db.images().size(), 0u);
  EXPECT_EQ(db.counts().images, 1);
  ASSERT_EQ(db.warnings().size(), 1u);
  EXPECT_THAT(db.warnings().front(), HasSubstr("gfx942"));
}

TEST(UnknownParameters, AreServedAsTheyAre) {
  Database db = Database::in_memory();
  Record r = record();
  r.candidate = {"template_of_2030", {{"WARP_DANCE", 7}}};
  r.id = db.add(r);
  EXPECT_EQ(db.record(r.id), r);
}

}  // namespace
}  // namespace tilewise::database_schema_test
