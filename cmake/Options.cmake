# Compiler flags of every target of this project, as the interface library lockstep_flags; none of them reaches a user of the
# library.
#
# Bits first: no -ffast-math, no -march=native, no contraction of a * b + c; kernels that want a fused multiply-add say so.
add_library(lockstep_flags INTERFACE)
target_compile_options(lockstep_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -ffp-contract=off -fno-math-errno)
# Objects name files from the root of the checkout: one that comes from ccache was compiled in another.
include(CheckCCompilerFlag)
check_c_compiler_flag(-ffile-prefix-map=/a=b LK_MAPS_PATHS)
set(LK_OWN_PATHS "")
if(LK_MAPS_PATHS)
  set(LK_OWN_PATHS -ffile-prefix-map=${PROJECT_SOURCE_DIR}=.)
endif()
target_compile_options(lockstep_flags INTERFACE ${LK_OWN_PATHS})
if(LK_WERROR)
  target_compile_options(lockstep_flags INTERFACE -Werror)
endif()
if(LK_SANITIZE)
  target_compile_options(lockstep_flags INTERFACE -fsanitize=${LK_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(lockstep_flags INTERFACE -fsanitize=${LK_SANITIZE})
endif()

if(LK_FUZZER)
  target_compile_options(lockstep_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|amd64|AMD64|i[3-6]86)$")
  set(LK_X86 ON)
else()
  set(LK_X86 OFF)
endif()

# Kernels are compiled once for each of these instruction sets (cmake/Library.cmake); which of them runs is chosen at run time.
set(LK_ISAS "")
if(LK_X86)
  set(LK_ISAS avx2 avx512)
endif()
set(LK_FLAGS_avx2 -mavx2 -mfma -mf16c -mbmi -mbmi2)
set(LK_FLAGS_avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mf16c -mbmi -mbmi2 -mprefer-vector-width=512)

# ccache, where it is found (LK_CCACHE=OFF: not used): what was compiled before, in any checkout, is taken from its cache.
find_program(LK_CCACHE ccache)
set(LK_LAUNCHER "")
if(LK_CCACHE)
  set(LK_LAUNCHER env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${LK_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${LK_LAUNCHER})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${LK_LAUNCHER})
endif()
