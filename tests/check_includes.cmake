# The rules that no compiler checks, read off the source text:
#   - rooms include only rooms below them: include <- vocabulary <- {templates, device, db} <- matmul <- {api, tuner},
#     api <- drop_in, tuner <- cli; within tuner/: reference <- evaluate <- worker, {evaluate, search} <- the loop <- ladder;
#   - include/, which is installed, includes itself only, and so do python/ (besides itself), examples/ and tests/install/, programs
#     of others;
#   - sqlite3.h only in db/, cuda.h and nvrtc.h only in device/cuda/, Boost only in device/cpu/, Eigen only in tuner/search/, CLI11
#     only in cli/ and in bench/, whose programs read arguments too;
#   - nlohmann/json only in .cpp files;
#   - no file of more than 800 lines.
# Usage: cmake -DROOT=<tree> -P check_includes.cmake
cmake_minimum_required(VERSION 3.22)

# What each room may include, as the first folder(s) of the include path.
set(include_may tilewise)
set(vocabulary_may tilewise vocabulary)
set(templates_may tilewise vocabulary templates)
set(device_may tilewise vocabulary device)
set(db_may tilewise vocabulary db)
set(matmul_may tilewise vocabulary templates device db matmul)
set(api_may ${matmul_may} api)
set(tuner_may ${matmul_may} tuner)
set(cli_may ${tuner_may} cli)
set(drop_in_may ${api_may} drop_in)
set(python_may tilewise python)
# Rooms inside tuner/, whose own files are the loop: the rooms below tuner/ and inside it that each may include.
set(inner_rooms reference evaluate worker search ladder)
set(reference_may tilewise vocabulary tuner)
set(search_may tilewise vocabulary templates db matmul tuner)
foreach(room evaluate worker ladder)
  set(${room}_may ${tuner_may})
endforeach()
set(reference_sees reference)
set(evaluate_sees evaluate reference)
set(worker_sees worker evaluate reference)
set(search_sees search)
set(tuner_sees tuner search evaluate reference)
set(ladder_sees ladder ${tuner_sees})

# Header (a regular expression) and the one folder that may include it.
set(owned "sqlite3\\.h=db" "cuda\\.h=device/cuda" "nvrtc\\.h=device/cuda" "nvml\\.h=device/cuda"
          "cublas[A-Za-z_0-9]*\\.h=device/cuda" "boost/.*=device/cpu" "CLI/.*=cli" "CLI11.*=cli"
          "Eigen/.*=tuner/search")
set(rooms vocabulary include templates device db matmul api drop_in tuner cli python)
set(examples_may tilewise)  # a program outside the tree has the installed headers
set(bench_may ${tuner_may} api drop_in)
set(tests_may ${cli_may} api drop_in tests)
set(largest 800)
set(problems "")
set(count 0)

function(complain file text)
  set(problems "${problems}  ${file}: ${text}\n" PARENT_SCOPE)
endfunction()

foreach(room ${rooms} examples bench tests)
  file(GLOB_RECURSE files RELATIVE "${ROOT}" "${ROOT}/${room}/*.cpp" "${ROOT}/${room}/*.hpp"
       "${ROOT}/${room}/*.h" "${ROOT}/${room}/*.c" "${ROOT}/${room}/*.cu"
       "${ROOT}/${room}/*.cuh")
  foreach(file ${files})
    math(EXPR count "${count} + 1")
    set(who ${room})
    if(file MATCHES "^tuner/([a-z]+)/")
      set(who ${CMAKE_MATCH_1})
      if(NOT who IN_LIST inner_rooms)
        complain(${file} "tuner/ has the rooms ${inner_rooms}")
      endif()
    elseif(file MATCHES "^tests/install/")
      set(who examples)
    endif()
    file(READ "${ROOT}/${file}" text)
    string(REGEX REPLACE "[^\n]" "" newlines "${text}")
    string(LENGTH "${newlines}" lines)
    if(lines GREATER largest)
      complain(${file} "${lines} lines; a file has at most ${largest}")
    endif()
    # So that a compiler's first message is this one.
    if(file MATCHES "^include/.*\\.hpp$" AND NOT text MATCHES "^#pragma once\n#if __cplusplus < 202002L\n#error ")
      complain(${file} "does not begin with the message that it needs C++20, as tilewise/matmul.hpp does")
    endif()
    # Libraries print in the locale of the program that embeds them.
    if(room IN_LIST rooms AND NOT room MATCHES "^(tuner|cli)$" AND text MATCHES "printf[^;]*%[-+.*0-9]*[aefgAEFG]")
      complain(${file} "prints a floating-point number by printf, whose point depends on the locale; vocabulary/decimal.hpp")
    endif()
    # The include lines; brackets and semicolons elsewhere would upset CMake's lists.
    string(REGEX MATCHALL "(^|\n)[ \t]*#[ \t]*include[ \t]*[<\"][^>\"\n]+[>\"]" includes "${text}")
    foreach(line ${includes})
      string(REGEX REPLACE "^.*[<\"]([^>\"]+)[>\"]$" "\\1" header "${line}")
      string(REGEX MATCH "^[^/]+" folder "${header}")
      if(folder IN_LIST rooms AND NOT folder IN_LIST ${who}_may AND header MATCHES "/")
        complain(${file} "includes ${header}; ${who} may include only ${${who}_may}")
      endif()
      if(header MATCHES "^tuner/" AND DEFINED ${who}_sees)
        set(inner tuner)
        if(header MATCHES "^tuner/([a-z]+)/")
          set(inner ${CMAKE_MATCH_1})
        endif()
        if(NOT inner IN_LIST ${who}_sees)
          complain(${file} "includes ${header}; of tuner/, ${who} may include only ${${who}_sees}")
        endif()
      endif()
      if(header MATCHES "^include/")
        complain(${file} "includes ${header}; write tilewise/...")
      endif()
      foreach(rule ${owned})
        string(REGEX MATCH "^(.*)=(.*)$" _ "${rule}")
        if(header MATCHES "^${CMAKE_MATCH_1}$")
          string(REGEX MATCH "^(.*)=(.*)$" _ "${rule}")
          set(owner ${CMAKE_MATCH_2})
          set(owners "${owner}")
          if(owner STREQUAL "cli")
            set(owners "cli|bench")
          endif()
          if(NOT file MATCHES "^(${owners}|tests)/")
            complain(${file} "includes ${header}; only ${owner} may")
          endif()
        endif()
      endforeach()
      if(header MATCHES "^nlohmann/" AND room IN_LIST rooms AND NOT file MATCHES "\\.cpp$|^cli/")
        complain(${file} "includes ${header}; only .cpp files and cli may")
      endif()
    endforeach()
  endforeach()
endforeach()

if(count EQUAL 0)
  message(FATAL_ERROR "no source was found below ${ROOT}")
endif()
if(problems)
  message(FATAL_ERROR "Rules are broken (docs/architecture.md):\n${problems}")
endif()
message(STATUS "${count} files keep the rules")
