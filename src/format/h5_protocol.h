/* What the library and its helper for HDF5 files (helper/) say to each other, over one stream each way. All numbers are little
 * endian.
 *
 *   request   offset size                       answer: frames, one after the other, the last one an end
 *                  0    8  LKI_H5P_MAGIC           offset size
 *                  8    4  mode                         0    4  what it is (LKI_H5P_ITEM ...)
 *                 12    4  patience, or zero            4    4  zero
 *                 16    8  bytes of the payload n       8    8  bytes of the payload n
 *                 24    8  most bytes of the answer    16    n  payload
 *                 32    n  payload
 *
 *   patience: seconds of the processor that may go by without an item of the answer; zero: as many as usual
 *
 *   mode LKI_H5P_READ    payload: a file        answer: an ITEM for each group, dataset and attribute, then DONE
 *   mode LKI_H5P_WRITE   payload: items         answer: the FILE, then DONE
 *   either may end in REFUSED, UNSUPPORTED or NO_MEMORY instead: the payload is a text that says why
 *
 *   item      offset size
 *                  0    1  kind (LKI_H5P_GROUP ...)
 *                  1    1  what its values are (LKI_H5P_F32 ..., LKI_H5P_TEXT, LKI_H5P_TEXTS); 0 for a group
 *                  2    1  axes r
 *                  3    1  zero
 *                  4    4  bytes of the name m
 *                  8    4  texts
 *                 12    4  zero
 *                 16    8  bytes of the values v
 *                 24   8r  sizes of the axes
 *                        m  name: "group/dataset", "group@attribute", "@attribute" of the root
 *                        v  values: elements row by row, or for each text its length (4) and its bytes
 *
 * Neither side believes the other: every length is checked before it is used. */
#ifndef LKI_FORMAT_H5_PROTOCOL_H
#define LKI_FORMAT_H5_PROTOCOL_H

#include <stdint.h>

#define LKI_H5P_MAGIC UINT64_C(0x31303548504b4c7f)

enum { LKI_H5P_REQUEST = 32, LKI_H5P_FRAME = 16, LKI_H5P_ITEM_FIXED = 24 };
enum { LKI_H5P_MOST_AXES = 32, LKI_H5P_MOST_ITEMS = 1000000, LKI_H5P_MOST_NAME = 65536, LKI_H5P_MOST_DEPTH = 64 };

typedef enum lki_h5p_mode { LKI_H5P_READ = 1, LKI_H5P_WRITE } lki_h5p_mode;

typedef enum lki_h5p_frame {
    LKI_H5P_ITEM = 1,
    LKI_H5P_FILE,
    LKI_H5P_DONE,
    LKI_H5P_REFUSED,
    LKI_H5P_UNSUPPORTED,
    LKI_H5P_NO_MEMORY
} lki_h5p_frame;

typedef enum lki_h5p_kind { LKI_H5P_GROUP = 1, LKI_H5P_DATASET, LKI_H5P_ATTRIBUTE } lki_h5p_kind;

typedef enum lki_h5p_values {
    LKI_H5P_F16 = 1,
    LKI_H5P_F32,
    LKI_H5P_F64,
    LKI_H5P_I32,
    LKI_H5P_I64,
    LKI_H5P_U8,
    LKI_H5P_BOOL,
    LKI_H5P_TEXT,
    LKI_H5P_TEXTS
} lki_h5p_values;

#endif
