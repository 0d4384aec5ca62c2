#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "db/import_checks.hpp"
#include "db/state.hpp"
#include "db/tables.hpp"

// The JSON form of a database: {"format": "tilewise", "version": 1 (2 with epilogues,
// 3 with orders of sums, 4 with grouped products), "records": [...], "winners": [...], "general":
// [...], "baselines": [...], "searches": [...], "orders": [...], "devices": [...]}. Winners and
// general records refer to records by their ids; an import assigns new ids. Images are exchanged
// between databases alone.
namespace tilewise {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "tilewise";
// A program that would ignore epilogues, orders of sums or groups refuses these versions.
constexpr int kVersion = 1, kWithEpilogues = 2, kWithOrders = 3, kWithGroups = 4;

Error bad_import(const std::string& why) {
  return {ErrorKind::invalid_argument, "nothing was imported: " + why};
}

// Out ---------------------------------------------------------------------------------------------

StoredImage read_stored_image(Query& row) {
  StoredImage stored;
  stored.image = read_image(row);
  std::string hash, refused, records;
  row.read(stored.image.log, stored.image.binary, hash, refused, records);
  const std::string name = "the image of " + to_string(stored.image.kernel);
  if (!refused.empty()) throw DamagedRow(name + " is set aside: " + refused);
  require_hash(stored.image, hash, name);
  stored.records = Json::parse(records).get<std::vector<std::int64_t>>();
  return stored;
}

const std::string kImages =
    "SELECT " + kImageColumns +
    ", log, unpacked(binary), hash, refused, (SELECT json_group_array(record_id) FROM "
    "record_images WHERE "
    "image_id = images.id) FROM images ORDER BY kernel, target, launch_revision";
const std::string kSearches =
    "SELECT " + kSearchColumns + " FROM " + kSearchTables + " WHERE ? IN (s.gpu, '') ORDER BY s.id";
const std::string kRecords =
    "SELECT " + kRecordColumns + " FROM " + kRecordTables + " WHERE ? IN (r.gpu, '') ORDER BY r.id";
const std::string kBaselines = "SELECT " + kBaselineColumns + " FROM " + kBaselineTables +
                               " WHERE ? IN (b.gpu, '') ORDER BY b.problem_id, b.gpu, library";
const std::string kWinners =
    "SELECT " + kWinnerColumns + " FROM " + kWinnerTables + " WHERE ? IN (r.gpu, '') ORDER BY r.id";

const std::string kGeneral =
    "SELECT " + kRecordColumns + " FROM " + kRecordTables +
    " JOIN general AS g ON g.record_id = r.id WHERE ? IN (g.gpu, '') AND r.outcome = 'ok' "
    "ORDER BY r.id";

const std::string kOrders = "SELECT " + kOrderColumns + " FROM " + kOrderTables +
                            " WHERE ? IN (o.gpu, '') ORDER BY o.rowid";

const std::string kDevices =
    "SELECT " + kDeviceColumns + " FROM devices AS d WHERE ? IN (gpu, '') ORDER BY gpu";

Json winner_json(const Winner& winner) {
  return {{"record", winner.record.id},
          {"since", winner.since},
          {"quarantined", winner.quarantined},
          {"objective", to_string(winner.objective)}};
}

// In ----------------------------------------------------------------------------------------------

struct ImportedWinner {
  std::int64_t record_id = 0;  // id in the text
  std::string since, quarantined;
  Objective objective = Objective::time;
};

/// A whole text without its searches (made on another machine), read and checked before any write.
struct Contents {
  std::vector<Record> records;
  std::vector<ImportedWinner> winners;
  std::vector<std::int64_t> general;  // ids in the text
  std::vector<Baseline> baselines;
  std::vector<KeptOrder> orders;
  std::vector<DeviceFacts> devices;
};

ImportedWinner winner_from(const Json& json) {
  ImportedWinner winner{json.at("record").get<std::int64_t>(), json.at("since").get<std::string>(),
                        json.at("quarantined").get<std::string>(),
                        parse_objective(json.value("objective", "time"))};
  check_imported_date("since", winner.since);
  return winner;
}

Record record_from(const Json& json) {
  Record record = record_from_json(json.dump());
  record.origin = Origin::imported;
  check_imported(record);
  return record;
}

Baseline baseline_from(const Json& json) {
  Baseline baseline = baseline_from_json(json.dump());
  check_imported(baseline);
  return baseline;
}

KeptOrder order_from(const Json& json) {
  KeptOrder order = kept_order_from_json(json.dump());
  check_imported(order);
  return order;
}

DeviceFacts device_from(const Json& json) {
  DeviceFacts facts = device_facts_from_json(json.dump());
  check_imported(facts);
  return facts;
}

/// Every item of the array json[key], read by `read`; empty without the key.
template <class Read>
auto items(const Json& json, const char* key, Read read) {
  std::vector<decltype(read(json))> found;
  if (!json.contains(key)) return found;
  if (!json.at(key).is_array()) throw bad_import(std::string("\"") + key + "\" is no array");
  for (const Json& item : json.at(key)) {
    try {
      found.push_back(read(item));
    } catch (const std::exception& error) {  // from `read` or the JSON library
      throw bad_import(std::string(key) + "[" + std::to_string(found.size()) +
                       "]: " + error.what());
    }
  }
  return found;
}

void check_format(const Json& json) {
  if (json.is_discarded()) throw bad_import("the text is not JSON");
  if (!json.is_object() || json.value("format", Json()) != kFormat) {
    throw bad_import("the JSON is no export of Tilewise (\"format\" is not \"tilewise\")");
  }
  const Json version = json.value("version", Json());
  if (!version.is_number_integer() || version < kVersion || version > kWithGroups) {
    throw bad_import("its version is " + version.dump() + "; this program knows versions " +
                     std::to_string(kVersion) + " to " + std::to_string(kWithGroups));
  }
}

void check_references(const Contents& data) {
  std::map<std::int64_t, const Record*> records;
  for (const Record& record : data.records) {
    if (!records.emplace(record.id, &record).second) {
      throw bad_import("two records have the id " + std::to_string(record.id));
    }
  }
  for (const ImportedWinner& winner : data.winners) {
    const auto found = records.find(winner.record_id);
    if (found == records.end()) {
      throw bad_import("a winner refers to record " + std::to_string(winner.record_id) +
                       ", which is not there");
    }
    if (const Outcome outcome = found->second->outcome;
        winner.quarantined.empty() && outcome != Outcome::ok) {
      throw bad_import("the winner " + std::to_string(winner.record_id) + " has the outcome " +
                       std::string(to_string(outcome)));
    }
  }
}

void check_general(const Contents& data) {
  std::set<std::int64_t> ok;
  for (const Record& record : data.records)
    if (record.outcome == Outcome::ok) ok.insert(record.id);
  for (const std::int64_t id : data.general)
    if (!ok.contains(id))
      throw bad_import("the general record " + std::to_string(id) + " is not there, or not ok");
}

Contents parse_import(const std::string& text) {
  // Deeper nesting would overflow the stack of recursive functions.
  if (nests_deeper(text))
    throw bad_import("brackets are nested more than " + std::to_string(kMostJsonDepth) + " deep");
  const Json json = Json::parse(text, nullptr, false);
  check_format(json);
  Contents data;
  data.records = items(json, "records", record_from);
  data.winners = items(json, "winners", winner_from);
  data.general = items(json, "general", [](const Json& id) { return id.get<std::int64_t>(); });
  data.baselines = items(json, "baselines", baseline_from);
  data.orders = items(json, "orders", order_from);
  data.devices = items(json, "devices", device_from);
  check_references(data);
  check_general(data);
  return data;
}

struct RowId {
  std::int64_t id = 0;
  std::string date;
  bool measured_here = false;
};

/// The id of the stored row that `record` replaces.
std::optional<RowId> find_record(const Connection& db, const Record& record) {
  const auto problem = find_problem(db, record.problem);
  Query query = db.query(
      "SELECT id, date, origin = 'measured' FROM records WHERE problem_id = ? AND gpu = ? AND "
      "kernel_template = ? AND "
      "configuration = ? AND source_hash = ?");
  query.bind(problem.value_or(0), record.gpu, record.candidate.kernel_template,
             record.candidate.configuration.text(), record.source_hash);
  if (!query.step()) return {};
  RowId row;
  query.read(row.id, row.date, row.measured_here);
  return row;
}

/// All columns of a record's measurement; zeros for a damaged row.
Measurement measurement_of(const Connection& db, std::int64_t record_id) {
  static const std::string columns = Columns::of<Measurement>("r").selected();
  Query query = db.query("SELECT " + columns + " FROM records AS r WHERE r.id = ?");
  if (!query.bind(record_id).step()) return {};
  Measurement measurement;
  ReadFields read(query);
  try {
    fields(read, measurement);
  } catch (const Error&) {
    return {};
  }
  return measurement;
}

/// Whether an imported winner replaces the stored one of its problem. It never replaces a winner
/// measured here or a winner by another objective.
bool beats_stored_winner(const Connection& db, std::int64_t record_id, Objective objective) {
  Query query = db.query(
      "SELECT r.outcome, w.record_id, w.quarantined != '', s.origin = 'measured', w.objective "
      "FROM records AS r "
      "LEFT JOIN winners AS w ON w.problem_id = r.problem_id AND w.gpu = r.gpu "
      "LEFT JOIN records AS s ON s.id = w.record_id WHERE r.id = ?");
  if (!query.bind(record_id).step()) return false;
  std::string outcome;
  query.read(outcome);
  // The stored record may be newer than the imported one; it must be ok.
  if (outcome != to_string(Outcome::ok)) return false;
  if (query.null()) return true;
  std::int64_t stored = 0;
  bool quarantined = false, measured_here = false;
  std::string stored_objective;
  query.read(stored, quarantined, measured_here, stored_objective);
  if (quarantined) return stored != record_id;
  if (stored == record_id || measured_here || stored_objective != to_string(objective))
    return false;
  const Measurement imported = measurement_of(db, record_id), served = measurement_of(db, stored);
  if (const auto cost = objective_info(objective).cost)
    return cost(imported) > 0 && cost(imported) < cost(served);
  return imported.median_us < served.median_us * (1 - std::max(imported.spread, served.spread));
}

bool has_winner(const Connection& db, std::int64_t record_id) {
  Query query = db.query(
      "SELECT 1 FROM winners AS w JOIN records AS r ON w.problem_id = r.problem_id AND "
      "w.gpu = r.gpu WHERE r.id = ?");
  return query.bind(record_id).step();
}

void import_winner(const Connection& db, const ImportedWinner& winner, std::int64_t record_id) {
  const bool wanted = winner.quarantined.empty()
                          ? beats_stored_winner(db, record_id, winner.objective)
                          : !has_winner(db, record_id);
  if (wanted) put_winner(db, record_id, winner.since, winner.quarantined, winner.objective);
}

/// Keeps a stored general record. An imported one's stored record may be newer.
void import_general(const Connection& db, std::int64_t record_id) {
  Query query = db.query(
      "SELECT 1 FROM records AS r WHERE id = ? AND outcome = 'ok' AND NOT EXISTS (SELECT 1 FROM "
      "general AS g WHERE g.problem_id = r.problem_id AND g.gpu = r.gpu)");
  if (query.bind(record_id).step()) put_general(db, record_id);
}

/// Keeps a stored image of the same key.
void import_image(const Connection& db, const StoredImage& stored,
                  const std::map<std::int64_t, std::int64_t>& ids) {
  const std::int64_t known = find_image(db, stored.image);
  const std::int64_t id = known != 0 ? known : put_image_row(db, stored.image);
  for (const std::int64_t record : stored.records) {
    if (const auto found = ids.find(record); found != ids.end()) link_image(db, found->second, id);
  }
}

}  // namespace

std::string Database::export_json(const std::string& gpu, std::int64_t* left_out) const {
  const std::lock_guard lock(state_->mutex);
  const Connection& db = state_->connection;
  Transaction transaction(db, Transaction::Kind::read);
  Json json = {{"format", kFormat}, {"version", kVersion}};
  std::int64_t stored = 0, written = 0;
  const auto put = [&](const char* key, const std::string& sql, const char* what, auto read,
                       auto form) {
    Query query = db.query(sql);
    query.bind(gpu);
    json[key] = Json::array();
    for (const auto& row : state_->rows(query, what, read)) {
      json[key].push_back(form(row));
      const Json& made = json[key].back();
      if (!made.is_object() || !made.contains("problem")) continue;
      const Json& problem = made["problem"];
      const int needed = problem.contains("grouped")                               ? kWithGroups
                         : problem.contains("order") || made.contains("sum_order") ? kWithOrders
                         : problem.contains("epilogue")                            ? kWithEpilogues
                                                                                   : kVersion;
      if (json["version"] < needed) json["version"] = needed;
    }
    written += static_cast<std::int64_t>(json[key].size());
    // Counts only the table: a join would omit rows with a dangling reference.
    Query count = db.query(std::string("SELECT count(*) FROM ") + key + " WHERE ? IN (gpu, '')");
    if (count.bind(gpu).step()) stored += count.next<std::int64_t>();
  };
  const auto parsed = [](const auto& value) { return Json::parse(to_json(value)); };
  put("records", kRecords, "record", read_record, parsed);
  put("winners", kWinners, "winner", read_winner, winner_json);
  put("general", kGeneral, "general record", read_record,
      [](const Record& record) { return record.id; });
  put("baselines", kBaselines, "baseline", read_baseline, parsed);
  put("searches", kSearches, "search", read_search, parsed);
  put("orders", kOrders, "order", read_order, parsed);
  put("devices", kDevices, "row of devices", read_device, parsed);
  if (left_out) *left_out = stored - written;
  // A compiler's messages may have invalid UTF-8, which is replaced.
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::vector<StoredImage> Database::stored_images(std::int64_t* left_out) const {
  const std::lock_guard lock(state_->mutex);
  Query query = state_->connection.query(kImages);
  auto images = state_->rows(query, "image", read_stored_image);
  if (left_out)
    *left_out = state_->connection.integer("SELECT count(*) FROM images") - std::ssize(images);
  return images;
}

std::int64_t Database::import_json(const std::string& text,
                                   const std::vector<StoredImage>& images) {
  const Contents data = parse_import(text);
  for (const StoredImage& stored : images) check_imported(stored.image);
  const std::lock_guard lock(state_->mutex);
  std::int64_t added = 0;
  state_->write([&](const Connection& db) {
    added = 0;
    std::map<std::int64_t, std::int64_t> ids;  // id in the text -> id in this database
    for (const Record& record : data.records) {
      const auto stored = find_record(db, record);
      const bool wanted =
          !stored || (!stored->measured_here && stored->date < record.environment.date);
      ids[record.id] = wanted ? put_record(db, record) : stored->id;
      added += stored ? 0 : 1;
    }
    for (const ImportedWinner& winner : data.winners) {
      import_winner(db, winner, ids.at(winner.record_id));
    }
    for (const std::int64_t id : data.general) import_general(db, ids.at(id));
    for (const Baseline& baseline : data.baselines) put_baseline(db, baseline, Replace::never);
    for (const KeptOrder& order : data.orders) put_order(db, order, Replace::never);
    for (const DeviceFacts& facts : data.devices)
      if (!has_device(db, facts.gpu)) put_device(db, facts);
    for (const StoredImage& image : images) import_image(db, image, ids);
  });
  return added;
}

}  // namespace tilewise
