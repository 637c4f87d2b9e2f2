/* HDF5 files, read and written by a separate helper program (helper/h5.c). So neither the library nor a process that uses it
 * contains libhdf5, and a hostile file can at worst end the helper. The helper opens no file: bytes go in and out through pipes. It
 * has limits on memory and time and, if the kernel allows it, a filter on system calls.
 *
 *     library: bytes of the file ---> helper: H5 in memory ---> library: groups, attributes and arrays; and the reverse
 *
 * It is looked for at LOCKSTEP_H5 (a path); as libexec/lockstep/lockstep-h5 in the folder of the library (or of the program, if the
 * library is part of it), and in the two folders above; and where `make install` puts it. A helper beside the library must belong
 * to the library's owner, to root, or to the user who runs it. */
#ifndef LKI_FORMAT_H5_H
#define LKI_FORMAT_H5_H

#include "format/file.h"

typedef enum lki_h5_kind { LKI_H5_GROUP, LKI_H5_DATASET, LKI_H5_ATTRIBUTE } lki_h5_kind;
typedef enum lki_h5_type { LKI_H5_ARRAY, LKI_H5_TEXT, LKI_H5_TEXTS } lki_h5_type;

/* One item of a file. Names are paths from the root without a leading slash: "layers/dense/vars/0"; attributes:
 * "layers/dense@name". */
typedef struct lki_h5_item {
    lki_h5_kind kind;
    lki_h5_type type; /* of a dataset or attribute */
    char       *name;
    lki_array   array; /* LKI_H5_ARRAY: f16, f32, f64, i32, i64, u8, bool; other integers become i64 */
    char      **text;  /* LKI_H5_TEXT: one; LKI_H5_TEXTS: count, UTF-8 */
    int         texts;
} lki_h5_item;

typedef struct lki_h5 {
    int          count, room;
    lki_h5_item *item; /* sorted by name */
} lki_h5;

/* `name` is the file's name in messages. LK_EUNSUPPORTED without the helper, with the command that installs it. */
lk_status lki_h5_read(const char *name, const uint8_t *bytes, size_t size, lki_h5 *out);
lk_status lki_h5_read_feed(const char *name, lki_feed *file,
                           lki_h5 *out); /* each array is in memory once, the file never as a whole */
lk_status lki_h5_read_file(const char *path, lki_h5 *out);
lk_status lki_h5_write(const char *name, const lki_h5 *file, lki_bytes *out); /* missing parent groups are made */

/* Build a file to be written; arrays and texts are copied. */
lk_status          lki_h5_add_group(lki_h5 *file, const char *name);
lk_status          lki_h5_add_array(lki_h5 *file, const char *name, lk_dtype dtype, const lk_shape *shape, const void *data);
lk_status          lki_h5_add_text(lki_h5 *file, const char *name, const char *utf8);                    /* an attribute */
lk_status          lki_h5_add_texts(lki_h5 *file, const char *name, int count, const char *const *utf8); /* an attribute */
const lki_h5_item *lki_h5_find(const lki_h5 *file, const char *name);
void               lki_h5_free(lki_h5 *file);

/* For `lockstep doctor`: the path of the helper, or NULL if there is none. */
const char *lki_h5_helper(void);

#endif
