#include "db/kernel_text.hpp"
#include "db/state.hpp"
#include "db/tables.hpp"

namespace tilewise {
namespace {

const std::string kUpsertImage = upsert("images", "kernel, target, launch_revision",
                                        kImageColumns + ", log, binary, hash, refused") +
                                 " RETURNING id";
const std::string kSelectOne = "SELECT id, " + kImageColumns +
                               ", log, unpacked(binary), hash FROM images "
                               "WHERE kernel = ? AND target = ? AND launch_revision = ? AND "
                               "refused = ''";
const std::string kSelectAll = "SELECT " + kImageColumns +
                               " FROM images WHERE refused = '' "
                               "ORDER BY kernel, target, launch_revision";

/// A row found by its key.
struct Found {
  std::int64_t id = 0;
  Image image;
  std::string hash;
};

Found read_found(Query& row) {
  Found found;
  row.read(found.id);
  found.image = read_image(row);
  row.read(found.image.log, found.image.binary, found.hash);
  return found;
}

}  // namespace

Image read_image(Query& row) {
  Image image;
  std::string kernel, target;
  row.read(kernel, target, image.launch_revision, image.source_hash);
  image.kernel = parse_kernel(kernel);
  image.target = parse_target(target);
  ReadFields read(row);
  fields(read, image.usage);
  row.read(image.compile_ms);
  return image;
}

std::int64_t find_image(const Connection& connection, const Image& image) {
  Query query = connection.query(
      "SELECT id FROM images WHERE kernel = ? AND target = ? AND launch_revision = ? AND refused = "
      "''");
  query.bind(to_string(image.kernel), to_string(image.target), image.launch_revision);
  return query.step() ? query.next<std::int64_t>() : 0;
}

std::int64_t put_image_row(const Connection& connection, const Image& image) {
  Query query = connection.query(kUpsertImage);
  query.bind(to_string(image.kernel), to_string(image.target), image.launch_revision,
             image.source_hash);
  BindFields bind(query);
  fields(bind, image.usage);
  query.bind(image.compile_ms, image.log, image.binary, row_hash(image), "").step();
  return query.next<std::int64_t>();
}

void link_image(const Connection& connection, std::int64_t record_id, std::int64_t image_id) {
  connection.query("INSERT OR IGNORE INTO record_images (record_id, image_id) VALUES (?, ?)")
      .bind(record_id, image_id)
      .run();
}

void Database::put_image(const Image& image, std::int64_t record_id) {
  const std::lock_guard lock(state_->mutex);
  state_->write([&](const Connection& db) {
    const std::int64_t id = put_image_row(db, image);
    if (record_id != 0) link_image(db, record_id, id);
    db.query("DELETE FROM claims WHERE kernel = ? AND target = ?")
        .bind(to_string(image.kernel), to_string(image.target))
        .run();
  });
}

std::optional<Image> Database::image(const KernelSpec& kernel, const Target& target,
                                     const std::string& launch_revision) const {
  const std::lock_guard lock(state_->mutex);
  std::optional<Found> found;
  {
    Query query = state_->connection.query(kSelectOne);
    query.bind(to_string(kernel), to_string(target), launch_revision);
    auto rows = state_->rows(query, "image", read_found);
    if (!rows.empty()) found = std::move(rows.front());
  }
  if (!found) return {};
  Image& image = found->image;
  const bool whole = image.kernel == kernel && image.target == target &&
                     image.launch_revision == launch_revision && row_hash(image) == found->hash;
  if (whole) return std::move(image);
  const std::string why = "its contents do not match its hash";
  state_->warn("database " + state_->connection.path().string() + ": the image of " +
               to_string(kernel) + " for " + to_string(target) + " is damaged (" + why +
               "): it is not loaded");
  if (state_->connection.read_only()) return {};
  try {
    state_->write([&](const Connection& db) {
      db.query("UPDATE images SET refused = ? WHERE id = ?").bind(why, found->id).run();
    });
  } catch (const Error&) {  // the next call finds the damage again
  }
  return {};
}

void Database::refuse_image(const KernelSpec& kernel, const Target& target,
                            const std::string& launch_revision, const std::string& why) {
  const std::lock_guard lock(state_->mutex);
  state_->write([&](const Connection& db) {
    db.query(
          "UPDATE images SET refused = ? WHERE kernel = ? AND target = ? AND launch_revision = ?")
        .bind(why, to_string(kernel), to_string(target), launch_revision)
        .run();
  });
}

bool Database::has_packs() const {
  const std::lock_guard lock(state_->mutex);
  const Connection& db = state_->connection;
  return db.integer("SELECT count(*) FROM sqlite_master WHERE name = 'packs'") > 0 &&
         db.integer("SELECT count(*) FROM packs") > 0;
}

std::vector<Image> Database::images() const {
  const std::lock_guard lock(state_->mutex);
  Query query = state_->connection.query(kSelectAll);
  return state_->rows(query, "image", read_image);
}

}  // namespace tilewise
