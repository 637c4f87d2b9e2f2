/* GPUs as devices: which there are, and what compiled steps need of a card beside memory.
 *
 * Invariants
 * 1. The backend is opened at the first question, once: LOCKSTEP_GPU_BACKEND names its file, else lockstep-cuda is looked for
 *    beside the library, then where the system looks; with LOCKSTEP_GPU_SIM=n, lockstep-sim instead. Without one there are no GPUs,
 *    and lki_gpu_why() says why.
 * 2. A card is opened when its first buffer is made; cards nobody uses are not touched.
 * 3. Freed memory of a card is kept for the next buffer of its size class: the stream is in order, so it can be used again at once.
 *    What is kept goes back to the card when it is full. */
#ifndef LKI_DEVICE_GPU_GPU_H
#define LKI_DEVICE_GPU_GPU_H

#include "device/device.h"
#include "device/gpu/backend.h"

int         lki_gpu_devices(void); /* logical ones */
lki_device *lki_device_gpu_at(int index);
int         lki_gpu_cards(void);
const char *lki_gpu_why(void); /* one line: what was found, or why nothing was */

/* Cut each card into so many logical GPUs, each with at most `limit` bytes (0: no limit). LK_ESTATE once a GPU is in use. */
lk_status lki_gpu_split(int per_card, size_t limit);

/* Of one GPU: its card's backend, number and stream; opens the card. NULL and an error when it cannot be, or is lost. */
typedef struct lki_gpu_line {
    const lki_gpu_backend      *backend;
    const struct lki_kernels   *kernels;
    int                         card;
    void                       *stream;
    const struct lki_gpu_links *links; /* links.h; NULL: it has none */
} lki_gpu_line;
const lki_gpu_line *lki_gpu_line_of(lki_device *d);

/* A code of the backend as an error: LK_EDEVICE with its words. 0: LK_OK. After some errors a card is lost to the process, because
 * of a kernel that wrote where it must not, say: from then on everybody who wants anything of it is told the same, with `what` it
 * was that found it so first. */
lk_status lki_gpu_check(const lki_device *d, const char *what, int code);

/* What that would say of a code that is not 0. */
enum { LKI_GPU_WORDS = 480 };
void lki_gpu_words(const lki_device *d, const char *what, int code, char text[LKI_GPU_WORDS]);

/* Work whose end the host can ask for later (work.c): whose it is, and a function that puts an error it met into words and returns
 * the status. */
typedef struct lki_gpu_job {
    lk_status (*tell)(const void *of, int code, int64_t call);
    const void     *of;
    int64_t         call; /* which call of it */
    const lki_bond *with; /* of the cards that do this work together; NULL: the card works alone */
} lki_gpu_job;

/* Before the work is given: its number. `count`: of so many works, the last one's. */
lk_status lki_gpu_give(lki_device *d, const lki_gpu_job *job, int count, int64_t *work);

/* What to copy, on the card `of` and at the end of the work, where a kernel of it may meet an index out of range. */
lki_gpu_piece lki_gpu_report(lki_device *d, int64_t work, const lki_device *of);

/* Wait for the card; an error of `of` that nobody asked for is dropped with a warning. Before `of` goes. */
void lki_gpu_forget(lki_device *d, const void *of);

/* A word in the card's memory that is not 0 from the moment a work met an index out of range until that was told: kernels that
 * write variables read it and do nothing. */
int *lki_gpu_stop(lki_device *d);

/* Wait for all work of the card. */
lk_status lki_gpu_wait(lki_device *d);

/* From now on a thread that waits for the card waits for the bond first, or no longer does: the entry `watch` of device.h. */
void lki_gpu_watch(lki_device *d, const lki_bond *bond, bool watch);

/* Of the card's backend, without opening it; NULL: it links no cards. */
const struct lki_gpu_links *lki_gpu_links_here(const lki_device *d);

/* One line about NCCL for the first backend: which, or why there is none; "" where there are no cards. */
const char *lki_gpu_nccl(bool *found);

/* Bytes in use and kept, and free on the card. */
typedef struct lki_gpu_memory {
    size_t used, kept, available, limit;
} lki_gpu_memory;
lki_gpu_memory lki_gpu_memory_of(lki_device *d);

const lki_gpu_card *lki_gpu_card_of(lki_device *d);

/* Give kept memory of all cards back to them; returns how many bytes. `all`: of cards that hold nothing of anyone, also what the
 * library itself keeps there. Streams stay open. */
int64_t lki_gpu_trim(bool all);

#endif
