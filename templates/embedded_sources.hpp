#pragma once

namespace tilewise {

/// One file of templates/, as the build embedded it (embed.cmake).
struct EmbeddedSource {
  const char* name;
  const char* text;
};
extern const EmbeddedSource kEmbeddedSources[];
extern const int kEmbeddedSourceCount;

}  // namespace tilewise
