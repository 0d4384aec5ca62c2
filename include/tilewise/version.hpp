#pragma once
#if __cplusplus < 202002L
#error "Tilewise's C++ interface needs C++20 (-std=c++20); tilewise/matmul.h is C"
#endif
#include <string_view>

#include "tilewise/export.h"
#include "tilewise/version.h"

namespace tilewise {

/// The version of the headers that a program is compiled with: 100 and "0.1.0".
inline constexpr int kVersion = TILEWISE_VERSION_NUMBER;
inline constexpr std::string_view kVersionText = TILEWISE_VERSION_TEXT;

/// The version of the library that a program is linked with.
TILEWISE_API int version() noexcept;
TILEWISE_API std::string_view version_text() noexcept;

}  // namespace tilewise
