#pragma once

namespace tilewise::cpu {

/// The headers included before every kernel, as text; generated at build time.
struct EmbeddedHeader {
  const char* name;
  const char* text;
};
extern const EmbeddedHeader kEmbeddedHeaders[];
extern const int kEmbeddedHeaderCount;

}  // namespace tilewise::cpu
