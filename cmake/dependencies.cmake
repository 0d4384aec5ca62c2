# Every dependency is a package found here; nothing is vendored. The driver, NVRTC, NVML and cuBLAS
# are loaded at run time: building needs only two of their headers.
find_package(Threads REQUIRED)
find_package(nlohmann_json 3.10 REQUIRED)
find_package(CLI11 REQUIRED)

# SQLite: static where possible, so that the program runs on machines without SQLite.
find_path(SQLITE3_INCLUDE_DIR sqlite3.h REQUIRED)
set(_sqlite_names sqlite3)
if(TILEWISE_STATIC_SQLITE)
  set(_sqlite_names ${CMAKE_STATIC_LIBRARY_PREFIX}sqlite3${CMAKE_STATIC_LIBRARY_SUFFIX} sqlite3)
endif()
find_library(SQLITE3_LIBRARY NAMES ${_sqlite_names} REQUIRED)
add_library(tilewise_sqlite INTERFACE)
target_include_directories(tilewise_sqlite SYSTEM INTERFACE ${SQLITE3_INCLUDE_DIR})
target_link_libraries(tilewise_sqlite INTERFACE ${SQLITE3_LIBRARY} m ${CMAKE_DL_LIBS} Threads::Threads)
if(TILEWISE_SHARED OR TILEWISE_PYTHON)
  find_library(SQLITE3_SHARED_LIBRARY NAMES sqlite3 REQUIRED)
  add_library(tilewise_sqlite_shared INTERFACE)
  target_link_libraries(tilewise_sqlite_shared INTERFACE ${SQLITE3_SHARED_LIBRARY})
endif()

# Boost.Context: the fibers of the CPU executor. Static where possible, for the same reason.
set(Boost_USE_STATIC_LIBS ${TILEWISE_STATIC_SQLITE})
find_package(Boost 1.71 QUIET COMPONENTS context)
if(NOT Boost_FOUND AND Boost_USE_STATIC_LIBS)
  set(Boost_USE_STATIC_LIBS OFF)
endif()
find_package(Boost 1.71 REQUIRED COMPONENTS context)
add_library(tilewise_fibers INTERFACE)
target_link_libraries(tilewise_fibers INTERFACE Boost::context)

# xxHash, header-only (XXH_INLINE_ALL): no run-time dependency.
find_path(XXHASH_INCLUDE_DIR xxhash.h REQUIRED)
add_library(tilewise_xxhash INTERFACE)
target_include_directories(tilewise_xxhash SYSTEM INTERFACE ${XXHASH_INCLUDE_DIR})
target_compile_definitions(tilewise_xxhash INTERFACE XXH_INLINE_ALL)

# Eigen, header-only: linear algebra of the search.
find_path(EIGEN_INCLUDE_DIR Eigen/Cholesky PATH_SUFFIXES eigen3 REQUIRED)
add_library(tilewise_eigen INTERFACE)
target_include_directories(tilewise_eigen SYSTEM INTERFACE ${EIGEN_INCLUDE_DIR})
target_compile_definitions(tilewise_eigen INTERFACE EIGEN_DONT_PARALLELIZE)

# cuda.h and nvrtc.h: from a CUDA toolkit, or from pip's NVIDIA wheels (./autotune fetches them). A
# path from an earlier configuration is searched again when its header is gone.
foreach(_found cuda.h:TILEWISE_CUDA_INCLUDE nvrtc.h:TILEWISE_NVRTC_INCLUDE)
  string(REGEX MATCH "^([^:]+):(.+)$" _ "${_found}")
  if(${CMAKE_MATCH_2} AND NOT EXISTS "${${CMAKE_MATCH_2}}/${CMAKE_MATCH_1}")
    unset(${CMAKE_MATCH_2} CACHE)
  endif()
endforeach()
file(GLOB _wheel_includes
     ${tilewise_SOURCE_DIR}/.tilewise/venv/lib/python3*/site-packages/nvidia/cu1*/include
     ${tilewise_SOURCE_DIR}/.tilewise/venv/lib/python3*/site-packages/nvidia/cuda_*/include)
file(GLOB _toolkit_includes /usr/local/cuda/include /usr/local/cuda-*/include /opt/cuda/include)
find_path(TILEWISE_CUDA_INCLUDE cuda.h HINTS $ENV{CUDA_HOME}/include $ENV{CUDA_PATH}/include
          PATHS ${_toolkit_includes} ${_wheel_includes} REQUIRED)
find_path(TILEWISE_NVRTC_INCLUDE nvrtc.h HINTS ${TILEWISE_CUDA_INCLUDE} PATHS ${_wheel_includes} REQUIRED)
add_library(tilewise_cuda_headers INTERFACE)
target_include_directories(tilewise_cuda_headers SYSTEM INTERFACE ${TILEWISE_CUDA_INCLUDE}
                           ${TILEWISE_NVRTC_INCLUDE})
