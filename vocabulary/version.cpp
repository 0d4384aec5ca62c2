#include "tilewise/version.hpp"

namespace tilewise {

int version() noexcept { return kVersion; }
std::string_view version_text() noexcept { return kVersionText; }

}  // namespace tilewise
