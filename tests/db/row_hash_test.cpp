// Hashes of rows: equal after every round trip through SQLite, different for different values.
#include "db/row_hash.hpp"

#include <cmath>
#include <functional>
#include <limits>
#include <set>

#include "damage.hpp"
#include "db/columns.hpp"

namespace tilewise::row_hash_test {
namespace {

using namespace samples;
using testing::IsEmpty;
using namespace std::string_literals;
using Limits = std::numeric_limits<double>;

constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
const double kSpecial[] = {
    Limits::quiet_NaN(),  -Limits::quiet_NaN(), Limits::infinity(), -Limits::infinity(), -0.0, 0.0,
    Limits::denorm_min(), Limits::max(),        0.1 + 0.2};
const std::string kTexts[] = {"",      " ",   "\xff\xfe\x80",    "\xc3",
                              "a\0b"s, "\0"s, "'; DROP TABLE x", std::string(100'000, '\xe9')};

/// Stores a record and reads it back through the same and another object, and through export and
/// import if an import accepts it.
void expect_kept(const Record& stored, bool importable = true) {
  const TemporaryFolder folder;
  Database db = Database::open(folder / "x.db");
  const auto id = db.add(stored);
  EXPECT_TRUE(db.record(id));
  EXPECT_THAT(db.check(), IsEmpty());
  if (stored.outcome == Outcome::ok) {
    db.set_winner(id);
    EXPECT_TRUE(db.winner(stored.problem, stored.gpu));
  }
  const Database again = Database::open(folder / "x.db", OpenMode::read_only);
  const auto found = again.record(id);
  ASSERT_TRUE(found) << testing::PrintToString(again.warnings());
  EXPECT_EQ(row_hash(*found), row_hash(stored));
  EXPECT_THAT(again.check(), IsEmpty());
  if (!importable) return;
  Database copy = Database::in_memory();
  copy.import_json(again.export_json());
  EXPECT_THAT(copy.check(), IsEmpty());
  EXPECT_EQ(copy.counts().records, 1);
}

TEST(RowHash, SurvivesEveryNumber) {
  for (const double special : kSpecial) {
    SCOPED_TRACE(special);
    Record r = record();
    Measurement& m = *r.measurement;
    for (double* value :
         {&m.median_us, &m.spread, &m.sm_clock_mhz, &m.power_w, &m.host_us, &m.energy_mj,
          &m.power_limit_w, &r.compile_ms, &r.error_ratio, &r.normwise_error, &r.predicted_us})
      *value = special;
    m.samples_us = {special, 1, special};
    expect_kept(r, special > 0 && special < 1e12);
  }
  Record large = record();
  large.problem.m = large.problem.n = large.problem.k = large.problem.batch = kHuge;
  large.measurement->samples = large.measurement->launches_per_sample =
      std::numeric_limits<int>::max();
  large.usage = {std::numeric_limits<int>::min(), -1, 0, std::numeric_limits<int>::max()};
  large.measurement->samples_us.clear();
  const TemporaryFolder folder;
  Database db = Database::open(folder / "x.db");
  EXPECT_TRUE(db.record(db.add(large)));
  EXPECT_THAT(db.check(), IsEmpty());
}

TEST(RowHash, SurvivesEveryText) {
  for (const std::string& text : kTexts) {
    SCOPED_TRACE(testing::PrintToString(text.substr(0, 20)));
    Record r = record();
    r.detail = r.source_hash = r.launch_revision = r.code_hash = r.gpu = text;
    r.measurement->method = text;
    r.environment = {text, text, text, text};
    const TemporaryFolder folder;
    Database db = Database::open(folder / "x.db");
    r.id = db.add(r);
    EXPECT_EQ(db.record(r.id), r) << testing::PrintToString(db.warnings());
    Image stored = image();
    stored.log = stored.source_hash = stored.launch_revision = text;
    db.put_image(stored);
    EXPECT_EQ(db.image(stored.kernel, stored.target, stored.launch_revision), stored);
    Baseline b = baseline();
    b.library = b.version = b.variant = b.gpu = text;
    db.add(b);
    EXPECT_EQ(db.baselines(), std::vector{b});
    Search s = search();
    s.strategy = s.space = s.sources = s.date = text;
    db.add(s);
    EXPECT_EQ(db.searches(s.problem, s.gpu).size(), 1u);
    EXPECT_THAT(db.check(), IsEmpty());
  }
}

TEST(RowHash, SurvivesEveryOutcomeAndOrigin) {
  for (const Outcome outcome : {Outcome::ok, Outcome::compile_error, Outcome::launch_error,
                                Outcome::wrong_result, Outcome::timeout})
    for (const Origin origin : {Origin::measured, Origin::imported, Origin::shipped}) {
      Record r = record();
      r.outcome = outcome;
      r.origin = origin;
      if (outcome == Outcome::timeout) r.measurement.reset();
      expect_kept(r);
    }
}

/// Changes one field, given by its number, to another valid value.
class Change {
 public:
  explicit Change(int number) : number_(number) {}
  template <class T>
  void operator()(const char* key, T& value, const Field& about = {}) {
    if constexpr (std::same_as<T, std::optional<Measurement>>) {
      fields(*this, value.value());
    } else if constexpr (std::same_as<T, Problem> || std::same_as<T, Environment> || Nested<T>) {
      fields(*this, value);
    } else if (!about.id && seen_++ == number_) {
      name = key;
      if constexpr (std::same_as<T, std::string>)
        if (name == "variant") return void(value = "epilogue relu(acc)");
      change(value);
    }
  }
  std::string name;  ///< empty: no field has that number

 private:
  template <class T>
  static void change(T& value) {
    if constexpr (Enumeration<T>)
      value = value == T{} ? kLast<T> : T{};
    else if constexpr (std::same_as<T, std::string>)
      value += "x";
    else if constexpr (std::same_as<T, Configuration>)
      value.set("TILE_M", 65);
    else if constexpr (std::same_as<T, std::vector<double>>)
      std::swap(value.at(0), value.at(1));
    else if constexpr (std::same_as<T, bool>)
      value = !value;
    else if constexpr (std::same_as<T, double>)
      value = std::nextafter(value, 1e30);
    else
      value = value % 16 == 0 && value <= 16 ? 8 : value + 1;  // 16 is an alignment
  }
  int number_, seen_ = 0;
};

// A field that is added to fields() is tested here without further changes.
TEST(Fields, AreEachStoredHashedAndExported) {
  std::set<std::string> hashes{row_hash(record())};
  int changed = 0;
  for (;; ++changed) {
    Record r = record();
    Change change(changed);
    fields(change, r);
    if (change.name.empty()) break;
    SCOPED_TRACE(change.name);
    EXPECT_TRUE(hashes.insert(row_hash(r)).second);
    Database db = Database::in_memory();
    r.id = db.add(r);
    EXPECT_EQ(db.record(r.id), r) << testing::PrintToString(db.warnings());
    EXPECT_EQ(record_from_json(to_json(r)), r);
  }
  EXPECT_GT(changed, 45);
}

TEST(RowHash, IsOfTextsWithTheirBordersAndOfWhetherItWasTimed) {
  std::set<std::string> hashes{row_hash(record())};
  const std::function<void(Record&)> edits[] = {
      // Text that moves from one field to the next makes another row.
      [](Record& r) { r.source_hash = "abc12", r.launch_revision = "3" + r.launch_revision; },
      [](Record& r) { r.measurement.reset(); },
      [](Record& r) { r.measurement = Measurement{}; },
      [](Record& r) { r.measurement->spread = Limits::quiet_NaN(); },
      [](Record& r) { r.measurement->samples_us.pop_back(); },
      [](Record& r) { r.measurement->energy_mj = r.measurement->power_limit_w = 3; },
  };
  for (const auto& edit : edits) {
    Record changed = record();
    edit(changed);
    EXPECT_TRUE(hashes.insert(row_hash(changed)).second) << "edit " << hashes.size();
  }
  Record other_id = record();
  other_id.id = 7;
  EXPECT_EQ(row_hash(other_id), row_hash(record())) << "an import gives ids of its own";
}

TEST(RowHash, OfRowsWithoutEnergyIsThatOfBeforeVersion6) {
  EXPECT_EQ(row_hash(record()), "7ea2c72e1b515f5a0b2b27ef3e2ba5e1");
  EXPECT_EQ(row_hash(baseline()), "3155922730a833620178242635a2979f");
  EXPECT_EQ(row_hash(search()), "3ba2e3a88b47d55790c95c53a8ade3a2");
  EXPECT_EQ(row_hash(Winner{record(), "2025-06-01T12:30:00Z", ""}),
            "c188420eac9378a79a76e4b563b8e991");
}

TEST(RowHash, IsAnotherForEachObjective) {
  Search by_energy = search();
  by_energy.objective = Objective::energy;
  EXPECT_NE(row_hash(by_energy), row_hash(search()));
  const std::string since = "2025-06-01T12:30:00Z";
  EXPECT_NE(row_hash(Winner{record(), since, "", Objective::energy}),
            row_hash(Winner{record(), since, ""}));
}

TEST(RowHash, CountsValuesThatAreStoredAlikeAsOne) {
  const auto of = [](double value) { return RowHash().add(value).hex(); };
  EXPECT_EQ(of(Limits::quiet_NaN()), of(-Limits::quiet_NaN()));
  EXPECT_EQ(of(0.0), of(-0.0));
  EXPECT_NE(of(0.0), of(Limits::quiet_NaN()));
  EXPECT_NE(of(Limits::infinity()), of(-Limits::infinity()));
}

TEST(RowHash, TellsTypesAndBordersApart) {
  const std::uint8_t bytes[] = {'a', 'b'};
  const std::set<std::string> hashes{
      RowHash().hex(),
      RowHash().add("").hex(),
      RowHash().add("ab").hex(),
      RowHash().add("a").add("b").hex(),
      RowHash().add("").add("ab").hex(),
      RowHash().add("ab").add("").hex(),
      RowHash().add(bytes).hex(),
      RowHash().add(std::int64_t{0}).hex(),
      RowHash().add(0.0).hex(),
      RowHash().add(std::string_view("\0\0\0\0\0\0\0\0", 8)).hex(),
  };
  EXPECT_EQ(hashes.size(), 10u);
}

}  // namespace
}  // namespace tilewise::row_hash_test
