/* IDX files, plain and packed by gzip. */
#include "format/idx.h"
#include "fuzz/target.h"

TARGET(MIB, 4 * 1032 + 64)
{
    lki_array a;
    if (lki_idx_read(fuzz_file("data-idx3-ubyte", data, size), &a) == LK_OK) lki_array_free(&a);
}
