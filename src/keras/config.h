/* Objects in Keras' JSON, read and written by the tables of their classes (core/field.h).
 *
 *     {"module": "keras.layers", "class_name": "Dense", "config": {"name": "dense", "units": 10, ...}, "registered_name": null}
 *
 * If Keras writes only a name ("relu", "glorot_uniform", "adam"), names are read too.
 *
 * Invariants
 *  1. Every key of a config is read: an unknown key, or an unsupported value, is LK_EUNSUPPORTED and named with its value. A value
 *     of the wrong type is LK_EFORMAT.
 *  2. A message begins with the file and the place: 'model.keras: layer "conv2d_3" (Conv2D): option "groups" is 2; ...'.
 *  3. Objects that are read belong to the current pool until lki_config_free() frees them; objects made from them hold what they
 *     need. */
#ifndef LKI_KERAS_CONFIG_H
#define LKI_KERAS_CONFIG_H

#include "core/error.h"
#include "core/field.h"
#include "core/names.h"
#include "format/json.h"
#include <lockstep/layer.h>

#define LKI_KERAS_VERSION "3.15.1" /* the version whose files these are */
#define LKI_BESIDE "lockstep"      /* the key beside an object's config for options that Keras lacks (lki_field.ours) */

/* ---- families: all classes of one kind of object (classes.c) ---- */

typedef struct lki_alias {
    const char *name, *class;
} lki_alias;

typedef struct lki_family {
    lki_kind    kind;
    const char *what;                                       /* "initialiser" */
    const char *header;                                     /* the header that lists them all; NULL: messages list them */
    const lki_class *(*at)(int i);                          /* NULL after the last; a class without a name is skipped */
    const lki_class *(*of)(const void *object, void *args); /* its class, NULL: custom functions; if args is not NULL, a copy of its
                                                             * arguments */
    void *(*named)(const char *name);                       /* optional: makes one by a name that no class has */
    const lki_alias *alias;                                 /* ends with an empty one */
} lki_family;

const lki_family *lki_family_of(lki_kind kind);

/* A class by its name or short name, "GlorotUniform" or "glorot_uniform"; NULL: there is none. */
const lki_class *lki_class_named(const lki_family *f, const char *name);

/* The end of a message about an unknown class name: which names there are (core/names.h). */
const char *lki_classes_known(const lki_family *f, const char *name, char text[LKI_KNOWN_TEXT]);

/* The index of a word; -1: there is none. Also for Keras' other names of it ("swish"). */
int lki_word_named(const lki_field *f, const char *word);

/* NULL, or why Keras does not have this name: a class or word that only lockstep has. */
const char *lki_not_in_keras(const char *name);

/* ---- reading ---- */

/* What is being read, for messages. */
typedef struct lki_reading {
    const char *file;       /* "model.keras" */
    char        place[256]; /* 'layer "conv2d_3" (Conv2D)'; "": the file as a whole */
    int         rank;       /* the rank of the object's input, including the batch; 0: unknown */
} lki_reading;

/* "FILE: PLACE: ..." */
lk_status lki_read_fail(const lki_reading *r, lk_status code, const char *format, ...) LKI_PRINTF(3, 4);

/* The number of axes of an object's input, including the batch, from "build_config"; 0: not given. */
int lki_built_rank(const lki_json *v);

/* The value as JSON, cut to `bytes`; for messages. */
const char *lki_json_show(const lki_json *v, char *text, size_t bytes);

/* If there is an error now that was not there before, put the file and the place in front, and replace LK_EINVAL by
 * LK_EUNSUPPORTED. For errors of constructors, which do not know the file. */
void lki_read_blame(const lki_reading *r, bool failed_before);

/* One field of `args` (fields.c). */
lk_status lki_field_read(const lki_reading *r, const lki_field *f, const lki_json *v, void *args);
lk_status lki_field_write(lki_json_out *o, const lki_field *f, const void *args);

/* The arguments from an object's config, or the defaults if it is only a name; `args` has room for them. `call` (or NULL) has the
 * arguments of the layer's call. On failure nothing is held. */
lk_status lki_config_read(const lki_reading *r, const lki_class *c, const lki_json *object, const lki_json *call, void *args);
void      lki_config_free(const lki_class *c, void *args); /* drop what was made for it */

/* The parts of {"module", "class_name", "config"}; `config` is an object. */
lk_status lki_object_parts(const lki_reading *r, const lki_json *v, const char **class_name, const lki_json **config);

/* An object of this kind: a name or an object. `what` is its purpose, for messages: "option \"kernel_initializer\"". NULL and an
 * error. */
void *lki_object_read(const lki_reading *r, lki_kind kind, const char *what, const lki_json *v);

/* The dtype of a config, a name or a policy. *policy (if not NULL) becomes its name, which is static, or NULL for float32. Objects
 * of all policies compute in float32; other dtypes are LK_EUNSUPPORTED. */
lk_status lki_dtype_check(const lki_reading *r, const lki_json *v, const char **policy);

/* Keep the name of the policy that this config has, for files that are written. */
void lki_policy_note(const lki_reading *r, lk_layer *l, const lki_json *object);

/* One warning if a layer in this config of a model has another policy than float32. */
void lki_policies_tell(const char *file, const lki_json *config);

/* ---- writing ---- */

/* The values of the fields, without brackets. Layers have a dtype policy; NULL: float32. */
lk_status lki_config_write(lki_json_out *o, const lki_class *c, const void *args, const char *policy);

/* Those that are arguments of a layer's call, if they differ from the default. */
lk_status lki_call_write(lki_json_out *o, const lki_class *c, const void *args);

/* The whole object; or open until lki_json_close(o, '}'), so that more keys can follow. LK_EUNSUPPORTED for custom functions. */
lk_status lki_object_write(lki_json_out *o, lki_kind kind, const void *object);
lk_status lki_object_open(lki_json_out *o, lki_kind kind, const void *object);
lk_status lki_object_begin(lki_json_out *o, const lki_class *c, const void *args, const char *policy); /* from arguments */

void lki_dtype_write(lki_json_out *o, const char *policy); /* NULL: float32 */

#endif
