/* What links between simulated cards (links.cc) and the backend (sim.cc) share. */
#ifndef LKI_DEVICE_SIM_LINKS_H
#define LKI_DEVICE_SIM_LINKS_H

#include "device/gpu/links.h"

int lki_sim_peer_broken(void); /* LOCKSTEP_SIM_PEER=broken */
int lki_sim_lost(int card);    /* the code, or 0: it works */

#endif
