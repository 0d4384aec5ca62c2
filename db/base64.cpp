#include "db/base64.hpp"

#include <algorithm>

#include "tilewise/error.hpp"

namespace tilewise {
namespace {

constexpr std::string_view kLetters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

Error bad_base64(const std::string& why) {
  return {ErrorKind::invalid_argument, "bad base64: " + why};
}

std::uint32_t value_of(char letter) {
  const auto at = kLetters.find(letter);
  if (at == std::string_view::npos) {
    throw bad_base64(std::string("unexpected character '") + letter + "'");
  }
  return static_cast<std::uint32_t>(at);
}

}  // namespace

std::string to_base64(std::span<const std::uint8_t> bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 3; ++j) group = group << 8 | (j < count ? bytes[i + j] : 0u);
    for (std::size_t j = 0; j < 4; ++j) {
      text += j <= count ? kLetters[group >> (18 - 6 * j) & 63] : '=';
    }
  }
  return text;
}

std::vector<std::uint8_t> from_base64(std::string_view text) {
  if (text.size() % 4 != 0) {
    throw bad_base64("its length " + std::to_string(text.size()) + " is no multiple of 4");
  }
  const std::size_t padding = text.size() - std::min(text.find_last_not_of('=') + 1, text.size());
  if (padding > 2) throw bad_base64("more than two '='");
  std::vector<std::uint8_t> bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (std::size_t i = 0; i < text.size(); i += 4) {
    const std::size_t letters = i + 4 == text.size() ? 4 - padding : 4;
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 4; ++j)
      group = group << 6 | (j < letters ? value_of(text[i + j]) : 0u);
    for (std::size_t j = 0; j + 1 < letters; ++j) {
      bytes.push_back(static_cast<std::uint8_t>(group >> (16 - 8 * j)));
    }
  }
  return bytes;
}

}  // namespace tilewise
