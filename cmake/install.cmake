# cmake --install: the program, the headers of include/tilewise and, for find_package(tilewise), the
# static libraries behind tilewise::matmul.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(_package ${CMAKE_INSTALL_LIBDIR}/cmake/tilewise)
foreach(room vocabulary templates device db matmul)
  set_target_properties(tilewise_${room} PROPERTIES EXPORT_NAME ${room})
  install(TARGETS tilewise_${room} EXPORT tilewise-targets
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
endforeach()
install(TARGETS autotune RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY include/tilewise DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(EXPORT tilewise-targets NAMESPACE tilewise:: DESTINATION ${_package})

configure_package_config_file(cmake/tilewise-config.cmake.in
                              ${CMAKE_CURRENT_BINARY_DIR}/tilewise-config.cmake
                              INSTALL_DESTINATION ${_package})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/tilewise-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/tilewise-config.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/tilewise-config-version.cmake DESTINATION ${_package})
