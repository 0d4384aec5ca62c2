# The library that a program links: libtilewise.a and, with TILEWISE_SHARED, libtilewise.so. Both hold the objects of
# the same six rooms, so nothing is compiled twice. The tests and the programs of this tree link the rooms.
set(_objects "")
foreach(room vocabulary templates device db matmul api)
  list(APPEND _objects $<TARGET_OBJECTS:tilewise_${room}>)
endforeach()

function(tilewise_library kind)
  set(target tilewise_${kind})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME tilewise LINKER_LANGUAGE CXX EXPORT_NAME ${kind})
  target_include_directories(${target} INTERFACE $<BUILD_INTERFACE:${tilewise_SOURCE_DIR}/include>
                             $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(${target} INTERFACE cxx_std_20)
  add_library(tilewise::${kind} ALIAS ${target})
endfunction()

add_library(tilewise_static STATIC ${_objects})
tilewise_library(static)
target_link_libraries(tilewise_static INTERFACE
                      $<BUILD_INTERFACE:tilewise_sqlite> $<INSTALL_INTERFACE:SQLite::SQLite3>
                      $<BUILD_INTERFACE:tilewise_fibers> $<INSTALL_INTERFACE:Boost::context>
                      Threads::Threads m ${CMAKE_DL_LIBS})
set(_default static)

if(TILEWISE_SHARED)
  add_library(tilewise_shared SHARED ${_objects})
  tilewise_library(shared)
  set_target_properties(tilewise_shared PROPERTIES VERSION ${tilewise_VERSION} SOVERSION ${tilewise_VERSION_MAJOR})
  # Debian's libsqlite3.a is not position-independent.
  target_link_libraries(tilewise_shared PRIVATE $<BUILD_INTERFACE:tilewise_sqlite_shared>
                        $<BUILD_INTERFACE:tilewise_fibers> $<BUILD_INTERFACE:Threads::Threads> ${CMAKE_DL_LIBS})
  set(_map ${tilewise_SOURCE_DIR}/cmake/libtilewise.map)
  # Never unloaded: default_matmul() and its threads live until the process ends.
  target_link_options(tilewise_shared PRIVATE -Wl,--version-script=${_map} -Wl,-z,nodelete -Wl,--gc-sections)
  # A sanitizer's functions are in the program.
  if(NOT CMAKE_CXX_FLAGS MATCHES "-fsanitize=")
    target_link_options(tilewise_shared PRIVATE -Wl,--no-undefined)
  endif()
  set_target_properties(tilewise_shared PROPERTIES LINK_DEPENDS ${_map})
  set(_default shared)
endif()
add_library(tilewise::tilewise ALIAS tilewise_${_default})
