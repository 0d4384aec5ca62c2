#pragma once

namespace tilewise::host {

/// The headers that every kernel is compiled behind, as text; made at build time.
struct EmbeddedHeader {
  const char* name;
  const char* text;
};
extern const EmbeddedHeader kEmbeddedHeaders[];
extern const int kEmbeddedHeaderCount;

}  // namespace tilewise::host
