/* GPUs as devices: which there are, and what compiled steps need of a card beside memory.
 *
 * Invariants
 * 1. The backend is opened once, by the first function that asks for GPUs. LOCKSTEP_GPU_BACKEND names its file. Else the library
 *    looks for lockstep-cuda, or lockstep-sim with LOCKSTEP_GPU_SIM=n, beside itself and then where the system looks. Without a
 *    backend there are no GPUs, and lki_gpu_why() says why.
 * 2. A card is opened when its first buffer is made. The library does not touch a card that it does not use.
 * 3. Freed memory of a card is kept for the next buffer of its size class. The stream is in order, so that buffer can use it at
 *    once. When the card is full, kept memory is returned to it. */
#ifndef LKI_DEVICE_GPU_GPU_H
#define LKI_DEVICE_GPU_GPU_H

#include "device/device.h"
#include "device/gpu/backend.h"

int         lki_gpu_devices(void); /* logical ones */
lki_device *lki_device_gpu_at(int index);
int         lki_gpu_cards(void);
const char *lki_gpu_why(void); /* one line: what was found, or why nothing was */

/* Divide each card into `per_card` logical GPUs, each with at most `limit` bytes (0: no limit). LK_ESTATE once a GPU is in use. */
lk_status lki_gpu_split(int per_card, size_t limit);

/* The backend, number and stream of a GPU's card. */
typedef struct lki_gpu_line {
    const lki_gpu_backend      *backend;
    const struct lki_kernels   *kernels;
    int                         card;
    void                       *stream;
    const struct lki_gpu_links *links; /* links.h; NULL: it has none */
} lki_gpu_line;
const lki_gpu_line *lki_gpu_line_of(lki_device *d); /* opens the card. NULL and an error: it cannot be opened, or is lost */

/* A code of the backend as an error: LK_EDEVICE with its words. 0: LK_OK. After some errors a card is lost to the process, for
 * example when a kernel wrote where it must not. From then on every call for the card fails with the same message, which names the
 * `what` of the call that first saw the error. */
lk_status lki_gpu_check(const lki_device *d, const char *what, int code);

/* The words of that error; the code is not 0. */
enum { LKI_GPU_WORDS = 480 };
void lki_gpu_words(const lki_device *d, const char *what, int code, char text[LKI_GPU_WORDS]);

/* The owner of a work (work.c). `tell` records an error that the work met, and returns its status. */
typedef struct lki_gpu_job {
    lk_status (*tell)(const void *of, int code, int64_t call);
    const void     *of;   /* the owner, a compiled step */
    int64_t         call; /* the number of the owner's call that gave the work */
    const lki_bond *with; /* of the cards that do this work together; NULL: the card works alone */
} lki_gpu_job;

/* Numbers for `count` works that the caller is about to give; *work is the last one. */
lk_status lki_gpu_give(lki_device *d, const lki_gpu_job *job, int count, int64_t *work);

/* The copy at the end of a work, which reports whether it has met an index out of range on the card `of`. */
lki_gpu_piece lki_gpu_report(lki_device *d, int64_t work, const lki_device *of);

/* For an owner of works that is about to be freed: wait for the card. If one of its works met an error that no call has reported,
 * warn, and drop the error. */
void lki_gpu_forget(lki_device *d, const void *of);

/* A word in the card's memory. A kernel that meets an index out of range sets it, and it is 0 again when that error has been
 * reported. While it is not 0, kernels that write variables do nothing. */
int *lki_gpu_stop(lki_device *d);

/* Wait for all work of the card. */
lk_status lki_gpu_wait(lki_device *d);

/* From now on a thread that waits for the card waits for the bond first, or no longer does: the entry `watch` of device.h. */
void lki_gpu_watch(lki_device *d, const lki_bond *bond, bool watch);

/* The links of the card's backend, without opening the card; NULL: it links no cards. */
const struct lki_gpu_links *lki_gpu_links_here(const lki_device *d);

/* One line about NCCL: its version, or why there is none; "" if there are no cards. */
const char *lki_gpu_nccl(bool *found);

/* Bytes in use and kept, and free on the card. */
typedef struct lki_gpu_memory {
    size_t used, kept, available, limit;
} lki_gpu_memory;
lki_gpu_memory lki_gpu_memory_of(lki_device *d);

const lki_gpu_card *lki_gpu_card_of(lki_device *d);

/* Return kept memory of all cards to them; returns how many bytes. `all`: for cards without a buffer in use, also the memory of the
 * library itself. Streams stay open. */
int64_t lki_gpu_trim(bool all);

#endif
