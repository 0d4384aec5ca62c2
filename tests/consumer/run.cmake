# Installs the build tree BUILD below SCRATCH, then configures, builds and runs the consumer against it.
# Also as an incomplete tree: a developer who built one room only is told so.
foreach(file ${NEEDED})
  if(NOT EXISTS "${file}")
    message("skipped: ${file} is not built")
    return()
  endif()
endforeach()

function(run what)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE said ERROR_VARIABLE said)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${what} failed (${status}):\n${said}")
  endif()
  set(said "${said}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE "${SCRATCH}")
set(prefix "${SCRATCH}/installed here")
run("cmake --install" ${CMAKE_COMMAND} --install "${BUILD}" --prefix "${prefix}")
# No path of this machine's trees may be baked into the package.
file(GLOB_RECURSE package_files "${prefix}/*.cmake")
foreach(file ${package_files})
  file(READ "${file}" text)
  string(FIND "${text}" "${BUILD}" at)
  if(NOT at EQUAL -1)
    message(FATAL_ERROR "${file} names the build tree ${BUILD}")
  endif()
endforeach()
run("cmake of the consumer" ${CMAKE_COMMAND} -G "${GENERATOR}" -S "${CMAKE_CURRENT_LIST_DIR}"
    -B "${SCRATCH}/build" "-DCMAKE_PREFIX_PATH=${prefix}" "-DCMAKE_CXX_COMPILER=${CXX}"
    "-DCMAKE_CXX_FLAGS=${FLAGS}" "-DCMAKE_BUILD_TYPE=${CONFIG}")
run("build of the consumer" ${CMAKE_COMMAND} --build "${SCRATCH}/build")
foreach(program consumer c_consumer)
  run(${program} "${SCRATCH}/build/${program}")
  message("${program}: ${said}")
endforeach()
run("installed autotune" "${prefix}/bin/autotune" --version)
message("${said}")
