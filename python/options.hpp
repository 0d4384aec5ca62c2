#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "python/arrays.hpp"
#include "tilewise/matmul.hpp"

namespace tilewise::python {

/// str(object) in UTF-8. Surrogates, which a path that is not UTF-8 may have, are written as
/// "\udcff".
std::string text_of(nanobind::handle object);
/// A text of the library as a Python string. Bytes that are not UTF-8 are written as "\xff".
nanobind::str to_python(std::string_view text);

/// A device in the form of MatmulOptions::device, from "cuda:1", "1", 1, "cpu" or a torch.device;
/// none for None. A text that names no device is refused when the device is opened.
std::optional<std::string> device_text(nanobind::handle device);

/// The options of configure(). Options that are None keep their defaults. Throws
/// nanobind::type_error for an unknown name and for a value of another type,
/// Error(invalid_argument) for on_miss.
MatmulOptions options_of(const nanobind::kwargs& values);

}  // namespace tilewise::python
