#pragma once
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/common/output.hpp"
#include "vocabulary/record.hpp"

/// JSON documents of the commands.
namespace tilewise::cli {

/// What to_json() writes.
template <class T>
Json json_of(const T& value) {
  return Json::parse(to_json(value));
}

/// An array with what `form` makes of each item.
template <class Items, class Form>
Json array_of(const Items& items, Form form) {
  Json array = Json::array();
  for (const auto& item : items) array.push_back(form(item));
  return array;
}
template <class Items>
Json array_of(const Items& items) {
  return array_of(items, [](const auto& item) { return json_of(item); });
}

/// null for a value that is not known: 0, or no number.
inline Json positive_or_null(double value) {
  return std::isfinite(value) && value > 0 ? Json(value) : Json();
}

}  // namespace tilewise::cli
