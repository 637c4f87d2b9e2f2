/* Calls of CUDA's runtime. A failed call is recorded with its name, and with the kernel it concerned, so that messages can name
 * them. */
#ifndef LKI_DEVICE_CUDA_CALL_H
#define LKI_DEVICE_CUDA_CALL_H

#ifdef LKI_SIM
#include "device/sim/runtime.h"
#else
#include <cuda_runtime.h>
#endif
#include <stdio.h>
#include <string.h>

/* Of this thread: the last call that failed, and the code of a failed launch that has not been asked for yet (backend.h,
 * failure()). */
struct lki_cuda_failed {
    int  code;
    char what[200]; /* "cudaGraphLaunch" */
    int  launch;
};
inline thread_local lki_cuda_failed lki_cuda_last;

/* A kernel's name as in the source, without the parentheses around it: for "%.*s". */
#define LKI_CUDA_NAME(kernel) (int)strlen(kernel) - 2 * (*(kernel) == '('), (kernel) + (*(kernel) == '(')

/* `call` is the source text of the call; `kernel` may be NULL. Returns e. */
static inline int lki_cuda_note(cudaError_t e, const char *call, const char *kernel)
{
    lki_cuda_failed *f = &lki_cuda_last;
    if (e == cudaSuccess) return 0;
    if (!kernel) kernel = "";
    f->code = (int)e;
    snprintf(f->what, sizeof f->what, "%.*s%s%.*s", (int)strcspn(call, "("), call, *kernel ? " of the kernel " : "",
             LKI_CUDA_NAME(kernel));
    cudaGetLastError();
    return (int)e;
}

/* An error that this driver finds itself. */
static inline int lki_cuda_refuse(cudaError_t e, const char *why)
{
    lki_cuda_last.code = (int)e;
    snprintf(lki_cuda_last.what, sizeof lki_cuda_last.what, "%.190s", why);
    return (int)e;
}

/* The error of the launches since the last call. */
static inline int lki_cuda_launched()
{
    const int code = lki_cuda_last.launch;
    lki_cuda_last.launch = 0;
    return code ? code : lki_cuda_note(cudaGetLastError(), "a launch", nullptr);
}

/* For lki_gpu_backend's text(), on the thread that was given the code. */
static inline const char *lki_cuda_text(int code)
{
    static thread_local char text[400];
    const char              *words = cudaGetErrorString((cudaError_t)code);
    if (!code || lki_cuda_last.code != code) return words;
    snprintf(text, sizeof text, "%s: %.180s", lki_cuda_last.what, words);
    return text;
}

/* Return what CUDA said, unless it was success. */
#define TRY(call) TRY_OF(call, nullptr)
#define TRY_OF(call, kernel)                                                                                                       \
    do {                                                                                                                           \
        const int e_ = lki_cuda_note((call), #call, (kernel));                                                                     \
        if (e_) return e_;                                                                                                         \
    } while (0)

#endif
