# The library, compiled once and linked twice, and its installation: headers, lockstep.pc, CMake package.
# What is exported is what the headers declare with LK_API; everything else is hidden (tests/house/symbols.sh checks that).
find_package(Threads REQUIRED)

file(GLOB_RECURSE LK_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*.c)
set(LK_VECTORISED ${LK_SOURCES}) # compiled once for each instruction set
list(FILTER LK_VECTORISED INCLUDE REGEX "/src/(kernel/cpu/[a-z_]*|data/bytes_vec)\\.c$")
list(REMOVE_ITEM LK_SOURCES ${LK_VECTORISED})
if(LK_FUZZER) # kernels read no files
  set(kernels ${LK_SOURCES})
  list(FILTER kernels INCLUDE REGEX "/src/kernel/")
  set_property(SOURCE ${kernels} APPEND PROPERTY COMPILE_OPTIONS -fno-sanitize=all)
endif()

# The members of the structs of keyword arguments, from the public headers (src/core/option.c).
set(options ${PROJECT_BINARY_DIR}/generated/options.inc)
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/generated)
file(GLOB headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/lockstep/*.h)
add_custom_command(OUTPUT ${options} DEPENDS ${headers} ${PROJECT_SOURCE_DIR}/tools/options-table VERBATIM
                   COMMAND ${PROJECT_SOURCE_DIR}/tools/options-table ${CMAKE_C_COMPILER} ${PROJECT_SOURCE_DIR}/include > ${options})

# lk_objects(name file...): these files of the library, compiled; $<TARGET_OBJECTS:name> joins LK_OBJECTS.
set(LK_OBJECTS "")
function(lk_objects name)
  add_library(${name} OBJECT ${ARGN})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src
      ${PROJECT_BINARY_DIR}/generated)
  target_link_libraries(${name} PRIVATE lockstep_flags)
  target_compile_options(${name} PRIVATE -Wconversion -Wno-sign-conversion) # no implicit conversion that loses values
  target_compile_definitions(${name} PRIVATE LKI_NO_TEXT) # options are passed on as they came
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  set(LK_OBJECTS ${LK_OBJECTS} $<TARGET_OBJECTS:${name}> PARENT_SCOPE)
endfunction()

lk_objects(lockstep_objects ${LK_SOURCES} ${options})
foreach(isa ${LK_ISAS})
  lk_objects(lockstep_${isa} ${LK_VECTORISED})
  string(TOUPPER ${isa} macro)
  target_compile_definitions(lockstep_${isa} PRIVATE LKI_${macro})
  target_compile_options(lockstep_${isa} PRIVATE ${LK_FLAGS_${isa}})
  # With sanitizers they take minutes to compile and to run; LK_SANITIZE_ALL sanitises them too (make test-all).
  if(LK_FUZZER OR (LK_SANITIZE AND NOT LK_SANITIZE_ALL))
    target_compile_options(lockstep_${isa} PRIVATE -fno-sanitize=all)
  endif()
endforeach()

add_library(lockstep_shared SHARED ${LK_OBJECTS})
add_library(lockstep_static STATIC ${LK_OBJECTS})
set_target_properties(lockstep_shared PROPERTIES OUTPUT_NAME lockstep EXPORT_NAME lockstep VERSION ${PROJECT_VERSION}
                      SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
set_target_properties(lockstep_static PROPERTIES OUTPUT_NAME lockstep EXPORT_NAME static)
foreach(library lockstep_shared lockstep_static)
  target_include_directories(${library} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
      $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(${library} PRIVATE $<BUILD_INTERFACE:lockstep_flags> Threads::Threads ${CMAKE_DL_LIBS} m)
endforeach()
if(NOT APPLE)
  target_link_options(lockstep_shared PRIVATE -Wl,-z,nodelete) # its threads outlive a dlclose
endif()
add_library(lockstep::lockstep ALIAS lockstep_shared)
add_library(lockstep::static ALIAS lockstep_static)

# ---- installation ------------------------------------------------------------------------------------------------------------
include(CMakePackageConfigHelpers)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/lockstep)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/lockstepConfig.cmake.in ${PROJECT_BINARY_DIR}/lockstepConfig.cmake
    INSTALL_DESTINATION ${package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/lockstepConfigVersion.cmake COMPATIBILITY SameMinorVersion)
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig OUTPUT_VARIABLE LK_PC_TO_PREFIX)
configure_file(${PROJECT_SOURCE_DIR}/cmake/lockstep.pc.in ${PROJECT_BINARY_DIR}/lockstep.pc @ONLY)

install(TARGETS lockstep_shared lockstep_static EXPORT lockstepTargets)
install(EXPORT lockstepTargets NAMESPACE lockstep:: DESTINATION ${package})
install(FILES ${PROJECT_BINARY_DIR}/lockstepConfig.cmake ${PROJECT_BINARY_DIR}/lockstepConfigVersion.cmake DESTINATION ${package})
install(FILES ${PROJECT_BINARY_DIR}/lockstep.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
    FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
