/* What a GPU backend provides: memory, one stream per card, captured graphs, and a table of kernels. A backend is a separate shared
 * object, opened at run time, so that the library also runs where there is none:
 *
 *     lockstep-cuda   CUDA cards; made by nvcc
 *     lockstep-sim    the same kernel sources made by the host's compiler: cards that are simulated on the CPU, for tests
 *
 * A backend consists of a driver (device/cuda/, device/sim/), which handles the cards, and of kernels (kernel/gpu/), which do the
 * arithmetic. The kernels are the upper part: they pass the driver what it launches by itself, and export the backend that it makes
 * of that.
 *
 * Contract
 *  1. Functions return 0, or a code that text() puts in words. None exits, prints or waits for ever, not even on a lost card: once
 *     the loss is known all of them fail there, except release() and release_graph(), which can still be called.
 *  2. All work of a card is on its one stream and runs in the order of the calls. write() has read the host's bytes when it
 *     returns; read() and sync() return when all work before them is done; everything else may return before its work is done.
 *  3. A kernel (kernel.h) launches work on the stream of its call (lki_launch) and returns. Everything it needs from its lki_args,
 *     except bytes in the card's memory, is copied during the call; nothing of it is read later. It works on the whole of dst[0]:
 *     lo is 0 and hi its size.
 *  4. Between capture_begin() and capture_end(), called by one thread, work on the streams that capture_call() returns is recorded,
 *     not done; each such stream is valid until the next capture_call(). launch() does the recorded work on the card's stream, any
 *     number of times. Calls run after those named in capture_call(); otherwise in any order, also at the same time. Between
 *     variant_begin() and variant_end() the same holds for variant_call().
 *  5. What vary() and recopy() change is for later launches only.
 *  6. gather() may be deferred until the next function of this table that submits work to the card, waits for it, or releases
 *     memory. It is done before that work, and launch() makes it a part of the graph. Launching kernels on the stream is not such a
 *     function: call flush() before it. Exchanges of linked cards are not either: no gather writes their memory. */
#ifndef LKI_DEVICE_GPU_BACKEND_H
#define LKI_DEVICE_GPU_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LKI_GPU_BACKEND_VERSION = 11, LKI_GPU_MOST_CARDS = 64, LKI_GPU_MOST_PIECES = 16 };

typedef struct lki_gpu_card {
    char   name[64];
    size_t memory;       /* total bytes */
    int    major, minor; /* compute capability */
    int    processors;
    int    shared; /* bytes of shared memory a block may have */
} lki_gpu_card;

typedef struct lki_gpu_piece { /* a copy: within the card's memory; dst may also be memory of alloc_host() */
    void       *dst;
    const void *src;
    size_t      bytes;
} lki_gpu_piece;

struct lki_kernels;
struct lki_grouping;
struct lki_pick;

typedef struct lki_gpu_backend {
    int         version;
    const char *name;               /* "cuda", "sim" */
    int (*cards)(const char **why); /* the number of cards; if 0, why */
    int (*card)(int card, lki_gpu_card *out);
    const char *(*text)(int code); /* of a code that this thread got; it names the call that failed if that is known */
    const char *(*lost)(int code); /* the name of an error after which the card is lost to this process; else NULL */
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
    /* After the work submitted to both cards so far. */
    int (*peer)(int to, void *stream, void *dst, int from, void *from_stream, const void *src, size_t bytes);
    int (*sync)(int card, void *stream);
    int (*failure)(int card); /* the error of launches since the last call, if it is known yet; 0: none */
    int (*capture_begin)(int card, void **capture);
    /* For the next call. Calls are numbered 0, 1, ... in this order; each runs after the calls named here and depends on no
     * others. */
    int (*capture_call)(int card, void *capture, int count, const int *after, void **stream);
    int (*capture_end)(int card, void *capture, void **graph); /* also after a failure; the capture ends */
    /* The same graph with other addresses in these calls: work on the stream replaces theirs, with the same launches and other
     * arguments. If one of the functions fails, there is no variant to launch, and it must still be released. */
    int (*variant_begin)(int card, void *graph, void **variant);
    int (*variant_call)(int card, void *variant, int call, void **stream);
    int (*variant_end)(int card, void *variant);
    int (*vary)(int card, void *graph, void *variant); /* to the addresses of this variant; NULL: those of the capture */
    /* Call number `call` was copies() of the same number of pieces, with the same sizes; after vary(). */
    int (*recopy)(int card, void *graph, int call, int count, const lki_gpu_piece *pieces);
    int (*launch)(int card, void *stream, void *graph);
    int (*release_graph)(void *graph); /* its variants may be released earlier or later */
    int (*release_variant)(void *variant);
    const struct lki_kernels *(*kernels)(void);
    const struct lki_grouping *(*groups)(void);                         /* kernel/group.h; NULL: calls are launched one by one */
    int (*gather)(int card, void *stream, const struct lki_pick *rows); /* rows.h */
    /* Call this before launching kernels directly on the card's stream: it launches a deferred gather. */
    int (*flush)(int card);
    /* Up to LKI_GPU_MOST_PIECES in one call; they do not overlap. */
    int (*copies)(int card, void *stream, int count, const lki_gpu_piece *pieces);
} lki_gpu_backend;

/* The one symbol a backend exports. */
#define LKI_GPU_BACKEND_SYMBOL "lki_gpu_backend_of"
typedef const lki_gpu_backend *lki_gpu_backend_fn(void);

/* ---- the two parts of a backend ---- */

/* What kernels pass to the driver they are linked with. */
struct lki_cuda_gather;
typedef struct lki_gpu_kernels {
    const struct lki_kernels *(*table)(void);
    const struct lki_grouping *(*groups)(void);
    void (*copy)(void *stream, int count, const lki_gpu_piece *pieces);
    void (*gather)(void *stream, const struct lki_pick *rows);
    /* The arguments of the launch for these rows (device/cuda/feed.h). false: row numbers or offsets are too large for it. */
    bool (*describe_gather)(const struct lki_pick *rows, struct lki_cuda_gather *out);
} lki_gpu_kernels;

#ifdef __cplusplus
/* The backend of these kernels; the driver defines this function. They last as long as the process. */
const lki_gpu_backend *lki_gpu_driver(const lki_gpu_kernels *kernels);
#endif

#endif
