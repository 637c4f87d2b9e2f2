# The command `lockstep`: all of cli/, linked to the shared library, which it finds in the build folder and in any place an
# installation is moved to. With it come manual pages and completion for bash.
file(GLOB files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/cli/*.c)
# It has SHA-256 of its own, which the library does not offer.
add_executable(lockstep_command ${files} ${PROJECT_SOURCE_DIR}/src/core/sha256.c)
target_include_directories(lockstep_command PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(lockstep_command PRIVATE lockstep_flags lockstep_shared ${CMAKE_DL_LIBS} m)
target_compile_options(lockstep_command PRIVATE -Wconversion -Wno-sign-conversion)
file(RELATIVE_PATH to_libraries ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
set_target_properties(lockstep_command PROPERTIES OUTPUT_NAME lockstep RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/cli
                      INSTALL_RPATH "$ORIGIN/${to_libraries}")

add_dependencies(tests lockstep_command)

install(TARGETS lockstep_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
file(GLOB pages CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/docs/man/*.1)
install(FILES ${pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${PROJECT_SOURCE_DIR}/cli/lockstep.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
    RENAME lockstep)
