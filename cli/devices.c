/* lockstep devices: list the devices of this machine. */
#include "commands.h"
#include "machine.h"
#include <lockstep.h>
#include <stdio.h>
#include <string.h>

static int run_devices(const cli_args *a)
{
    (void)a;
    char           name[128];
    const lk_names devices = lk_list_devices();
    if (lk_failed()) return cli_fail_library(CLI_FAILED);
    cli_processor(name, sizeof name);
    for (int i = 0; i < devices.count; i++) {
        const char *at = strstr(devices.item[i], "device:");
        const char *plain = at ? at + strlen("device:") : devices.item[i];
        const int   cores = lk_threads();
        const char *gpu = lk_gpu_words(devices.item[i]);
        if (*gpu) printf("%-6s %s\n", plain, gpu);
        else
            printf("%-6s %d core%s, %s, %.1f GiB%s%s\n", plain, cores, cores == 1 ? "" : "s", cli_isa(), cli_memory_gib(),
                   *name ? ", " : "", name);
    }
    return CLI_FINE;
}

const cli_command cli_devices = {
    .name = "devices",
    .words = "",
    .most = 0,
    .help = "list the devices of this machine",
    .more = "More logical CPU devices: lockstep train --replicas N, or LOCKSTEP_CPU_DEVICES.\n",
    .options = (const cli_option[]){OPT_COUNT},
    .run = run_devices,
};
