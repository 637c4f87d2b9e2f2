/* Descriptions of structs of arguments: their members by name, type and offset, and the class of objects they make.
 *
 * A class of objects (a layer, an initialiser, an optimiser) keeps the arguments it was made with. Its table of fields says what
 * they are called in a Keras file, so one reader and one writer (keras/) serve all classes, and a new layer needs a table but no
 * code.
 *
 *     static const lki_field FIELDS[] = {LKI_LAYER_FIELDS(lk_dropout_layer_args),
 *                                        LKI_FIELD(REAL, lk_dropout_layer_args, rate),
 *                                        LKI_FIELD(NUMBER, lk_dropout_layer_args, seed, .none = true),
 *                                        LKI_FIXED("noise_shape", "null")};
 *
 * Invariants
 *  1. An option that was not given (core/option.h) means `standard`, and `standard` is what is written to a file.
 *  2. If one of several members can be given, the constructor copies it to the member that has a field (kernel_size becomes
 *     kernel_shape), so the table is complete.
 *  3. Two consecutive fields with the same name are alternatives: the object (the array), if there is one, else the value of the
 *     second field. */
#ifndef LKI_CORE_FIELD_H
#define LKI_CORE_FIELD_H

#include "core/object.h"

typedef enum lki_field_type {
    LKI_FIELD_INT,     /* int64_t; 0 is 0 */
    LKI_FIELD_COUNT,   /* int; 0 is 0 */
    LKI_FIELD_REAL,    /* double; 0 is 0 */
    LKI_FIELD_INTEGER, /* lk_integer; not given: standard, or null where `none` */
    LKI_FIELD_NUMBER,  /* lk_number; not given: standard, or null where `none` */
    LKI_FIELD_SWITCH,  /* lk_switch; standard 1: on by default */
    LKI_FIELD_AXIS,    /* lk_axis; not given: standard */
    LKI_FIELD_AXES,    /* lk_axes: a list; a single number stands for `width` equal ones. Empty: standard, `width` times. Width 0:
                        * the list as it is, null if it is empty; with `none` the empty list, LK_AXES(), is [], and differs from no
                        * list, which is standard */
    LKI_FIELD_PAIRS,   /* lk_axes: `width` pairs, [[top, bottom], [left, right]]; or a value for each, or one for all */
    LKI_FIELD_RANGE,  /* two lk_number, the upper end and then the lower: [lower, upper], or a number if the lower one is not given;
                      * null where `none` and neither is given */
    LKI_FIELD_SHAPE,  /* lk_shape; -1: any size; a file may have null for it. Where `none`, it is written as null, and rank 0 too */
    LKI_FIELD_NAME,   /* const char *; the object holds a copy */
    LKI_FIELD_WORD,   /* an enum (int): words[value]; value 0 may be NULL: then its word is that of `standard` */
    LKI_FIELD_OBJECT, /* pointer to an object of kind `kind`, NULL: null. `standard_word` is what a layer uses for NULL */
    LKI_FIELD_OBJECTS, /* lki_objects: a list of objects of kind `kind`; the object holds a copy */
    LKI_FIELD_ARRAY,   /* lk_tensor *: nested lists of numbers, of type `dtype`; the object holds a copy */
    LKI_FIELD_FIXED,   /* no member: an option of Keras that lockstep does not have; `literal` is the only value, as JSON, or any
                        * value (`none`) */
} lki_field_type;

typedef struct lki_objects { /* such as lk_layers */
    int    count;
    void **item;
} lki_objects;

typedef struct lki_field {
    const char    *name; /* as in Keras */
    lki_field_type type;
    size_t         offset; /* in the struct of arguments */
    double         standard;
    /* NUMBER, INTEGER, WORD: null in a file is "not given", in both directions; REAL and COUNT: null is 0. SWITCH: false is "not
     * given", whatever the standard is. FIXED: a file may have any value, and it has no effect. */
    bool               none;
    bool               null_too;     /* WORD: null in a file is value 0, which is written as its word */
    bool               null_is_zero; /* NUMBER: null in a file is 0, and 0 is written as null */
    bool               alone;        /* AXES of width 0: a list of one is written as a number */
    bool               real;         /* NUMBER: written with a decimal point even if it is whole */
    bool               left_out;     /* FIXED: for another value a warning is printed, and it is ignored */
    bool               listed;       /* NAME: in a file a list of at most one text; NULL is an empty list */
    bool               required;     /* it is an error if a file does not have it */
    bool               in_call;      /* in Keras an argument of the call, not of the constructor */
    bool               ours;         /* SWITCH: Keras has no such option; if it is on, it is written beside the config */
    int                width;        /* AXES, PAIRS */
    const char *const *words;        /* WORD; "null" stands for null in a file */
    int                word_count;
    lki_kind           kind;          /* OBJECT */
    const char        *standard_word; /* OBJECT: "GlorotUniform"; NULL: none. NAME: the text that stands for null */
    const char        *literal;       /* FIXED */
    lk_dtype           dtype;         /* ARRAY */
} lki_field;

/* LKI_FIELD(INT, lk_dense_args, units, .required = true); the member is called as in Keras. */
#define LKI_FIELD(kind_, T, ...) LKI_FIELD_(kind_, T, __VA_ARGS__, )
#define LKI_FIELD_(kind_, T, member, ...)                                                                                          \
    {                                                                                                                              \
        .name = #member, .type = LKI_FIELD_##kind_, .offset = offsetof(T, member), __VA_ARGS__                                     \
    }
/* The same if Keras has another name: LKI_FIELD_AS("kernel_size", AXES, lk_conv_layer_args, kernel_shape, .width = 2). */
#define LKI_FIELD_AS(name_, kind_, T, ...) LKI_FIELD_AS_(name_, kind_, T, __VA_ARGS__, )
#define LKI_FIELD_AS_(name_, kind_, T, member, ...)                                                                                \
    {                                                                                                                              \
        .name = name_, .type = LKI_FIELD_##kind_, .offset = offsetof(T, member), __VA_ARGS__                                       \
    }
#define LKI_FIXED(name_, literal_)                                                                                                 \
    {                                                                                                                              \
        .name = name_, .type = LKI_FIELD_FIXED, .literal = literal_                                                                \
    }

/* Describes objects of one Keras class. */
typedef struct lki_class {
    const char      *name;   /* "Dense" */
    const char      *module; /* "keras.layers" */
    const lki_field *field;
    int              fields;
    size_t           bytes;          /* of the struct of arguments */
    void *(*make)(const void *args); /* the public constructor; NULL and an error */
} lki_class;

#define LKI_ARGS(T, FIELDS_) .field = (FIELDS_), .fields = LKI_COUNT(FIELDS_), .bytes = sizeof(T)

/* Hold: take references to the objects, and copy the names and arrays, that a copied struct of arguments points to. Drop: release
 * them. Hold fails with LK_EINVAL if an object is of the wrong kind, "<call>: kernel_regularizer is not a regularizer", and if a
 * number in a field is larger than any size may be (core/size.h): "<call>: units is 4611686018427387904; it must be at most
 * 2147483647". */
lk_status lki_args_hold(const char *call, const lki_class *c, void *args);
void      lki_args_drop(const lki_class *c, void *args);

/* The field of this name, or NULL. */
const lki_field *lki_field_find(const lki_class *c, const char *name);

#endif
