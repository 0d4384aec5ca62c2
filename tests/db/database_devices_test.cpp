// Facts of devices: one row for each device, which accompanies its records.
#include "tests/db/damage.hpp"
#include "tests/db/samples.hpp"
#include "vocabulary/device_facts.hpp"

namespace tilewise::database_devices_test {
namespace {

using namespace samples;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// The facts of an H200.
DeviceFacts facts() {
  return {kGpu,
          1'980'000,
          3'201'000,
          6144,
          std::int64_t{139} << 30,
          std::int64_t{60} << 20,
          700.5,
          "2026-11-26T12:00:00Z"};
}

TEST(DatabaseDevices, OneRowOfEachDevice) {
  const TemporaryFolder folder;
  Database db = Database::open(folder / "x.db");
  EXPECT_FALSE(db.device(kGpu));
  db.put(facts());
  EXPECT_EQ(db.device(kGpu), facts());
  EXPECT_FALSE(db.device("another GPU"));
  DeviceFacts newer = facts();
  newer.clock_khz = 1'500'000, newer.power_limit_w = 0, newer.date = "2026-11-27T12:00:00Z";
  db.put(newer);
  newer.power_limit_w = 700.5;
  EXPECT_EQ(db.device(kGpu), newer) << "a power limit that is not known replaces none";
  DeviceFacts same = newer;
  same.date = "2026-11-28T12:00:00Z";
  db.put(same);
  EXPECT_EQ(db.device(kGpu), newer) << "the date of what is stored";
  EXPECT_EQ(Database::open(folder / "x.db", OpenMode::read_only).device(kGpu), newer);
  EXPECT_THAT(db.check(), IsEmpty());
}

TEST(DatabaseDevices, ADamagedRowIsNotUsedAndPruned) {
  const TemporaryFolder folder;
  const auto path = folder / "x.db";
  Database::open(path).put(facts());
  Connection(path, Connection::Access::write).execute("UPDATE devices SET memory_clock_khz = 1");
  Database db = Database::open(path);
  EXPECT_FALSE(db.device(kGpu));
  EXPECT_THAT(db.warnings(), ElementsAre(HasSubstr("facts of NVIDIA H200")));
  EXPECT_THAT(db.check(), ElementsAre(HasSubstr("facts of NVIDIA H200")));
  EXPECT_EQ(db.prune().damaged_rows, 1);
  EXPECT_THAT(db.check(), IsEmpty());
  db.put(facts());
  EXPECT_EQ(db.device(kGpu), facts());
}

TEST(DatabaseDevices, StayWhileARecordOfTheirsIsThere) {
  Database db = Database::in_memory();
  Record other = record(64);
  other.candidate.kernel_template = "other";
  db.add(record(32));
  db.add(other);
  db.put(facts());
  db.remove({.kernel_template = "other"});
  EXPECT_TRUE(db.device(kGpu));
  db.prune();
  EXPECT_TRUE(db.device(kGpu));
  db.remove({.gpu = kGpu});
  EXPECT_FALSE(db.device(kGpu));
}

TEST(DatabaseDevices, AreExportedAndImportedWhereNoneAreStored) {
  Database from = Database::in_memory(), to = Database::in_memory();
  from.add(record(32));
  from.put(facts());
  to.import_json(from.export_json(kGpu));
  EXPECT_EQ(to.device(kGpu), facts());
  DeviceFacts own = facts();
  own.clock_khz = 1'000'000;
  to.put(own);
  to.import_json(from.export_json());
  EXPECT_EQ(to.device(kGpu), own);
  Database another = Database::in_memory();
  another.import_json(from.export_json("another GPU"));
  EXPECT_FALSE(another.device(kGpu));
}

TEST(DatabaseDevices, AnImportWithWrongFactsIsRefusedWhole) {
  Database from = Database::in_memory();
  from.add(record(32));
  from.put(facts());
  const std::string text = from.export_json();
  for (const auto& [right, wrong, says] : {std::array<const char*, 3>{"1980000", "-1", "clock_khz"},
                                           {"1980000", "1e99", "clock_khz"},
                                           {"1980000", "\"fast\"", "clock_khz"},
                                           {"700.5", "-3", "power_limit_w"},
                                           {"6144", "6144.5", "memory_bus_bits"}}) {
    std::string changed = text;
    const auto at = changed.find(std::string(" ") + right);
    ASSERT_NE(at, changed.npos) << right;
    changed.replace(at + 1, std::string(right).size(), wrong);
    Database to = Database::in_memory();
    try {
      to.import_json(changed);
      ADD_FAILURE() << wrong;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
      EXPECT_THAT(error.what(), testing::AllOf(HasSubstr("devices[0]"), HasSubstr(says)));
    }
    EXPECT_TRUE(to.records({}).empty());
  }
}

TEST(DeviceFacts, GiveAKeyItsClocksAndNothingElseDoes) {
  const DeviceInfo device = device_of(kGpu, facts());
  EXPECT_EQ(device.multiprocessors, 132);
  EXPECT_EQ(facts_of(device, 700.5, facts().date), facts());
  EXPECT_GT(peak_bandwidth(device), 4.9e12);
  const DeviceInfo unknown = device_of(kGpu, {});
  EXPECT_EQ(peak_flops(unknown), 0);
  EXPECT_EQ(peak_bandwidth(unknown), 0);
  EXPECT_EQ(unknown.l2_bytes, 0);
  EXPECT_EQ(unknown.shared_per_block, device.shared_per_block) << "of the capability";
  EXPECT_THROW(device_of("NVIDIA H200", {}), Error);
}

}  // namespace
}  // namespace tilewise::database_devices_test
