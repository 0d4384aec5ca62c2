# tilewise_room(NAME [EXCLUDE folder...] LINK ...): the static library tilewise_NAME of every .cpp
# in folder NAME and below it.
function(tilewise_room name)
  cmake_parse_arguments(ROOM "" "" "EXCLUDE;LINK" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${tilewise_SOURCE_DIR}/${name}/*.cpp)
  foreach(folder ${ROOM_EXCLUDE})
    list(FILTER sources EXCLUDE REGEX "/${name}/${folder}/[^/]*$")
  endforeach()
  add_library(tilewise_${name} STATIC ${sources})
  add_library(tilewise::${name} ALIAS tilewise_${name})
  tilewise_options(tilewise_${name})
  tilewise_precompiled(tilewise_${name})
  target_link_libraries(tilewise_${name} ${ROOM_LINK})
endfunction()

# Standard headers, precompiled once for all rooms: a source takes 1 to 3 s less of a processor. A source includes what
# it uses all the same; the sanitizers' presets build without. Only GCC takes them for other optimisation levels, too.
function(tilewise_precompiled target)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU" OR CMAKE_DISABLE_PRECOMPILE_HEADERS)
    return()
  endif()
  # GCC then takes inlined code of std::string for ours, and warns of it: 105651 and kin.
  target_compile_options(${target} PRIVATE -Wno-restrict -Wno-maybe-uninitialized -Wno-array-bounds
                         -Wno-stringop-overflow -Wno-stringop-overread)
  if(NOT TARGET tilewise_headers)
    file(WRITE ${tilewise_BINARY_DIR}/headers.cpp "")
    add_library(tilewise_headers OBJECT ${tilewise_BINARY_DIR}/headers.cpp)
    tilewise_options(tilewise_headers)
    target_precompile_headers(tilewise_headers PRIVATE ${TILEWISE_STANDARD_HEADERS})
  endif()
  target_precompile_headers(${target} REUSE_FROM tilewise_headers)
endfunction()
set(TILEWISE_STANDARD_HEADERS <algorithm> <array> <atomic> <chrono> <cmath> <cstdint> <cstring> <filesystem>
    <functional> <map> <memory> <mutex> <optional> <span> <string> <string_view> <utility> <vector>)

# A program with a command line. It parses and prints: build time matters more than speed. But with -O0 the whole program
# would be slow: of inline functions that it shares with the libraries the linker takes the program's copies. The
# headers of the command line and of JSON are compiled once for all programs.
function(tilewise_program target)
  set(optimise $<$<CONFIG:Release>:-O1>)
  target_compile_options(${target} PRIVATE ${optimise})
  if(NOT TARGET tilewise_program_headers)
    file(WRITE ${tilewise_BINARY_DIR}/program_headers.cpp "int main() {}\n")
    add_executable(tilewise_program_headers ${tilewise_BINARY_DIR}/program_headers.cpp)
    tilewise_options(tilewise_program_headers)
    target_compile_options(tilewise_program_headers PRIVATE ${optimise})
    target_link_libraries(tilewise_program_headers PRIVATE CLI11::CLI11 nlohmann_json::nlohmann_json Threads::Threads)
    target_precompile_headers(tilewise_program_headers PRIVATE <CLI/CLI.hpp> <nlohmann/json.hpp>
                              ${TILEWISE_STANDARD_HEADERS})
  endif()
  target_precompile_headers(${target} REUSE_FROM tilewise_program_headers)
endfunction()

# Compile options of every target of ours.
function(tilewise_options target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${tilewise_SOURCE_DIR}/include>
                             $<INSTALL_INTERFACE:include> PRIVATE ${tilewise_SOURCE_DIR})
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor
                         -Wold-style-cast -Woverloaded-virtual $<$<BOOL:${TILEWISE_WERROR}>:-Werror>)
  # False warnings of GCC 12: overlapping copies inside its std::string (GCC bug 105651), and parts
  # of an empty std::optional (GCC bug 80635).
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    target_compile_options(${target} PRIVATE -Wno-restrict -Wno-maybe-uninitialized)
  endif()
  # libtilewise.so is linked from the same objects as the programs: position-independent, and it exports TILEWISE_API alone.
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden
                        VISIBILITY_INLINES_HIDDEN ON)
  # A shared library leaves out what none of its exported functions uses: an eighth of the code (--gc-sections).
  target_compile_options(${target} PRIVATE -ffunction-sections -fdata-sections)
  # All sources of a target at once, not in batches: two names that clash would be found only where a batch has both.
  if(TILEWISE_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      # A tenth of the time goes into collecting memory that the compiler no longer uses.
      target_compile_options(${target} PRIVATE --param=ggc-min-heapsize=1000000)
    endif()
  endif()
endfunction()

# tilewise_embed(OUTPUT HEADER NAMESPACE TYPE NAME BASE FILE...): makes the .cpp OUTPUT with the
# text of each FILE, see embed.cmake; headers are named by their paths from BASE.
function(tilewise_embed output header namespace type name base)
  string(REPLACE ";" "," list "${ARGN}")
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DFILES=${list} -DOUTPUT=${output} -DHEADER=${header} -DNAMESPACE=${namespace}
            -DTYPE=${type} -DNAME=${name} -DBASE=${base}
            -P ${tilewise_SOURCE_DIR}/cmake/embed.cmake
    DEPENDS ${ARGN} ${tilewise_SOURCE_DIR}/cmake/embed.cmake
    VERBATIM)
endfunction()
