# cmake --install: the program, the headers of include/tilewise and the library, with files for find_package(tilewise)
# and pkg-config. The components runtime, dev and autotune are the packages of packages.cmake.
include(CMakePackageConfigHelpers)

set(_package ${CMAKE_INSTALL_LIBDIR}/cmake/tilewise)
set(_kinds static)
if(TILEWISE_SHARED)
  list(APPEND _kinds shared)
endif()
foreach(kind ${_kinds})
  install(TARGETS tilewise_${kind} EXPORT tilewise-${kind}
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT dev)
  install(EXPORT tilewise-${kind} FILE tilewise-${kind}-targets.cmake NAMESPACE tilewise::
          DESTINATION ${_package} COMPONENT dev)
endforeach()
install(TARGETS autotune RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT autotune)
if(NOT CMAKE_CROSSCOMPILING)
  install(FILES ${tilewise_BINARY_DIR}/cli/autotune.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT autotune)
endif()
install(DIRECTORY include/tilewise DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT dev)

# What serves products that were not tuned, without a compiler: the library finds the file in the folder tilewise next to it.
if(TILEWISE_IMAGES)
  set(_name tilewise-${tilewise_VERSION}-sm_90a.images)
  set(_images ${tilewise_BINARY_DIR}/${_name})
  set(_kinds_of_images)
  if(TILEWISE_IMAGE_KINDS)
    set(_kinds_of_images --kinds ${TILEWISE_IMAGE_KINDS})
  endif()
  # Images that were compiled before are in the cache of this database.
  add_custom_command(OUTPUT ${_images} COMMAND autotune images --arch sm_90 ${_kinds_of_images} -o ${_images}
                     --db ${tilewise_BINARY_DIR}/images.db DEPENDS autotune COMMENT "Compiling ${_name}" USES_TERMINAL VERBATIM)
  add_custom_target(tilewise_images ALL DEPENDS ${_images})
  install(FILES ${_images} DESTINATION ${CMAKE_INSTALL_LIBDIR}/tilewise COMPONENT images)
  install(FILES ${_images} DESTINATION tilewise COMPONENT images_python EXCLUDE_FROM_ALL)
endif()

configure_package_config_file(cmake/tilewise-config.cmake.in
                              ${CMAKE_CURRENT_BINARY_DIR}/tilewise-config.cmake
                              INSTALL_DESTINATION ${_package})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/tilewise-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/tilewise-config.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/tilewise-config-version.cmake DESTINATION ${_package} COMPONENT dev)

# Paths from the file's own place: the installed tree may be moved. pkg-config escapes blanks in it.
file(RELATIVE_PATH TILEWISE_PC_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
string(REGEX REPLACE "/$" "" TILEWISE_PC_PREFIX ${TILEWISE_PC_PREFIX})
set(TILEWISE_PC_LIBS "-lsqlite3 -lboost_context -lstdc++ -lm -ldl -pthread")
if(TILEWISE_SHARED)
  set(TILEWISE_PC_LIBS "\nLibs.private: ${TILEWISE_PC_LIBS}")
else()
  set(TILEWISE_PC_LIBS " ${TILEWISE_PC_LIBS}")
endif()
configure_file(cmake/tilewise.pc.in tilewise.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/tilewise.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)
