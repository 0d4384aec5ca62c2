#include "tilewise/match.hpp"

namespace tilewise {

std::string_view to_string(MatchKind kind) {
  switch (kind) {
    case MatchKind::exact:
      return "exact";
    case MatchKind::predicted:
      return "predicted";
    case MatchKind::default_:
      return "default";
  }
  return "unknown";
}

}  // namespace tilewise
