# Every .c file of these folders is a program; its name is its folder and its file name.
#
#   examples/                          public headers only, run by the tests when they need no arguments
#   bench/                             target `benches`; sees src/ and, where found, oneDNN (LK_HAVE_ONEDNN)
#   tests/{unit,op,golden,...}/*.c     target `tests`; cmocka programs that see src/, linked once per folder (tests/programs.c;
#                                      targets tests_unit, tests_op, ...)
#   tests/fuzz/*.c                     targets `tests` and `fuzz`; readers of files, fed with changed files of tests/fuzz/corpus
#   tests/*/*.sh                       tests too; called with the build folder
#
# tests.list in the build folder names all tests, one per line, for tools/run-tests: "name|kind|command", where a `program` counts
# its own tests and an `example` or a `script` is one.
find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_check_modules(CMOCKA QUIET IMPORTED_TARGET cmocka)
  pkg_check_modules(JANSSON QUIET IMPORTED_TARGET jansson)
endif()

# What builds with sanitizers leave out, unless LK_SANITIZE_ALL is ON (make test-all): training on simulated cards, which takes
# minutes there, tests that call LONG_TEST() (tests/check.h), and tests that look at sources and not at what was built.
set(LK_SOME_TESTS OFF)
set(unsanitised "")
if(LK_SANITIZE AND NOT LK_SANITIZE_ALL)
  set(LK_SOME_TESTS ON)
  set(unsanitised "gpu/(training|several|cards|dense_pool_model|links_cuda)")
  string(APPEND unsanitised "|house/(environment|format|headers|house|layers|lines|names|ops_table|rules|sizes|tools)")
  set(unsanitised "^(${unsanitised})$")
endif()

# lk_test(name kind command): a line of tests.list.
function(lk_test name kind command)
  if(NOT LK_SOME_TESTS OR NOT name MATCHES "${unsanitised}")
    set(tests_list "${tests_list}${name}|${kind}|${command}\n" PARENT_SCOPE)
  endif()
endfunction()

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
  set(LK_PROGRAM ${target} PARENT_SCOPE)
endfunction()

# ---- examples ----------------------------------------------------------------------------------------------------------------
file(GLOB files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/examples/*.c)
foreach(file ${files})
  lk_program(examples ${file} lockstep_shared m)
  add_dependencies(examples ${LK_PROGRAM})
  add_dependencies(tests ${LK_PROGRAM})
  get_filename_component(name ${file} NAME_WE)
  # Scripts run these: tests/house/programs.sh, which has data, and tests/fit/any_count.sh.
  if(NOT name MATCHES "^(basic|custom_training|any_count)$")
    lk_test(examples/${name} example ${PROJECT_BINARY_DIR}/examples/${name})
  endif()
endforeach()

# ---- tests -------------------------------------------------------------------------------------------------------------------
# lk_see_inside(target): it is a test, which sees src/. The few that read files of the source tree find it by source_folder.h.
function(lk_see_inside target)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests
                               ${PROJECT_BINARY_DIR}/generated/tests)
  target_compile_definitions(${target} PRIVATE $<$<BOOL:${LK_SOME_TESTS}>:LK_SOME_TESTS>)
endfunction()
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/tests/source_folder.h
     CONTENT "#define LK_SOURCE_FOLDER \"${PROJECT_SOURCE_DIR}\"\n" @ONLY)

# lk_test_folder(group name...): one executable, tests_GROUP_all, and the target tests_GROUP: the executable under the name of each
# program (tests/programs.c). Hard links: a program that starts itself again finds its own name.
function(lk_test_folder group)
  set(list "")
  set(files ${PROJECT_SOURCE_DIR}/tests/programs.c)
  foreach(name ${ARGN})
    set(file ${PROJECT_SOURCE_DIR}/tests/${group}/${name}.c)
    set_property(SOURCE ${file} APPEND PROPERTY COMPILE_DEFINITIONS main=main_of_${name})
    list(APPEND files ${file})
    string(APPEND list "PROGRAM(${name})\n")
  endforeach()
  set(folder ${PROJECT_BINARY_DIR}/tests/${group})
  set(generated ${PROJECT_BINARY_DIR}/generated/tests/${group})
  file(CONFIGURE OUTPUT ${generated}/programs.inc CONTENT "${list}" @ONLY)
  set(all tests_${group}_all)
  add_executable(${all} EXCLUDE_FROM_ALL ${files})
  lk_see_inside(${all})
  target_include_directories(${all} PRIVATE ${generated})
  target_link_libraries(${all} PRIVATE lockstep_flags lockstep_static PkgConfig::CMOCKA m)
  if(group STREQUAL "golden")
    target_link_libraries(${all} PRIVATE PkgConfig::JANSSON)
  endif()
  set_target_properties(${all} PROPERTIES OUTPUT_NAME all RUNTIME_OUTPUT_DIRECTORY ${folder})
  string(REPLACE ";" " " names "${ARGN}")
  list(TRANSFORM ARGN PREPEND ${folder}/ OUTPUT_VARIABLE links)
  add_custom_command(OUTPUT ${links} DEPENDS ${all} COMMENT "Names of the programs in tests/${group}" VERBATIM
    COMMAND sh -c "cd '${folder}' && for name in ${names}; do ln -f all $name 2>/dev/null || cp -f all $name; done")
  add_custom_target(tests_${group} DEPENDS ${links})
  add_dependencies(tests tests_${group})
endfunction()

# System calls that tests/fault/shim can make fail, in the programs that have it.
set(shimmed open openat opendir closedir close read pread write pwrite fsync fdatasync ftruncate flock rename unlink unlinkat
            mkdir rmdir socketpair send recv poll posix_spawn)
list(TRANSFORM shimmed PREPEND -Wl,--wrap=)
set(alone fault/saves fault/backups step/replay) # they replace functions that their neighbours use: system calls, malloc()
file(GLOB folders CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/*)
foreach(folder ${folders})
  get_filename_component(group ${folder} NAME)
  file(GLOB files CONFIGURE_DEPENDS ${folder}/*.c)
  if(NOT files OR NOT CMOCKA_FOUND OR group MATCHES "^(install|fuzz)$" OR (group STREQUAL "golden" AND NOT JANSSON_FOUND)
     OR (group STREQUAL "gpu" AND NOT LK_GPU_SIM_FOUND))
    continue()
  endif()
  set(together "")
  foreach(file ${files})
    get_filename_component(name ${file} NAME_WE)
    if(${group}/${name} IN_LIST alone)
      lk_program(tests/${group} ${file} lockstep_static PkgConfig::CMOCKA m)
      lk_see_inside(${LK_PROGRAM})
      add_dependencies(tests ${LK_PROGRAM})
    else()
      list(APPEND together ${name})
    endif()
    lk_test(${group}/${name} program ${PROJECT_BINARY_DIR}/tests/${group}/${name})
  endforeach()
  lk_test_folder(${group} ${together})
endforeach()
if(CMOCKA_FOUND)
  foreach(target tests_fault_saves tests_fault_backups)
    target_sources(${target} PRIVATE ${PROJECT_SOURCE_DIR}/tests/fault/shim/shim.c)
    target_link_options(${target} PRIVATE ${shimmed})
  endforeach()
endif()

# ---- readers of files, fuzzed --------------------------------------------------------------------------------------------------
# Each is one test, of LOCKSTEP_FUZZ_SECONDS, with a driver that needs nothing. LK_FUZZER (preset fuzz, which tools/fuzz builds):
# with libFuzzer, which follows coverage.
set(counted lki_alloc lki_zalloc lki_realloc lki_arena_alloc) # tests/fuzz/driver/common.c
list(TRANSFORM counted PREPEND -Wl,--wrap=)
add_custom_target(fuzz)
file(GLOB files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/fuzz/*.c)
foreach(file ${files})
  get_filename_component(name ${file} NAME_WE)
  lk_program(tests/fuzz ${file} lockstep_static m)
  lk_see_inside(${LK_PROGRAM})
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
  lk_test(fuzz/${name} example "${PROJECT_BINARY_DIR}/tests/fuzz/${name} ${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/${name}")
endforeach()
lk_program(tests/fuzz ${PROJECT_SOURCE_DIR}/tests/fuzz/driver/seeds.c lockstep_static m)
lk_see_inside(${LK_PROGRAM})

file(GLOB files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/*/*.sh)
foreach(file ${files})
  get_filename_component(folder ${file} DIRECTORY)
  get_filename_component(group ${folder} NAME)
  get_filename_component(name ${file} NAME_WE)
  if(group STREQUAL "gpu" AND NOT LK_GPU_SIM_FOUND)
    continue()
  endif()
  lk_test(${group}/${name} script "${file} ${PROJECT_BINARY_DIR}")
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
