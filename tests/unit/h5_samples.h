/* What both tests of HDF5 need: the helper, and stored files. */
#ifndef LK_TESTS_UNIT_H5_SAMPLES_H
#define LK_TESTS_UNIT_H5_SAMPLES_H

#include "check.h"
#include "format/h5.h"
#include "format/h5_helper.h"
#include "format/zip.h"
#include "h5_files.h"

#define NEEDS_HELPER()                                                                                                             \
    if (!lki_h5_helper()) {                                                                                                        \
        print_message("lockstep-h5 was not built: install libhdf5-dev and rebuild\n");                                             \
        skip();                                                                                                                    \
    }

static inline lki_bytes unpack(h5_sample s)
{
    lki_bytes b;
    if (lki_unpack("sample", LKI_DEFLATE, s.data, s.packed, s.size, &b) != LK_OK) fail_msg("%s", lk_error());
    return b;
}

#endif
