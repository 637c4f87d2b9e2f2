/* JSON: a text read into a tree of values, and a tree or pieces written as text.
 *
 * Invariants
 *  1. Depth is limited to 64, and memory by the size of the text. An error names the text, the line and column, and what was
 *     expected.
 *  2. Duplicate keys, numbers out of range, invalid UTF-8, lone surrogates and anything after the value are errors.
 *  3. A tree is read-only and freed as a whole with lki_json_free(). NaN, Infinity and -Infinity, which Python writes, are numbers.
 *  4. The writer's output is valid for any input; floats are written so that reading them gives the same bits. */
#ifndef LKI_FORMAT_JSON_H
#define LKI_FORMAT_JSON_H

#include "format/file.h"

typedef enum lki_json_type {
    LKI_JSON_NULL,
    LKI_JSON_BOOL,
    LKI_JSON_NUMBER,
    LKI_JSON_STRING,
    LKI_JSON_ARRAY,
    LKI_JSON_OBJECT
} lki_json_type;

typedef struct lki_json lki_json;
struct lki_json {
    lki_json_type   type;
    const char     *key; /* in an object; NULL otherwise */
    double          number;
    bool            whole; /* a number without fraction or exponent that fits int64_t: `integer` has the exact value */
    int64_t         integer;
    bool            boolean;
    const char     *text;  /* of a string; UTF-8, ends in 0 */
    int             count; /* of an array or object */
    const lki_json *item;  /* in order */
};

/* `name` is the text's name in messages. */
lk_status lki_json_parse(const char *name, const char *text, size_t size, const lki_json **out);
void      lki_json_free(const lki_json *root); /* NULL is ignored */

const lki_json *lki_json_get(const lki_json *object, const char *key); /* NULL: no such key, or not an object */

/* "a number", "null", "a string", ...; for messages. */
const char *lki_json_kind(const lki_json *v);

/* ---- writing ---- */

typedef struct lki_json_out {
    char  *text; /* from lki_alloc; ends in 0 */
    size_t size, room;
    int    depth;
    bool   comma;  /* before the next value */
    bool   failed; /* no memory */
    bool   pretty; /* indented by two spaces a level; by default one line, as Python's json.dumps: ", " and ": " */
} lki_json_out;

void lki_json_open(lki_json_out *o, char bracket); /* '{' or '[' */
void lki_json_close(lki_json_out *o, char bracket);
void lki_json_key(lki_json_out *o, const char *key);
void lki_json_text(lki_json_out *o, const char *utf8); /* NULL: null */
void lki_json_bool(lki_json_out *o, bool value);
void lki_json_int(lki_json_out *o, int64_t value);
void lki_json_real(lki_json_out *o, double value); /* the shortest text that reads back the same; 1.0 rather than 1 */
void lki_json_null(lki_json_out *o);
void lki_json_literal(lki_json_out *o, const char *json);   /* copied unchanged */
void lki_json_copy(lki_json_out *o, const lki_json *value); /* a tree that was read */
void lki_json_out_free(lki_json_out *o);

#endif
