# cpack -G DEB makes three packages: libtilewise0 (the shared library), libtilewise-dev and autotune, and with
# -DTILEWISE_IMAGES=ON tilewise-images. Make them of a tree
# configured with -DTILEWISE_TESTS=OFF and -DCMAKE_INSTALL_PREFIX=/usr (Debian's folder of libraries, lib/ARCHITECTURE).
if(NOT PROJECT_IS_TOP_LEVEL)
  return()
endif()
set(CPACK_PACKAGE_NAME tilewise)
set(CPACK_PACKAGE_VENDOR "The Tilewise authors")
set(CPACK_PACKAGE_CONTACT "The Tilewise authors <tilewise@localhost>")
set(CPACK_RESOURCE_FILE_LICENSE ${tilewise_SOURCE_DIR}/LICENSE)
set(CPACK_COMPONENTS_ALL dev autotune)
if(TILEWISE_SHARED)
  list(PREPEND CPACK_COMPONENTS_ALL runtime)
endif()
if(TILEWISE_IMAGES)
  list(APPEND CPACK_COMPONENTS_ALL images)
endif()
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_STRIP_FILES ON)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)  # images repeat one another: a third of gzip's size
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)  # and ldconfig runs after installing

set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME libtilewise${tilewise_VERSION_MAJOR})
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_RUNTIME_DESCRIPTION "The shared library. It serves the fastest kernels that autotune has found
and stored. NVIDIA's driver and NVRTC are loaded at run time.")

set(CPACK_DEBIAN_DEV_PACKAGE_NAME libtilewise-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_RECOMMENDS "libsqlite3-dev, libboost-context-dev")  # of the static library
if(TILEWISE_SHARED)
  set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "${CPACK_DEBIAN_RUNTIME_PACKAGE_NAME} (= ${tilewise_VERSION})")
endif()
set(CPACK_DEBIAN_DEV_DESCRIPTION "The headers for C and C++, the static library, and the files for CMake and
pkg-config.")

set(CPACK_DEBIAN_AUTOTUNE_PACKAGE_NAME autotune)
set(CPACK_DEBIAN_AUTOTUNE_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_AUTOTUNE_PACKAGE_SUGGESTS "g++")  # --device host
set(CPACK_DEBIAN_AUTOTUNE_DESCRIPTION "The tuner. It finds the fastest kernel for a matrix product on this machine's
GPU and stores it, with every measurement, in a SQLite database.")

set(CPACK_DEBIAN_IMAGES_PACKAGE_NAME tilewise-images)
set(CPACK_DEBIAN_IMAGES_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_IMAGES_PACKAGE_DEPENDS libzstd1)  # loaded at run time
set(CPACK_DEBIAN_IMAGES_PACKAGE_ENHANCES ${CPACK_DEBIAN_RUNTIME_PACKAGE_NAME})
set(CPACK_DEBIAN_IMAGES_DESCRIPTION "Compiled kernels for products that were not tuned, on GPUs of compute
capability 9.0. With it their first call needs no compiler.")

# The licence of each package, where Debian has it; a plain `cmake --install` leaves these out.
foreach(component ${CPACK_COMPONENTS_ALL})
  string(TOUPPER ${component} _component)
  install(FILES LICENSE RENAME copyright COMPONENT ${component} EXCLUDE_FROM_ALL
          DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/${CPACK_DEBIAN_${_component}_PACKAGE_NAME})
endforeach()
include(CPack)
