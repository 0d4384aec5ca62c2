#include "db/kernel_text.hpp"
#include "db/state.hpp"
#include "db/tables.hpp"

namespace tilewise {
namespace {

const std::string kUpsert = upsert("images", "kernel, target, launch_revision",
                                   "source_hash, " + kUsageColumns + ", compile_ms, log, binary") +
                            " RETURNING id";
const std::string kSelectOne = "SELECT " + kImageColumns +
                               ", log, binary FROM images "
                               "WHERE kernel = ? AND target = ? AND launch_revision = ?";
const std::string kSelectAll =
    "SELECT " + kImageColumns + " FROM images ORDER BY kernel, target, launch_revision";

Image read_whole_image(Query& row) {
  Image image = read_image(row);
  row.read(image.log, image.binary);
  return image;
}

}  // namespace

Image read_image(Query& row) {
  Image image;
  std::string kernel, target;
  row.read(kernel, target, image.launch_revision, image.source_hash);
  image.kernel = parse_kernel(kernel);
  image.target = parse_target(target);
  image.usage = read_usage(row);
  row.read(image.compile_ms);
  return image;
}

std::int64_t find_image(const Connection& connection, const Image& image) {
  Query query = connection.query(
      "SELECT id FROM images WHERE kernel = ? AND target = ? AND launch_revision = ?");
  query.bind(to_string(image.kernel), to_string(image.target), image.launch_revision);
  return query.step() ? query.next<std::int64_t>() : 0;
}

std::int64_t put_image_row(const Connection& connection, const Image& image) {
  Query query = connection.query(kUpsert);
  query.bind(to_string(image.kernel), to_string(image.target), image.launch_revision,
             image.source_hash);
  bind_usage(query, image.usage);
  query.bind(image.compile_ms, image.log, image.binary).step();
  return query.next<std::int64_t>();
}

void link_image(const Connection& connection, std::int64_t record_id, std::int64_t image_id) {
  connection.query("INSERT OR IGNORE INTO record_images (record_id, image_id) VALUES (?, ?)")
      .bind(record_id, image_id)
      .run();
}

void Database::put_image(const Image& image, std::int64_t record_id) {
  const std::lock_guard lock(state_->mutex);
  const Connection& db = state_->connection;
  Transaction transaction(db);
  const std::int64_t id = put_image_row(db, image);
  if (record_id != 0) link_image(db, record_id, id);
  db.query("DELETE FROM claims WHERE kernel = ? AND target = ?")
      .bind(to_string(image.kernel), to_string(image.target))
      .run();
  transaction.commit();
}

std::optional<Image> Database::image(const KernelSpec& kernel, const Target& target,
                                     const std::string& launch_revision) const {
  const std::lock_guard lock(state_->mutex);
  Query query = state_->connection.query(kSelectOne);
  query.bind(to_string(kernel), to_string(target), launch_revision);
  auto found = state_->rows(query, "image", read_whole_image);
  if (found.empty()) return {};
  return std::move(found.front());
}

std::vector<Image> Database::images() const {
  const std::lock_guard lock(state_->mutex);
  Query query = state_->connection.query(kSelectAll);
  return state_->rows(query, "image", read_image);
}

}  // namespace tilewise
