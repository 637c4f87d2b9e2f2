/* Limits of the settings of a runtime (runtime.h). */
#ifndef LKI_CORE_SETTINGS_H
#define LKI_CORE_SETTINGS_H

enum { LKI_MAX_LANES = 1024, LKI_MAX_THREADS = 1024 };

#endif
