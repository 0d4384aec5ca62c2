# Writes OUTPUT: the array NAME of TYPE (declared in HEADER, in namespace NAMESPACE) with one raw
# string literal per file of FILES (comma-separated), and its length. A header is named by its path
# from BASE, as in an #include; a kernel source (.cu) by its file name.
string(REPLACE "," ";" files "${FILES}")
set(text "// Made by cmake/embed.cmake.\n#include \"${HEADER}\"\n\n")
string(APPEND text "namespace ${NAMESPACE} {\n\nconst ${TYPE} ${NAME}s[] = {\n")
foreach(file ${files})
  get_filename_component(name ${file} NAME)
  if(NOT name MATCHES "\\.cu$")
    file(RELATIVE_PATH name ${BASE} ${file})
  endif()
  file(READ ${file} body)
  string(APPEND text "    {\"${name}\", R\"kernel(${body})kernel\"},\n")
endforeach()
string(APPEND text "};\nconst int ${NAME}Count = sizeof(${NAME}s) / sizeof(${NAME}s[0]);\n\n")
string(APPEND text "}  // namespace ${NAMESPACE}\n")
file(WRITE ${OUTPUT} "${text}")
