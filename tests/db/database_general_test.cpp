// General records, which serve other sizes than a winner that is specialised on its size.
#include <nlohmann/json.hpp>

#include "tests/db/damage.hpp"
#include "tests/db/samples.hpp"

namespace tilewise::database_general_test {
namespace {

using namespace samples;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::int64_t> ids(const Database& db, const std::string& gpu = kGpu) {
  std::vector<std::int64_t> found;
  for (const Record& record : db.general(gpu)) found.push_back(record.id);
  return found;
}

TEST(DatabaseGeneral, OneRecordOfEachProblemAndGpu) {
  Database db = Database::in_memory();
  EXPECT_THAT(ids(db), IsEmpty());
  const auto first = db.add(record(32)), second = db.add(record(64));
  const auto other = db.add(record(64, 12.5, 2048));
  db.set_general(first);
  db.set_general(other);
  EXPECT_THAT(ids(db), ElementsAre(first, other));
  db.set_general(second);
  EXPECT_THAT(ids(db), ElementsAre(second, other));
  EXPECT_THAT(ids(db, "another GPU"), IsEmpty());
  EXPECT_THAT(ids(db, ""), ElementsAre(second, other));
}

TEST(DatabaseGeneral, ARecordThatIsNotOkIsRefusedAndNotReturned) {
  Database db = Database::in_memory();
  Record r = record();
  r.outcome = Outcome::wrong_result;
  const auto wrong = db.add(r);
  EXPECT_THAT(error_of(ErrorKind::invalid_argument, [&] { db.set_general(wrong); }),
              HasSubstr("wrong_result"));
  EXPECT_THAT(error_of(ErrorKind::invalid_argument, [&] { db.set_general(77); }),
              HasSubstr("no such record"));
  r.outcome = Outcome::ok;
  db.set_general(db.add(r));
  EXPECT_EQ(db.general(kGpu).size(), 1u);
  r.outcome = Outcome::wrong_result;  // measured again
  db.add(r);
  EXPECT_THAT(ids(db), IsEmpty());
}

TEST(DatabaseGeneral, ItsImagesAreKeptLikeAWinners) {
  Database db = Database::in_memory();
  // Slower than the eight finalists.
  for (int tile = 1; tile <= 9; ++tile) db.add(record(tile, tile));
  const auto general = db.add(record(64, 100));
  db.put_image(image(), general);
  db.set_general(general);
  db.prune();
  EXPECT_EQ(db.counts().images, 1);
  db.remove({});
  EXPECT_THAT(ids(db), IsEmpty());
  EXPECT_THAT(db.check(), IsEmpty());
}

TEST(DatabaseGeneral, IsExportedAndImported) {
  Database db = Database::in_memory();
  db.add(record(32));
  db.set_general(db.add(record(64)));
  const std::string text = db.export_json();
  Database other = Database::in_memory();
  other.add(record(16));  // so that ids differ
  other.import_json(text);
  ASSERT_EQ(other.general(kGpu).size(), 1u);
  EXPECT_EQ(other.general(kGpu).front().candidate, record(64).candidate);
}

TEST(DatabaseGeneral, ADamagedOneIsLeftOutOfAnExport) {
  const TemporaryFolder folder;
  const auto path = folder / "x.db";
  {
    Database db = Database::open(path);
    db.add(record(32));
    db.set_general(db.add(record(64)));
  }
  change(path, "UPDATE records SET median_us = 1 WHERE id = (SELECT record_id FROM general)");
  std::int64_t left_out = 0;
  const std::string text = Database::open(path).export_json("", &left_out);
  EXPECT_EQ(left_out, 2) << "the record, and that it is general";
  Database other = Database::in_memory();
  other.import_json(text);
  EXPECT_EQ(other.counts().records, 1);
  EXPECT_THAT(ids(other), IsEmpty());
}

TEST(DatabaseGeneral, AnImportLeavesTheStoredOne) {
  Database db = Database::in_memory();
  db.set_general(db.add(record(64)));
  Database other = Database::in_memory();
  const auto own = other.add(record(16));
  other.set_general(own);
  other.import_json(db.export_json());
  EXPECT_THAT(ids(other), ElementsAre(own));
}

TEST(DatabaseGeneral, AnImportThatRefersToNothingIsRefused) {
  Database db = Database::in_memory();
  db.set_general(db.add(record(64)));
  auto json = nlohmann::json::parse(db.export_json());
  for (const nlohmann::json& bad : {nlohmann::json(99), nlohmann::json("1")}) {
    json["general"] = {bad};
    Database other = Database::in_memory();
    EXPECT_THAT(error_of(ErrorKind::invalid_argument, [&] { other.import_json(json.dump()); }),
                HasSubstr("general"));
    EXPECT_EQ(other.counts().records, 0);
  }
}

TEST(DatabaseGeneral, ADanglingRowIsFoundAndPruned) {
  const TemporaryFolder folder;
  const auto path = folder / "x.db";
  {
    Database db = Database::open(path);
    db.set_general(db.add(record(64)));
  }
  change(path, "PRAGMA foreign_keys = OFF; UPDATE general SET record_id = 99");
  Database db = Database::open(path);
  EXPECT_THAT(ids(db), IsEmpty());
  EXPECT_THAT(db.check(), ElementsAre(HasSubstr("general")));
  EXPECT_EQ(db.prune().damaged_rows, 1);
  EXPECT_THAT(db.check(), IsEmpty());
}

}  // namespace
}  // namespace tilewise::database_general_test
