# lockstep-h5, the program that reads and writes HDF5 files for the library (helper/). It is the only thing here that links libhdf5,
# and it is left out where that is not found: everything else still builds, and says at run time what is missing.
#
# It gets no sanitizers: it limits its own address space, which theirs does not fit into.
set(LK_HELPER_FOLDER libexec/lockstep)
find_package(HDF5 QUIET COMPONENTS C)
set(LK_HDF5_FOUND OFF)
if(HDF5_FOUND AND NOT HDF5_IS_PARALLEL)
  set(LK_HDF5_FOUND ON)
  set(LK_HDF5_VERSION ${HDF5_VERSION})
  set(hdf5_includes ${HDF5_C_INCLUDE_DIRS})
  set(hdf5_libraries ${HDF5_C_LIBRARIES})
else()
  find_package(PkgConfig QUIET)
  if(PkgConfig_FOUND)
    foreach(module hdf5-serial hdf5)
      if(NOT LK_HDF5_FOUND)
        pkg_check_modules(LK_HDF5 QUIET IMPORTED_TARGET ${module})
        set(hdf5_libraries PkgConfig::LK_HDF5)
      endif()
    endforeach()
  endif()
endif()

# The library looks for it in the folders above itself, which finds the one built here, and where it is installed. The path of the
# build is in no binary: an installed library does not run what a build folder has.
set_property(SOURCE ${PROJECT_SOURCE_DIR}/src/format/h5_helper.c APPEND PROPERTY COMPILE_DEFINITIONS
             LKI_H5_INSTALLED="${CMAKE_INSTALL_FULL_LIBEXECDIR}/lockstep/lockstep-h5")

if(LK_HDF5_FOUND)
  file(GLOB files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/helper/*.c)
  add_executable(lockstep_h5 ${files})
  set_target_properties(lockstep_h5 PROPERTIES OUTPUT_NAME lockstep-h5
      RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/${LK_HELPER_FOLDER})
  target_include_directories(lockstep_h5 PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_include_directories(lockstep_h5 SYSTEM PRIVATE ${hdf5_includes})
  target_compile_options(lockstep_h5 PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
      $<$<BOOL:${LK_WERROR}>:-Werror>)
  target_link_libraries(lockstep_h5 PRIVATE ${hdf5_libraries})
  add_dependencies(lockstep_shared lockstep_h5) # whoever links the library finds it built
  add_dependencies(lockstep_static lockstep_h5)
  install(TARGETS lockstep_h5 RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/lockstep)
endif()
