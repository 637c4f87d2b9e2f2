# Every .c file of these folders is a program of its own; its name is its folder and its file name.
#
#   examples/                          public headers only, run by the tests when they need no arguments
#   bench/                             target `benches`; sees src/ and, where found, oneDNN (LK_HAVE_ONEDNN)
#   tests/{unit,op,golden,...}/*.c     target `tests`; cmocka programs that see src/
#   tests/fuzz/*.c                     targets `tests` and `fuzz`; readers of files, fed with changed files of tests/fuzz/corpus
#   tests/*/*.sh                       tests too; called with the build folder
#
# tests.list in the build folder names all tests, one per line, for tools/run-tests: "name|kind|command", where a `program` counts its
# own tests and an `example` or a `script` is one.
find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_check_modules(CMOCKA QUIET IMPORTED_TARGET cmocka)
  pkg_check_modules(JANSSON QUIET IMPORTED_TARGET jansson)
endif()

add_custom_target(examples)
add_custom_target(tests)
add_custom_target(benches)
set(tests_list "")

# lk_program(group file library...): build <group>/<name> from the file; the program's target name comes back in LK_PROGRAM.
function(lk_program group file)
  get_filename_component(name ${file} NAME_WE)
  string(MAKE_C_IDENTIFIER "${group}_${name}" target)
  add_executable(${target} EXCLUDE_FROM_ALL ${file})
  target_link_libraries(${target} PRIVATE lockstep_flags ${ARGN})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/${group})
  lk_set_isa_flags(${file})
  set(LK_PROGRAM ${target} PARENT_SCOPE)
endfunction()

# ---- examples ----------------------------------------------------------------------------------------------------------------
file(GLOB files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/examples/*.c)
foreach(file ${files})
  lk_program(examples ${file} lockstep_shared m)
  add_dependencies(examples ${LK_PROGRAM})
  add_dependencies(tests ${LK_PROGRAM})
  get_filename_component(name ${file} NAME_WE)
  if(NOT name MATCHES "^(basic|custom_training|any_count)$") # scripts run them: tests/house/programs.sh, which has data, and tests/fit/any_count.sh
    string(APPEND tests_list "examples/${name}|example|${PROJECT_BINARY_DIR}/examples/${name}\n")
  endif()
endforeach()

# ---- tests -------------------------------------------------------------------------------------------------------------------
# System calls that tests/fault/shim can make fail, in the programs that have it.
set(shimmed open openat opendir closedir close read pread write pwrite fsync fdatasync ftruncate flock rename unlink unlinkat mkdir rmdir socketpair send recv poll
            posix_spawn)
list(TRANSFORM shimmed PREPEND -Wl,--wrap=)
file(GLOB files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/*/*.c)
foreach(file ${files})
  get_filename_component(folder ${file} DIRECTORY)
  get_filename_component(group ${folder} NAME)
  get_filename_component(name ${file} NAME_WE)
  if(NOT CMOCKA_FOUND OR group MATCHES "^(install|fuzz)$" OR (group STREQUAL "golden" AND NOT JANSSON_FOUND)
     OR (group STREQUAL "gpu" AND NOT LK_GPU_SIM_FOUND))
    continue()
  endif()
  lk_program(tests/${group} ${file} lockstep_static PkgConfig::CMOCKA m)
  target_include_directories(${LK_PROGRAM} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
  target_compile_definitions(${LK_PROGRAM} PRIVATE LK_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  if(group STREQUAL "golden")
    target_link_libraries(${LK_PROGRAM} PRIVATE PkgConfig::JANSSON)
  endif()
  if(group STREQUAL "fault" AND name MATCHES "^(saves|backups)$")
    target_sources(${LK_PROGRAM} PRIVATE ${PROJECT_SOURCE_DIR}/tests/fault/shim/shim.c)
    target_link_options(${LK_PROGRAM} PRIVATE ${shimmed})
  endif()
  add_dependencies(tests ${LK_PROGRAM})
  string(APPEND tests_list "${group}/${name}|program|${PROJECT_BINARY_DIR}/tests/${group}/${name}\n")
endforeach()

# ---- readers of files, fuzzed --------------------------------------------------------------------------------------------------
# Each is one test, of LOCKSTEP_FUZZ_SECONDS, with a driver that needs nothing. LK_FUZZER (preset fuzz, which tools/fuzz builds): with
# libFuzzer, which follows coverage.
set(counted lki_alloc lki_zalloc lki_realloc lki_arena_alloc) # tests/fuzz/driver/common.c
list(TRANSFORM counted PREPEND -Wl,--wrap=)
add_custom_target(fuzz)
file(GLOB files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/fuzz/*.c)
foreach(file ${files})
  get_filename_component(name ${file} NAME_WE)
  lk_program(tests/fuzz ${file} lockstep_static m)
  target_include_directories(${LK_PROGRAM} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
  target_sources(${LK_PROGRAM} PRIVATE ${PROJECT_SOURCE_DIR}/tests/fuzz/driver/common.c)
  target_link_options(${LK_PROGRAM} PRIVATE ${counted})
  if(name MATCHES "^(keras|h5_answer)$")
    target_sources(${LK_PROGRAM} PRIVATE ${PROJECT_SOURCE_DIR}/tests/fuzz/driver/exchange.c)
    target_link_options(${LK_PROGRAM} PRIVATE -Wl,--wrap=lki_h5_ask,--wrap=lki_h5_hear,--wrap=lki_h5_end,--wrap=lki_h5_close)
  endif()
  add_dependencies(fuzz ${LK_PROGRAM})
  if(LK_FUZZER)
    target_link_options(${LK_PROGRAM} PRIVATE -fsanitize=fuzzer)
    continue()
  endif()
  target_sources(${LK_PROGRAM} PRIVATE ${PROJECT_SOURCE_DIR}/tests/fuzz/driver/driver.c)
  add_dependencies(tests ${LK_PROGRAM})
  string(APPEND tests_list "fuzz/${name}|example|${PROJECT_BINARY_DIR}/tests/fuzz/${name} ${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/${name}\n")
endforeach()
lk_program(tests/fuzz ${PROJECT_SOURCE_DIR}/tests/fuzz/driver/seeds.c lockstep_static m)
target_include_directories(${LK_PROGRAM} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)

file(GLOB files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/*/*.sh)
foreach(file ${files})
  get_filename_component(folder ${file} DIRECTORY)
  get_filename_component(group ${folder} NAME)
  get_filename_component(name ${file} NAME_WE)
  if(group STREQUAL "gpu" AND NOT LK_GPU_SIM_FOUND)
    continue()
  endif()
  string(APPEND tests_list "${group}/${name}|script|${file} ${PROJECT_BINARY_DIR}\n")
endforeach()

add_dependencies(tests lockstep_shared lockstep_static)
if(LK_GPU_SIM_FOUND)
  add_dependencies(tests lockstep_sim)
endif()
file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/tests.list CONTENT "${tests_list}")

enable_testing()
string(REPLACE "\n" ";" tests_lines "${tests_list}")
foreach(line ${tests_lines})
  string(REPLACE "|" ";" line "${line}")
  list(GET line 0 name)
  list(GET line 2 command)
  separate_arguments(command)
  add_test(NAME ${name} COMMAND ${command})
endforeach()

# ---- benches -----------------------------------------------------------------------------------------------------------------
set(LK_ONEDNN_FOUND OFF)
if(NOT LK_ONEDNN STREQUAL "OFF")
  find_package(dnnl QUIET CONFIG)
  if(TARGET DNNL::dnnl)
    set(LK_ONEDNN_FOUND ON)
  elseif(LK_ONEDNN STREQUAL "ON")
    message(FATAL_ERROR "LK_ONEDNN is ON but oneDNN was not found; on Debian: apt-get install libdnnl-dev")
  endif()
endif()

file(GLOB files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/bench/*.c)
foreach(file ${files})
  lk_program(bench ${file} lockstep_static m)
  target_include_directories(${LK_PROGRAM} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  if(LK_ONEDNN_FOUND)
    target_link_libraries(${LK_PROGRAM} PRIVATE DNNL::dnnl)
    target_compile_definitions(${LK_PROGRAM} PRIVATE LK_HAVE_ONEDNN=1)
  endif()
  add_dependencies(benches ${LK_PROGRAM})
endforeach()
