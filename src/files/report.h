/* The contents of a file as facts and tables, printed for people or for programs.
 *
 *     a.npz: npz                      {"file": "a.npz", "kind": "npz", "arrays": [{"name": "x", "type": "f32", "shape": [3, 4],
 *     arrays                           "bytes": 48}, ...], "total": {"arrays": 2, "values": 24, "bytes": 96}}
 *       x  f32 [3, 4] 48 bytes
 *
 * Invariants
 * 1. Texts are copied. Running out of memory is recorded and reported once, at the end.
 * 2. Text for people has no control characters, whatever the file has. */
#ifndef LKI_FILES_REPORT_H
#define LKI_FILES_REPORT_H

#include "core/memory.h"
#include "format/arrays.h"
#include "format/json.h"

typedef struct lki_fact {
    char   *key, *text; /* text NULL: a number */
    bool    whole;
    int64_t integer;
    double  real;
} lki_fact;

typedef struct lki_report_line {
    char    *name, *type, *note; /* type and note may be NULL */
    lk_shape shape;              /* rank -1: none */
    int64_t  bytes;              /* -1: not reported */
    bool     texts;              /* not numbers: not counted as values */
} lki_report_line;

typedef struct lki_report_lines {
    const char      *what; /* "arrays"; from a string of the program */
    int              count, room;
    lki_report_line *line;
} lki_report_lines;

enum { LKI_MOST_TABLES = 4 };
typedef struct lki_report {
    const char      *kind; /* a string of the program */
    int              facts, fact_room;
    lki_fact        *fact;
    int              tables;
    lki_report_lines table[LKI_MOST_TABLES];
    lki_arena        memory;
    bool             failed;
} lki_report;

void lki_report_free(lki_report *r);

/* `kind` and `what` are strings of the program. */
void lki_report_kind(lki_report *r, const char *kind);
void lki_report_text(lki_report *r, const char *key, const char *text); /* NULL: no line */
void lki_report_whole(lki_report *r, const char *key, int64_t value);
void lki_report_real(lki_report *r, const char *key, double value);

/* Lines are added to the table that was begun last. The functions never return NULL; a new line has neither shape nor bytes. */
void             lki_report_table(lki_report *r, const char *what);
lki_report_line *lki_report_line_add(lki_report *r, const char *name, const char *type, const char *note);
void             lki_report_array(lki_report *r, const char *name, const char *type, const lk_shape *shape, int64_t bytes);
void             lki_report_sort(lki_report *r); /* the lines of that table, by their names: vars/2 before vars/10 */
void             lki_report_arrays(lki_report *r, const lki_arrays *a); /* a table of them, and notes as facts */

/* All of it as text, from lki_alloc; NULL and LK_ENOMEM. */
char *lki_report_for_people(const lki_report *r, const char *file);
char *lki_report_for_programs(const lki_report *r, const char *file);

#endif
