# What was found and what that enables, as the last words of configuring.
macro(lk_line name found with without)
  if(${found})
    message(NOTICE "  ${name} ${with}")
  else()
    message(NOTICE "  ${name} ${without}")
  endif()
endmacro()

set(compiler "${CMAKE_C_COMPILER_ID} ${CMAKE_C_COMPILER_VERSION}")
message(NOTICE "lockstep ${PROJECT_VERSION}: ${compiler}, ${CMAKE_BUILD_TYPE}, ${CMAKE_SYSTEM_PROCESSOR}")
lk_line("kernels   " LK_X86 "reference, AVX2, AVX-512; chosen at run time" "reference only on this processor")
lk_line("tests     " CMOCKA_FOUND "cmocka ${CMOCKA_VERSION}"
    "no C tests: cmocka or pkg-config not found (Debian: apt-get install pkg-config libcmocka-dev)")
lk_line("golden    " JANSSON_FOUND "jansson ${JANSSON_VERSION}"
    "no comparison with stored results: jansson not found (Debian: apt-get install libjansson-dev)")
lk_line("HDF5      " LK_HDF5_FOUND "lockstep-h5 with libhdf5 ${LK_HDF5_VERSION}"
    "no Keras .h5 and .keras files: libhdf5 not found (Debian: apt-get install libhdf5-dev)")
lk_line("CUDA      " LK_CUDA_FOUND "make cuda builds lockstep-cuda.so with ${LK_NVCC}"
    "no nvcc: no backend for CUDA cards is built here")
lk_line("simulated " LK_GPU_SIM_FOUND "cards on the CPU, for tests" "no C++ compiler: GPU code is not tested here")
lk_line("oneDNN    " LK_ONEDNN_FOUND "bench/ compares with it" "not found or OFF: bench/ has nothing to compare with (LK_ONEDNN)")
lk_line("ccache    " LK_CCACHE "${LK_CCACHE}" "not found: everything is compiled")
if(LK_SANITIZE)
  message(NOTICE "  sanitizers ${LK_SANITIZE}")
endif()
