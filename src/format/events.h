/* TensorBoard's event files: TFRecords of Event messages, written as training goes.
 *
 * The file is FOLDER/events.out.tfevents.<seconds>.<host>.<process>.<n>; its first event is "brain.Event:2". Values follow the
 * forms TensorFlow 2 writes (tensors with plugin data), so that TensorBoard shows them in its panels. */
#ifndef LKI_FORMAT_EVENTS_H
#define LKI_FORMAT_EVENTS_H

#include "format/file.h"

typedef struct lki_events lki_events;

/* A missing folder is made. `wall_time` is given with each event, in seconds since 1970. */
lk_status   lki_events_open(const char *folder, double wall_time, lki_events **out);
lk_status   lki_events_close(lki_events *e); /* flushes; NULL is ignored */
lk_status   lki_events_flush(lki_events *e);
const char *lki_events_path(const lki_events *e);

lk_status lki_events_scalar(lki_events *e, double wall_time, int64_t step, const char *tag, float value);

/* Up to 30 buckets of equal width between the smallest and the largest, as in tf.summary.histogram. Values that are not finite are
 * left out. */
lk_status lki_events_histogram(lki_events *e, double wall_time, int64_t step, const char *tag, const float *value, int64_t count);
lk_status lki_events_image(lki_events *e, double wall_time, int64_t step, const char *tag, int64_t width, int64_t height,
                           int channels, const uint8_t *pixels);
lk_status lki_events_text(lki_events *e, double wall_time, int64_t step, const char *tag, const char *utf8);

/* ---- reading, for tests and `lockstep data inspect` ---- */

typedef enum lki_event_kind {
    LKI_EVENT_OTHER,
    LKI_EVENT_SCALAR,
    LKI_EVENT_HISTOGRAM,
    LKI_EVENT_IMAGE,
    LKI_EVENT_TEXT
} lki_event_kind;
typedef struct lki_event {
    lki_event_kind kind;
    double         wall_time;
    int64_t        step;
    const char    *tag; /* "" for the version */
    double         scalar;
    int64_t        size; /* buckets of a histogram, bytes of an image */
    const char    *text;
} lki_event;
typedef lk_status (*lki_event_fn)(const lki_event *event, void *user);
lk_status lki_events_read(const char *path, lki_event_fn fn, void *user);

#endif
