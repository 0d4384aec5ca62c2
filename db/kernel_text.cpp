#include "db/kernel_text.hpp"

#include <algorithm>
#include <string>

#include "tilewise/error.hpp"
#include "vocabulary/decimal.hpp"

namespace tilewise {
namespace {

Error bad_kernel(std::string_view text) {
  return {ErrorKind::invalid_argument,
          "bad kernel \"" + std::string(text.substr(0, 200)) +
              "\"; it is written SOURCE:ENTRY NAME=NUMBER ... | EPILOGUE, as in simt.cu:simt "
              "TILE_M=128"};
}

}  // namespace

KernelSpec parse_kernel(std::string_view text) {
  const auto word_end = [](std::string_view rest) { return std::min(rest.find(' '), rest.size()); };
  std::string_view rest = text, epilogue;
  if (const auto bar = text.find(" | "); bar != std::string_view::npos) {
    rest = text.substr(0, bar);
    epilogue = text.substr(bar + 3);
  }
  const std::string_view name = rest.substr(0, word_end(rest));
  const auto colon = name.rfind(':');
  if (colon == std::string_view::npos) throw bad_kernel(text);
  KernelSpec kernel{std::string(name.substr(0, colon)),
                    std::string(name.substr(colon + 1)),
                    {},
                    std::string(epilogue)};
  for (rest.remove_prefix(name.size()); !rest.empty();) {
    rest.remove_prefix(1);  // the blank
    const std::string_view define = rest.substr(0, word_end(rest));
    const auto equals = define.find('=');
    if (equals == std::string_view::npos) throw bad_kernel(text);
    const auto value = number_in<std::int64_t>(define.substr(equals + 1));
    if (!value || !kernel.defines.emplace(define.substr(0, equals), *value).second)
      throw bad_kernel(text);
    rest.remove_prefix(define.size());
  }
  return kernel;
}

}  // namespace tilewise
