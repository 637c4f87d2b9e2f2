/* Declarations shared by the files of the helper. It answers one request, then the process ends; code that cannot continue refuses
 * the request, which also ends the process. */
#ifndef LK_HELPER_H
#define LK_HELPER_H

#define H5_USE_18_API 1 /* the names of libhdf5 1.8, with any installed version */
#include "core/size.h"
#include "format/h5_protocol.h"
#include <hdf5.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct item {
    uint8_t     kind, values;
    int         rank;
    hsize_t     dim[LKI_H5P_MOST_AXES];
    uint32_t    texts;
    const char *name; /* ends in 0 */
    size_t      name_size;
    uint64_t    size; /* bytes of the values */
} item;

/* ---- h5.c: the stream ---- */

__attribute__((noreturn, format(printf, 2, 3))) void refuse(lki_h5p_frame why, const char *format, ...);
void                                                *allocate(size_t bytes); /* refuses the request if there is no memory */
static inline void *allocate_array(uint64_t count, size_t size) { return allocate(lki_bytes_of((int64_t)count, size)); }
void                put_frame(lki_h5p_frame what, uint64_t size);
void                put_item(const item *i); /* its frame and all of it except the values, which follow with put() */
void                put(const void *data, size_t size);

/* The last error of libhdf5, for messages. */
const char *reason(void);

/* IEEE half precision, little endian, as h5py stores it. */
hid_t half_type(void);

/* ---- fence.c ---- */

/* Restrict this process from now on. `bytes`: how much memory it may need; `seconds` of processor time without progress. */
void fence(uint64_t bytes, uint64_t seconds);
void note_progress(void);

/* This process ends when its parent ends, in whatever way. */
void end_with_parent(void);

/* ---- read.c, write.c: the two modes ---- */

void read_file(void *bytes, size_t size, uint64_t limit); /* the bytes stay */
void write_file(const uint8_t *items, size_t size);

#endif
