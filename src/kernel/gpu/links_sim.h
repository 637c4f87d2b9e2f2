/* Links between simulated cards (links_sim.cc), as far as the backend must know. */
#ifndef LKI_KERNEL_GPU_LINKS_SIM_H
#define LKI_KERNEL_GPU_LINKS_SIM_H

#include "device/gpu/links.h"

int lki_sim_peer_broken(void); /* LOCKSTEP_SIM_PEER=broken */

#endif
