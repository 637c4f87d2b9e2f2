/* Ending the library and freeing what it caches: public calls that concern all folders below. */
#include "core/crew.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/runtime.h"
#include "device/gpu/gpu.h"

int64_t lk_memory_trim(void) { return lki_gpu_trim(false) + lki_memory_trim(); }

lk_status lk_shutdown(void)
{
    const char *call = "lk_shutdown";
    if (lki_team_runs_this() || lki_runtime_now() != lk_runtime_default())
        return lki_fail(LK_ESTATE, "%s: inside LK_WITH_RUNTIME, or a function the library runs; leave it first", call);
    if (!lki_library_close())
        return lki_fail(LK_ESTATE, "%s: inside LK_POOL, LK_STEP or a function the library runs; leave it first", call);
    lki_runtimes_rest();
    lki_gpu_trim(true);
    lki_memory_trim();
    return LK_OK;
}
