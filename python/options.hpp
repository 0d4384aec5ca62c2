#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "python/arrays.hpp"
#include "tilewise/matmul.hpp"

namespace tilewise::python {

/// str(object) in UTF-8. What UTF-8 does not have (the bytes of a path that is no UTF-8) is written
/// as "\udcff".
std::string text_of(nanobind::handle object);
/// A text of the library as Python's; bytes that are no UTF-8 are written as "\xff".
nanobind::str to_python(std::string_view text);

/// A device as MatmulOptions::device names it, from "cuda:1", "1", 1, "cpu", a torch.device; none
/// for None. Texts that name no device are refused where the device is opened.
std::optional<std::string> device_text(nanobind::handle device);

/// The options of configure(). Those that are None keep their defaults. Throws nanobind::type_error
/// for a name that is none and for values of another type, Error(invalid_argument) for on_miss.
MatmulOptions options_of(const nanobind::kwargs& values);

}  // namespace tilewise::python
