# Backends for GPUs (src/device/gpu/backend.h): shared objects the library opens at run time, made of a driver (src/device/) and of
# the kernels in src/kernel/gpu/.
#
#   lockstep-cuda.so   the driver device/cuda/, where nvcc is found (LK_CUDA=AUTO), for the architectures it knows among sm_80,
#                      sm_90 and sm_100, and PTX
#   lockstep-sim.so    the driver device/sim/, and the same kernels read by the host's C++ compiler: cards simulated on the CPU, for
#                      tests; not installed
set(LK_CUDA AUTO CACHE STRING "GPU kernels: AUTO, ON or OFF")
set_property(CACHE LK_CUDA PROPERTY STRINGS AUTO ON OFF)
set(LK_CUDA_ARCHITECTURES "80;90;100" CACHE STRING "of the cards lockstep-cuda.so is made for")
option(LK_GPU_SIM "Simulated cards, for tests" ON)

file(GLOB_RECURSE gpu_kernels CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/kernel/gpu/*.cu)
file(GLOB cuda_driver CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/device/cuda/*.cu)
file(GLOB sim_driver CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/device/sim/*.cc)
foreach(name feed graph launch) # simulated cards have CUDA's calls (device/sim/runtime.h), and so these files of its driver
  list(APPEND sim_driver ${PROJECT_SOURCE_DIR}/src/device/cuda/${name}.cu)
endforeach()
set(gpu_folder ${PROJECT_BINARY_DIR}/libexec/lockstep)

# ---- simulated ---------------------------------------------------------------------------------------------------------------
set(LK_GPU_SIM_FOUND OFF)
if(LK_GPU_SIM)
  include(CheckLanguage)
  check_language(CXX)
  if(CMAKE_CXX_COMPILER)
    enable_language(CXX)
    set(LK_GPU_SIM_FOUND ON)
    if(NOT CMAKE_CROSSCOMPILING) # what is compiled for another machine does not run here
      include(CheckCXXSourceRuns)
      set(CMAKE_REQUIRED_FLAGS -mfma)
      check_cxx_source_runs("int main() { return !__builtin_cpu_supports(\"fma\"); }" LK_FMA_HERE)
      unset(CMAKE_REQUIRED_FLAGS)
    endif()
    set(fused $<$<BOOL:${LK_FMA_HERE}>:-mfma>) # fmaf() without a call
    set(optimised -O2)
    if(LK_SANITIZE) # more takes longer to compile than it saves
      set(optimised -Og)
    endif()
    add_library(lockstep_sim MODULE EXCLUDE_FROM_ALL ${gpu_kernels} ${sim_driver})
    set_source_files_properties(${gpu_kernels} ${sim_driver} PROPERTIES LANGUAGE CXX)
    target_compile_options(lockstep_sim PRIVATE -x c++ -std=c++17 ${optimised} -g1 ${fused} -Wall -Wextra -Wno-unused-parameter
        -ffp-contract=off -fno-math-errno
                           -fvisibility=hidden -fno-rtti ${LK_OWN_PATHS} $<$<BOOL:${LK_WERROR}>:-Werror>)
    target_compile_definitions(lockstep_sim PRIVATE LKI_SIM)
    target_include_directories(lockstep_sim PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
    if(LK_SANITIZE)
      target_compile_options(lockstep_sim PRIVATE -fsanitize=${LK_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
      target_link_options(lockstep_sim PRIVATE -fsanitize=${LK_SANITIZE})
    endif()
    target_link_options(lockstep_sim PRIVATE -Wl,--no-undefined)
    set_target_properties(lockstep_sim PROPERTIES OUTPUT_NAME lockstep-sim PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${gpu_folder})
  endif()
endif()

# ---- CUDA --------------------------------------------------------------------------------------------------------------------
# By commands of our own: CMake's CUDA language would look for a compiler, and fail, on machines that have none.
set(LK_CUDA_FOUND OFF)
if(NOT LK_CUDA STREQUAL OFF)
  find_program(LK_NVCC nvcc HINTS /usr/local/cuda/bin ENV CUDA_HOME PATH_SUFFIXES bin)
  if(LK_NVCC)
    set(LK_CUDA_FOUND ON)
    execute_process(COMMAND ${LK_NVCC} --list-gpu-code OUTPUT_VARIABLE known ERROR_QUIET)
    set(codes "")
    foreach(architecture ${LK_CUDA_ARCHITECTURES})
      if(known MATCHES "sm_${architecture}\n")
        list(APPEND codes -gencode arch=compute_${architecture},code=sm_${architecture})
        set(newest ${architecture})
      endif()
    endforeach()
    list(APPEND codes -gencode arch=compute_${newest},code=compute_${newest}) # cards to come
    set(objects "")
    foreach(file ${cuda_driver} ${gpu_kernels})
      file(RELATIVE_PATH name ${PROJECT_SOURCE_DIR}/src ${file})
      set(object ${PROJECT_BINARY_DIR}/cuda/${name}.o)
      get_filename_component(folder ${object} DIRECTORY)
      set(own_codes ${codes})
      # with what all cards of 9.0 have and later ones do not (src/kernel/gpu/conv/fragment.h)
      if(name MATCHES "/fragment_" AND known MATCHES "sm_90a\n")
        list(TRANSFORM own_codes REPLACE "^arch=compute_90,code=sm_90$" "arch=compute_90a,code=sm_90a")
      endif()
      add_custom_command(OUTPUT ${object} DEPFILE ${object}.d
        COMMAND ${CMAKE_COMMAND} -E make_directory ${folder}
        COMMAND ${LK_LAUNCHER} ${LK_NVCC} -std=c++17 --extended-lambda -O3 -fmad=false -ftz=true -prec-div=true -prec-sqrt=true
                ${own_codes} -I${PROJECT_SOURCE_DIR}/include -I${PROJECT_SOURCE_DIR}/src
                -Xcompiler -fPIC,-Wall,-fvisibility=hidden,-ffp-contract=off -Xfatbin -compress-all
                -MD -MF ${object}.d -c ${file} -o ${object}
        DEPENDS ${file} COMMENT "nvcc ${name}" VERBATIM)
      list(APPEND objects ${object})
    endforeach()
    set(cuda_library ${gpu_folder}/lockstep-cuda.so)
    add_custom_command(OUTPUT ${cuda_library} COMMAND ${CMAKE_COMMAND} -E make_directory ${gpu_folder}
      COMMAND ${LK_NVCC} -shared -Xlinker --no-undefined -cudart static ${codes} -o ${cuda_library} ${objects}
          DEPENDS ${objects}
              COMMENT "lockstep-cuda.so" VERBATIM)
    add_custom_target(lockstep_cuda DEPENDS ${cuda_library})
    install(FILES ${cuda_library} DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/lockstep OPTIONAL)
  elseif(LK_CUDA STREQUAL ON)
    message(FATAL_ERROR "LK_CUDA=ON, and nvcc was not found")
  endif()
endif()
