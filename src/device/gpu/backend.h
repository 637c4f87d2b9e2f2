/* What a GPU backend gives the library: memory, one stream per card, captured graphs, and a table of kernels. A backend is a shared
 * object of its own, opened at run time, so that the library runs where there is none:
 *
 *     lockstep-cuda   CUDA cards; made by nvcc
 *     lockstep-sim    the same kernel sources made by the host's compiler: cards that are simulated on the CPU, for tests
 *
 * It is linked of a driver (device/cuda/, device/sim/), which knows the cards, and of kernels (kernel/gpu/), which know arithmetic.
 * The kernels are the upper part: they hand the driver what it launches by itself, and export the backend it makes of that.
 *
 * Contract
 *  1. Functions return 0, or a code that text() puts in words. None exits, prints or waits for ever, also not on a card that is
 *     lost: there all of them fail, from when it is known, and release() and release_graph() can still be called.
 *  2. All work of a card goes to its one stream and runs in the order it was given. write() has read the host's bytes when it
 *     returns; read() and sync() return when all work before them is done; everything else may return before it is done.
 *  3. A kernel (kernel.h) launches work on the stream of its call (lki_gpu_call) and returns. Everything it needs of its lki_args,
 *     other than what lies in the card's memory, is copied when it is called; nothing of it is read later. It works on the whole of
 *     dst[0]: lo is 0 and hi its size.
 *  4. Between capture_begin() and capture_end(), by one thread, work on the streams that capture_call() gave is noted, not done; a
 *     stream is good until the next one is given. launch() does the work on the card's stream, any number of times, in any order
 *     that what the calls come after allows, also at the same time. Between variant_begin() and variant_end() the same is so for
 *     variant_call().
 *  5. What vary() and recopy() change holds for later launches alone.
 *  6. gather() may be put off until the next call of any function here that gives the card work, waits for it, or gives memory
 *     back: it is done before that work, and launch() makes it a part of the graph. Kernels launched on the stream are no such
 *     call: flush() comes before them. Neither are exchanges of linked cards, whose memory no gather writes. */
#ifndef LKI_DEVICE_GPU_BACKEND_H
#define LKI_DEVICE_GPU_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LKI_GPU_BACKEND_VERSION = 10, LKI_GPU_MOST_CARDS = 64, LKI_GPU_MOST_PIECES = 16 };

typedef struct lki_gpu_card {
    char   name[64];
    size_t memory;       /* bytes in all */
    int    major, minor; /* compute capability */
    int    processors;
    int    shared; /* bytes of shared memory a block may have */
} lki_gpu_card;

typedef struct lki_gpu_piece { /* of the card's memory, to copy */
    void       *dst;
    const void *src;
    size_t      bytes;
} lki_gpu_piece;

struct lki_kernels;
struct lki_grouping;
struct lki_gpu_rows;

typedef struct lki_gpu_backend {
    int         version;
    const char *name;               /* "cuda", "sim" */
    int (*cards)(const char **why); /* how many; 0 and why there are none */
    int (*card)(int card, lki_gpu_card *out);
    const char *(*text)(int code); /* of one that this thread was given; it names the call that failed where it can */
    const char *(*lost)(int code); /* the name of an error after which nothing works on the card any more here; else NULL */
    int (*open)(int card, void **stream);
    int (*alloc)(int card, size_t bytes, void **mem);
    int (*release)(int card, void *mem);
    int (*alloc_host)(size_t bytes, void **mem); /* memory of the host that kernels can reach under the same address */
    int (*release_host)(void *mem);
    int (*available)(int card, size_t *bytes);
    int (*write)(int card, void *stream, void *dst, const void *host, size_t bytes);
    int (*read)(int card, void *stream, void *host, const void *src, size_t bytes);
    int (*copy)(int card, void *stream, void *dst, const void *src, size_t bytes);
    int (*zero)(int card, void *stream, void *dst, size_t bytes);
    /* After the work given to both so far. */
    int (*peer)(int to, void *stream, void *dst, int from, void *from_stream, const void *src, size_t bytes);
    int (*sync)(int card, void *stream);
    int (*failure)(int card); /* of the launches since the last call, as far as it is known; 0: none */
    int (*capture_begin)(int card, void **capture);
    /* For the next call: they are numbered 0, 1, ... in this order, and each comes after the calls named here and no others. */
    int (*capture_call)(int card, void *capture, int count, const int *after, void **stream);
    int (*capture_end)(int card, void *capture, void **graph); /* also after a failure: the capture is no more */
    /* The same graph with other addresses, of these calls: work on the stream takes their place, the same launches with other
     * arguments. A failure of one of them or of the end: it is none, and must be released all the same. */
    int (*variant_begin)(int card, void *graph, void **variant);
    int (*variant_call)(int card, void *variant, int call, void **stream);
    int (*variant_end)(int card, void *variant);
    int (*vary)(int card, void *graph, void *variant); /* to these addresses; NULL: its own */
    /* That call was copies() of so many pieces of the same sizes; behind vary(). */
    int (*recopy)(int card, void *graph, int call, int count, const lki_gpu_piece *pieces);
    int (*launch)(int card, void *stream, void *graph);
    int (*release_graph)(void *graph); /* its variants may be released before or after */
    int (*release_variant)(void *variant);
    const struct lki_kernels *(*kernels)(void);
    const struct lki_grouping *(*groups)(void); /* kernel/group.h; NULL: calls are launched one by one */
    int (*gather)(int card, void *stream, const struct lki_gpu_rows *rows); /* rows.h */
    /* Before kernels are launched on the card's stream by somebody himself: a gather that was put off is launched now. */
    int (*flush)(int card);
    /* Up to LKI_GPU_MOST_PIECES at once; none overlaps another. */
    int (*copies)(int card, void *stream, int count, const lki_gpu_piece *pieces);
} lki_gpu_backend;

/* The one symbol a backend exports. */
#define LKI_GPU_BACKEND_SYMBOL "lki_gpu_backend_of"
typedef const lki_gpu_backend *lki_gpu_backend_fn(void);

/* ---- the two parts of a backend ---- */

/* What kernels give the driver they are linked with. */
struct lki_cuda_gather;
typedef struct lki_gpu_kernels {
    const struct lki_kernels *(*table)(void);
    const struct lki_grouping *(*groups)(void);
    void (*copy)(void *stream, int count, const lki_gpu_piece *pieces);
    void (*gather)(void *stream, const struct lki_gpu_rows *rows);
    /* The same as the description of a launch (device/cuda/feed.h). false: its numbers, or offsets, are too large for that. */
    bool (*describe_gather)(const struct lki_gpu_rows *rows, struct lki_cuda_gather *out);
} lki_gpu_kernels;

#ifdef __cplusplus
/* The backend of these kernels; the driver defines it. They last as long as the process. */
const lki_gpu_backend *lki_gpu_driver(const lki_gpu_kernels *kernels);
#endif

#endif
