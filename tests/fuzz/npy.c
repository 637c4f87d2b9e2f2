/* NumPy's npy files. */
#include "format/npy.h"
#include "fuzz/target.h"

TARGET(MIB, 16)
{
    lki_array a;
    if (lki_npy_parse("a.npy", data, size, &a) == LK_OK) lki_array_free(&a);
}
