/* What the helper for HDF5 files answers: frames of groups, arrays and texts. The input is the answer (driver/exchange.c). */
#include "format/h5.h"
#include "fuzz/target.h"

TARGET(4 * MIB, 512)
{
    lki_h5    file;
    lki_bytes image;
    fuzz_memory_may_end(); /* a helper may say so of itself */
    if (lki_h5_read("a.h5", data, size, &file) == LK_OK) {
        lki_h5_find(&file, "layers/dense/vars/0");
        if (lki_h5_write("b.h5", &file, &image) == LK_OK) lki_bytes_free(&image);
        lki_h5_free(&file);
    }
}
