/* The two hooks for all output of the library, and the topics of LOCKSTEP_VERBOSE. Nothing else in src/ prints. */
#ifndef LKI_CORE_LOG_H
#define LKI_CORE_LOG_H

#include "core/base.h"

enum { LKI_LOG_TEXT = 2048 }; /* longer lines of the log are cut at a word */

/* "WARNING:lockstep: ..." and "INFO:lockstep: ..." through the log hook. */
void lki_warn(const char *format, ...) LKI_PRINTF(1, 2);
void lki_info(const char *format, ...) LKI_PRINTF(1, 2);

/* Text through the output hook, unchanged. */
void lki_output(const char *format, ...) LKI_PRINTF(1, 2);

/* The width of the terminal that output goes to now; 0 if it goes to a hook, a file or a pipe. On a terminal, text without a
 * newline is visible after a flush. */
int  lki_output_columns(void);
void lki_output_flush(void);

/* LOCKSTEP_VERBOSE=lanes,dispatch enables lines on these topics. */
typedef enum lki_topic { LKI_TOPIC_LANES, LKI_TOPIC_DISPATCH, LKI_TOPIC_PLAN, LKI_TOPIC_TRACE, LKI_TOPIC_COUNT } lki_topic;
bool lki_verbose(lki_topic topic);

/* A line on a topic, through the log hook, if the topic is enabled. */
void lki_tell(lki_topic topic, const char *format, ...) LKI_PRINTF(2, 3);

#endif
