# Writes OUTPUT: the array that templates/sources.cpp reads, one raw string literal per file of FILES
# (comma-separated).
string(REPLACE "," ";" files "${FILES}")
set(text "// Made by templates/embed.cmake.\n#include \"templates/embedded_sources.hpp\"\n\n")
string(APPEND text "namespace tilewise {\n\nconst EmbeddedSource kEmbeddedSources[] = {\n")
foreach(file ${files})
  get_filename_component(name ${file} NAME)
  file(READ ${file} body)
  string(APPEND text "    {\"${name}\", R\"kernel(${body})kernel\"},\n")
endforeach()
string(APPEND text "};\nconst int kEmbeddedSourceCount = sizeof(kEmbeddedSources) / sizeof(kEmbeddedSources[0]);\n\n")
string(APPEND text "}  // namespace tilewise\n")
file(WRITE ${OUTPUT} "${text}")
