// docs/database.md: its SQL runs on a database with rows of every kind, and it describes every
// table and column.
#include <sstream>

#include "db/schema.hpp"
#include "samples.hpp"

namespace tilewise::database_docs_test {
namespace {

using namespace samples;
using testing::HasSubstr;

const std::string& page() {
  static const std::string text =
      read_file(std::filesystem::path(TILEWISE_SOURCE_DIR) / "docs" / "database.md");
  return text;
}

std::vector<std::string> sql_blocks() {
  std::vector<std::string> blocks;
  std::istringstream lines(page());
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (line == "```sql") {
      inside = true;
      blocks.emplace_back();
    } else if (line == "```") {
      inside = false;
    } else if (inside) {
      blocks.back() += line + "\n";
    }
  }
  return blocks;
}

void fill(const std::filesystem::path& path) {
  Database db = Database::open(path);
  const auto winner = db.add(record(64, 10));
  db.add(record(128, 20));
  db.add(rejected(256, Outcome::launch_error, "too many resources requested"));
  db.set_winner(winner);
  db.put_image(image(64), winner);
  db.put_image(image(128));
  db.add(baseline());
  db.add(search());
}

TEST(DatabasePage, HasSqlThatAnswers) {
  const TemporaryFolder folder;
  fill(folder / "x.db");
  const Connection db(folder / "x.db", Connection::Access::owner);
  const auto blocks = sql_blocks();
  EXPECT_GE(blocks.size(), 7u);
  for (const std::string& sql : blocks) {
    Query query = db.query(sql);
    EXPECT_TRUE(query.step()) << "no row: " << sql;
    EXPECT_FALSE(query.null()) << sql;
  }
}

TEST(DatabasePage, AnswersRight) {
  const TemporaryFolder folder;
  fill(folder / "x.db");
  const Connection db(folder / "x.db", Connection::Access::owner);
  const auto first_row = [&db](const char* of, int column) {
    for (const std::string& sql : sql_blocks()) {
      if (sql.find(of) == std::string::npos) continue;
      Query query = db.query(sql);
      if (!query.step()) return std::string("no row");
      query.skip(column);
      return query.next<std::string>();
    }
    return std::string("no such block");
  };
  EXPECT_EQ(first_row("tflops", 5), "214.75") << "2 x 1024^3 in 10 us";
  EXPECT_EQ(first_row("times_the_winner", 2), "launch_error") << "rejected ones first";
  EXPECT_EQ(first_row("tile_m", 2), "64") << "the fastest first";
  EXPECT_EQ(first_row("speedup", 6), "1.0");
  EXPECT_EQ(first_row("integrity_check", 0), "ok");
}

TEST(DatabasePage, NamesEveryTableAndColumn) {
  const Connection db;
  bring_up_to_date(db);
  Query query = db.query(
      "SELECT t.name, c.name FROM sqlite_schema AS t, pragma_table_info(t.name) AS c "
      "WHERE t.type = 'table'");
  int columns = 0;
  while (query.step()) {
    const auto table = query.next<std::string>(), column = query.next<std::string>();
    EXPECT_THAT(page(), testing::AnyOf(HasSubstr("### " + table), HasSubstr("`" + table + "`")));
    EXPECT_THAT(page(), HasSubstr("`" + column + "`")) << "of " << table;
    ++columns;
  }
  EXPECT_GT(columns, 90);
  EXPECT_THAT(page(), HasSubstr(std::to_string(kApplicationId)));
  EXPECT_THAT(page(), HasSubstr("now " + std::to_string(kSchema)));
}

}  // namespace
}  // namespace tilewise::database_docs_test
