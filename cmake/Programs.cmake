# Every .c file of these folders is a program of its own; its name is its folder and its file name.
#
#   examples/                          public headers only, run by the tests when they need no arguments
#   bench/                             target `benches`; sees src/ and, where found, oneDNN (LK_HAVE_ONEDNN)
#   tests/{unit,op,golden,...}/*.c     target `tests`; cmocka programs that see src/
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
  if(NOT name MATCHES "^(basic|custom_training)$") # want data: tests/house/programs.sh runs them
    string(APPEND tests_list "examples/${name}|example|${PROJECT_BINARY_DIR}/examples/${name}\n")
  endif()
endforeach()

# ---- tests -------------------------------------------------------------------------------------------------------------------
file(GLOB files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/*/*.c)
foreach(file ${files})
  get_filename_component(folder ${file} DIRECTORY)
  get_filename_component(group ${folder} NAME)
  get_filename_component(name ${file} NAME_WE)
  if(NOT CMOCKA_FOUND OR group STREQUAL "install" OR (group STREQUAL "golden" AND NOT JANSSON_FOUND))
    continue()
  endif()
  lk_program(tests/${group} ${file} lockstep_static PkgConfig::CMOCKA m)
  target_include_directories(${LK_PROGRAM} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
  target_compile_definitions(${LK_PROGRAM} PRIVATE LK_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  if(group STREQUAL "golden")
    target_link_libraries(${LK_PROGRAM} PRIVATE PkgConfig::JANSSON)
  endif()
  add_dependencies(tests ${LK_PROGRAM})
  string(APPEND tests_list "${group}/${name}|program|${PROJECT_BINARY_DIR}/tests/${group}/${name}\n")
endforeach()

file(GLOB files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/*/*.sh)
foreach(file ${files})
  get_filename_component(folder ${file} DIRECTORY)
  get_filename_component(group ${folder} NAME)
  get_filename_component(name ${file} NAME_WE)
  string(APPEND tests_list "${group}/${name}|script|${file} ${PROJECT_BINARY_DIR}\n")
endforeach()

add_dependencies(tests lockstep_shared lockstep_static)
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
