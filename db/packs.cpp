#include "db/packs.hpp"

#include <sqlite3.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "db/sqlite.hpp"
#include "db/zstd.hpp"
#include "vocabulary/thread_pool.hpp"

namespace tilewise {
namespace {

using Bytes = std::vector<std::uint8_t>;

// A pack has images of about so many bytes. Smaller packs are read sooner, and make the file
// larger: with half of a mebibyte it has 25.9 MB compressed by xz, of 25 that are the aim.
constexpr std::size_t kPackBytes = 3 << 18, kMostBytes = 64 << 20;
constexpr std::size_t kKept = 4;  // packs of a connection that stay unpacked
constexpr int kLevel = 19;

/// What `binary` is in place of the binary: its place in an unpacked pack.
struct Place {
  static constexpr char kMagic[8] = {'t', 'w', 'p', 'a', 'c', 'k', 'e', 'd'};
  std::int64_t pack = 0;
  std::uint64_t first = 0, size = 0;

  Bytes bytes() const {
    Bytes bytes(sizeof kMagic + sizeof *this);
    std::memcpy(bytes.data(), kMagic, sizeof kMagic);
    std::memcpy(bytes.data() + sizeof kMagic, this, sizeof *this);
    return bytes;
  }
  /// Empty for other bytes. A binary is an ELF file, which begins otherwise.
  static std::optional<Place> of(std::span<const std::uint8_t> bytes) {
    Place place;
    if (bytes.size() != sizeof kMagic + sizeof place ||
        std::memcmp(bytes.data(), kMagic, sizeof kMagic) != 0)
      return std::nullopt;
    std::memcpy(&place, bytes.data() + sizeof kMagic, sizeof place);
    return place;
  }
};

struct Unpacked {
  std::int64_t id = 0;
  Bytes bytes;  ///< empty for a pack that is damaged or not there
};
/// The packs that were used last, the latest first.
using KeptPacks = std::vector<Unpacked>;

/// Empty bytes for a pack that is damaged or not there. Sets an error and returns none where the
/// database cannot be read.
std::optional<Bytes> unpacked_pack(sqlite3_context* context, std::int64_t id) {
  sqlite3* const connection = sqlite3_context_db_handle(context);
  sqlite3_stmt* statement = nullptr;
  Bytes bytes;
  int code = sqlite3_prepare_v2(connection, "SELECT data FROM packs WHERE id = ?", -1, &statement,
                                nullptr);
  if (code == SQLITE_OK) code = sqlite3_bind_int64(statement, 1, id);
  if (code == SQLITE_OK) code = sqlite3_step(statement);
  if (code == SQLITE_ROW) {
    const auto* data = static_cast<const std::uint8_t*>(sqlite3_column_blob(statement, 0));
    const auto size = static_cast<std::size_t>(sqlite3_column_bytes(statement, 0));
    if (auto whole = zstd_decompressed({data, size}, kMostBytes)) bytes = *std::move(whole);
  } else if (code != SQLITE_DONE) {
    sqlite3_result_error(context, sqlite3_errmsg(connection), -1);
  }
  sqlite3_finalize(statement);
  if (code != SQLITE_ROW && code != SQLITE_DONE) return std::nullopt;
  return bytes;
}

/// Null, after setting an error, where the database cannot be read.
const Unpacked* pack_of(sqlite3_context* context, std::int64_t id) {
  auto& kept = *static_cast<KeptPacks*>(sqlite3_user_data(context));
  auto found =
      std::find_if(kept.begin(), kept.end(), [&](const auto& one) { return one.id == id; });
  if (found == kept.end()) {
    std::optional<Bytes> bytes = unpacked_pack(context, id);
    if (!bytes) return nullptr;
    if (kept.size() == kKept) kept.pop_back();
    found = kept.insert(kept.end(), {id, *std::move(bytes)});
  }
  std::rotate(kept.begin(), found, found + 1);
  return &kept.front();
}

void unpacked(sqlite3_context* context, int, sqlite3_value** values) {
  const auto* data = static_cast<const std::uint8_t*>(sqlite3_value_blob(values[0]));
  const auto size = static_cast<std::size_t>(sqlite3_value_bytes(values[0]));
  const std::optional<Place> place =
      data ? Place::of({data, size}) : std::optional<Place>(std::nullopt);
  if (!place) return sqlite3_result_value(context, values[0]);
  if (!has_zstd())
    return sqlite3_result_error(context, "it is compressed, and libzstd.so.1 cannot be loaded", -1);
  try {
    const Unpacked* const pack = pack_of(context, place->pack);
    if (!pack) return;
    if (place->first > pack->bytes.size() || place->size > pack->bytes.size() - place->first)
      return sqlite3_result_zeroblob(context, 0);
    sqlite3_result_blob64(context, pack->bytes.data() + place->first, place->size,
                          SQLITE_TRANSIENT);
  } catch (const std::exception&) {
    sqlite3_result_error_nomem(context);
  }
}

struct Pack {
  std::vector<std::pair<std::int64_t, Place>> images;  ///< by their ids
  Bytes bytes;
};

/// The binaries that are not packed, those of equal templates together.
std::vector<Pack> gathered(const Connection& connection) {
  std::vector<Pack> packs;
  Query query =
      connection.query("SELECT id, binary FROM images ORDER BY target, kernel, launch_revision");
  while (query.step()) {
    std::int64_t id = 0;
    Bytes binary;
    query.read(id, binary);
    if (Place::of(binary)) continue;
    if (packs.empty() || packs.back().bytes.size() >= kPackBytes) packs.emplace_back();
    Pack& pack = packs.back();
    pack.images.emplace_back(id, Place{0, pack.bytes.size(), binary.size()});
    pack.bytes.insert(pack.bytes.end(), binary.begin(), binary.end());
  }
  return packs;
}

}  // namespace

PackResult pack_images(const std::filesystem::path& path, int threads,
                       const std::function<bool()>& goes_on) {
  if (!has_zstd()) return PackResult::no_library;
  const Connection connection(path, Connection::Access::write);
  std::vector<Pack> packs = gathered(connection);
  std::atomic<bool> stopped = false;
  parallel_for(std::ssize(packs), threads, [&](std::int64_t i, int) {
    if (stopped || !goes_on()) {
      stopped = true;
      return;
    }
    Bytes& bytes = packs[static_cast<std::size_t>(i)].bytes;
    bytes = zstd_compressed(bytes, kLevel);
  });
  if (stopped) return PackResult::stopped;
  Transaction transaction(connection);
  connection.execute(
      "CREATE TABLE IF NOT EXISTS packs (id INTEGER PRIMARY KEY, data BLOB NOT NULL) STRICT");
  for (Pack& pack : packs) {
    std::int64_t id = 0;
    {
      Query query = connection.query("INSERT INTO packs (data) VALUES (?) RETURNING id");
      query.bind(pack.bytes).step();
      id = query.next<std::int64_t>();
    }
    for (auto& [image, place] : pack.images) {
      place.pack = id;
      connection.query("UPDATE images SET binary = ? WHERE id = ?")
          .bind(place.bytes(), image)
          .run();
    }
  }
  transaction.commit();
  return PackResult::done;
}

int define_unpacked(sqlite3* connection) {
  return sqlite3_create_function_v2(connection, "unpacked", 1, SQLITE_UTF8, new KeptPacks, unpacked,
                                    nullptr, nullptr,
                                    [](void* kept) { delete static_cast<KeptPacks*>(kept); });
}

}  // namespace tilewise
