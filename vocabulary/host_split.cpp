#include "tilewise/host_split.hpp"

#include <nlohmann/json.hpp>

#include "vocabulary/decimal.hpp"

namespace tilewise {
namespace {

/// "833 MiB"; small amounts in bytes.
std::string amount(std::int64_t bytes) {
  return bytes < 10 << 20 ? std::to_string(bytes) + " bytes" : std::to_string(bytes >> 20) + " MiB";
}

}  // namespace

std::string to_string(const HostSplit& x) {
  std::string text = std::to_string(x.tiles) + (x.tiles == 1 ? " tile of " : " tiles of ") +
                     std::to_string(x.tile_m) + "x" + std::to_string(x.tile_n) + "x" +
                     std::to_string(x.tile_k);
  if (x.tile_batch > 1) text += " batch " + std::to_string(x.tile_batch);
  text += "; device " + amount(x.device_bytes) + ", staging " + amount(x.staging_bytes) + "; up " +
          amount(x.bytes_up) + ", down " + amount(x.bytes_down);
  if (x.expected_seconds > 0)
    text += "; expected " + in_digits(x.expected_seconds * 1e3, 4) + " ms";
  return text;
}

std::string to_json(const HostSplit& x) {
  nlohmann::ordered_json json;
  json["tile"] = {x.tile_m, x.tile_n, x.tile_k};
  json["tile_batch"] = x.tile_batch;
  json["tiles"] = x.tiles;
  json["device_bytes"] = x.device_bytes;
  json["staging_bytes"] = x.staging_bytes;
  json["bytes_up"] = x.bytes_up;
  json["bytes_down"] = x.bytes_down;
  json["expected_seconds"] = x.expected_seconds;
  return json.dump();
}

}  // namespace tilewise
