/* HDF5 files, through the helper. The helper may crash or hang while it reads one; the library must report it. */
#include "format/h5.h"
#include "format/h5_helper.h"
#include "fuzz/target.h"

TARGET(600 * MIB, 64)
{
    lki_h5 file;
    lki_h5_set_deadline(2000); /* libhdf5 can be sent round in circles */
    if (lki_h5_read("a.h5", data, size, &file) == LK_OK) lki_h5_free(&file);
}
