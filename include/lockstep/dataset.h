/* Datasets: where rows come from, and how they reach the replicas.
 *
 *     lk_dataset *train = lk_dataset_batch(lk_dataset_shuffle(lk_fashion_mnist(.split = LK_TRAIN, .scaled = LK_ON), 60000), 128);
 *     LK_FOR_EACH(batch, lk_distribute_dataset(strategy, train))
 *         lk_call(step, batch);
 *
 * A dataset is a recipe: nothing is read before it is iterated, and every iteration starts anew. An element is a tuple of 1 to 64
 * tensors. batch() marks the leading axis of what it makes as the rows of a global batch of its size. Operations keep what they
 * were made from; none changes it.
 *
 * Functions given to map, filter, interleave and from_generator may be called on other threads (prefetch, .parallel, datasets over
 * replicas). A mistake in one of them is the error of the lk_next() that would have given the element. */
#ifndef LOCKSTEP_DATASET_H
#define LOCKSTEP_DATASET_H

#include "strategy.h"

LK_BEGIN

typedef struct lk_dataset  lk_dataset;
typedef struct lk_iterator lk_iterator;

/* ---- sources ----------------------------------------------------------------------------------------------------------------- */

LK_API lk_dataset *lk_dataset_from_tensors(lk_tuple element); /* one element */
LK_API lk_dataset *lk_dataset_from_tensor_slices(
    lk_tuple tensors); /* one element per entry of the leading axes, which must agree */

typedef struct lk_range_args {
    const char *kw_;
    int64_t     start;      /* alone: the end, from 0 */
    lk_number   stop, step; /* default: see start; 1 */
    lk_dtype    dtype;      /* default LK_F32 */
} lk_range_args;

/* lk_dataset_range(14), lk_dataset_range(14, .dtype = LK_F32), lk_dataset_range(2, .stop = LK_NUMBER(10), .step = LK_NUMBER(3)). */
#define lk_dataset_range(...) lk_dataset_range_kw(LKI_KW(lk_range_args, __VA_ARGS__))
LK_API lk_dataset *lk_dataset_range_kw(lk_range_args args);

/* Called with the number of the element, from 0; returns 0 at the end. Must give the same for the same number, on any thread, one
 * call at a time per iterator. */
typedef int (*lk_generator_fn)(int64_t index, lk_tuple *element, void *user);
LK_API lk_dataset *lk_dataset_from_generator(lk_generator_fn fn, void *user);

typedef struct lk_files_args {
    const char *kw_;
    lk_names    files;                      /* required */
    lk_switch   gzip;                       /* default: by the file's first bytes */
    int64_t     record_bytes;               /* fixed-length records: required */
    int64_t     header_bytes, footer_bytes; /* fixed-length records: default 0 */
} lk_files_args;
#define lk_tfrecord_dataset(...) lk_tfrecord_dataset_kw(LKI_KW(lk_files_args, __VA_ARGS__))
#define lk_text_line_dataset(...) lk_text_line_dataset_kw(LKI_KW(lk_files_args, __VA_ARGS__))
#define lk_fixed_length_record_dataset(...) lk_fixed_length_record_dataset_kw(LKI_KW(lk_files_args, __VA_ARGS__))
LK_API lk_dataset *lk_tfrecord_dataset_kw(lk_files_args args);            /* u8 [bytes] each */
LK_API lk_dataset *lk_text_line_dataset_kw(lk_files_args args);           /* u8 [bytes] each, without the line's end */
LK_API lk_dataset *lk_fixed_length_record_dataset_kw(lk_files_args args); /* u8 [record_bytes] each */

/* A TFRecord file of these records, u8 each; it appears as a whole or not at all. */
LK_API lk_status lk_tfrecord_write(const char *path, lk_tuple records);

typedef enum lk_split_of { LK_TRAIN = 0, LK_TEST = 1 } lk_split_of;
typedef struct lk_mnist_args {
    const char *kw_;
    lk_split_of split;
    lk_switch   scaled;   /* default LK_OFF: u8 [28, 28, 1]; LK_ON: f32, divided by 255 */
    const char *folder;   /* default: LOCKSTEP_DATA, else the user's cache folder */
    lk_switch   download; /* default LK_ON: what the cache folder lacks is fetched into it; a folder that was named is left alone */
    lk_switch   verify;   /* default LK_OFF; LK_ON: what the cache folder has must have its SHA-256, or is fetched again */
} lk_mnist_args;

/* (image, label i64), from the IDX files train-images-idx3-ubyte[.gz] ... in FOLDER/mnist and FOLDER/fashion-mnist, which are read
 * here. The user's cache folder is $XDG_CACHE_HOME/lockstep, else ~/.cache/lockstep. Fetched from LOCKSTEP_MIRROR, if that is set,
 * and public mirrors; never when LOCKSTEP_OFFLINE is set. */
#define lk_mnist(...) lk_mnist_kw(LKI_KW(lk_mnist_args, __VA_ARGS__))
#define lk_fashion_mnist(...) lk_fashion_mnist_kw(LKI_KW(lk_mnist_args, __VA_ARGS__))
LK_API lk_dataset *lk_mnist_kw(lk_mnist_args args);
LK_API lk_dataset *lk_fashion_mnist_kw(lk_mnist_args args);

/* Where "mnist" or "fashion-mnist" is looked for, and whether it is whole: its folder goes to `path`, "" when none is known. Cheap:
 * of the files only beginnings and sizes are read.
 * Errors  LK_ENOTFOUND for a file that is missing, LK_EFORMAT for one of another size than it says. */
LK_API lk_status lk_mnist_find(const char *name, char *path, size_t bytes);

typedef struct lk_digits_args {
    const char *kw_;
    lk_split_of split;
    lk_switch   scaled; /* as in lk_mnist() */
    lk_number   seed;   /* default 1: which digits; not the process's seed */
    lk_integer  rows;   /* default 60,000 to train with, 10,000 to test; another number: so many, the first of them the same */
} lk_digits_args;

/* Digits drawn on the fly: strokes, pushed, bent, slanted and turned, of varying width, with noise. (image, label i64) as
 * lk_mnist(), no file, no network. Rows to test with are others than those to train with; row n of a seed is the same on every
 * machine. A row is drawn where its pixels are needed, and kept, so a shuffle over all of them costs nothing and neither does a
 * second epoch. */
#define lk_digits(...) lk_digits_kw(LKI_KW(lk_digits_args, __VA_ARGS__))
LK_API lk_dataset *lk_digits_kw(lk_digits_args args);

/* ---- fetching files ---- */

typedef struct lk_fetch_args {
    const char *kw_;
    lk_names    urls;       /* required: mirrors of one file, tried in order; http, https, file */
    const char *sha256;     /* default: not checked; 64 hexadecimal digits */
    const char *path;       /* required: where it goes; what is there and has the digest (without one: what is there) is kept */
    lk_number   timeout;    /* seconds without a byte before the next mirror is tried; default 30 */
    lk_integer  most_bytes; /* a larger file is refused; default 64 GiB */
} lk_fetch_args;

/* A file from the network, written beside (PATH.part) and renamed when its digest is right; folders are made. What an attempt
 * before left is continued, where a digest can tell whether it fits. Errors name every mirror and its reason, and say what to do
 * offline; nothing is fetched when LOCKSTEP_OFFLINE is set. Needs libcurl, looked for at run time. */
#define lk_fetch(...) lk_fetch_kw(LKI_KW(lk_fetch_args, __VA_ARGS__))
LK_API lk_status lk_fetch_kw(lk_fetch_args args);

/* ---- files of rows ---- */

#define LK_NAMES(...) LKI_NAMES(__VA_ARGS__) /* of columns, of arrays */

typedef struct lk_csv_args {
    const char *kw_;
    lk_names    files;       /* required: LK_FILES("a.csv"); .gz too */
    lk_switch   header;      /* default LK_ON: the first line of each file names the columns */
    char        delimiter;   /* default ',' */
    const char *label;       /* default none: the column, by name or "#0", "#-1", that becomes the label */
    lk_names    columns;     /* default all (but the label): which, in this order; others may hold anything */
    lk_switch   text_labels; /* default LK_OFF: labels are numbers; LK_ON: words, numbered in the order of their bytes */
    lk_switch   finite;      /* default LK_OFF: "" and nan are NaN, inf is infinite; LK_ON: they are refused */
} lk_csv_args;

/* Rows of numbers: f32 [columns], and the label, if any: i64 where all are whole numbers, else f32. The files are read and checked
 * here; a field that is no number, an empty label, and a line of more or fewer fields are errors with file, line, column and text.
 * Quotes as in RFC 4180; blanks around a field and blank lines are skipped; an empty field is NaN. */
#define lk_csv_dataset(...) lk_csv_dataset_kw(LKI_KW(lk_csv_args, __VA_ARGS__))
LK_API lk_dataset *lk_csv_dataset_kw(lk_csv_args args);

/* An array of a .npy file, and one of those in a .npz file (a zip of .npy files). A file that is written appears as a whole or not
 * at all. */
LK_API lk_tensor *lk_npy_read(const char *path);
LK_API lk_tensor *lk_npz_read(const char *path, const char *name); /* NULL: the only one */
LK_API lk_names   lk_npz_names(const char *path);                  /* none, and an error, when it cannot be read */
LK_API lk_status  lk_npy_write(const char *path, lk_tensor *t);
LK_API lk_status  lk_npz_write(const char *path, lk_names names, lk_tuple tensors);

typedef struct lk_npz_args {
    const char *kw_;
    const char *path; /* required */
    lk_split_of split;
    lk_names    names; /* default x_train and y_train, else x and y; LK_TEST: x_test and y_test */
} lk_npz_args;

/* Rows of the arrays of a .npz file, in this order. */
#define lk_npz_dataset(...) lk_npz_dataset_kw(LKI_KW(lk_npz_args, __VA_ARGS__))
LK_API lk_dataset *lk_npz_dataset_kw(lk_npz_args args);

/* ---- pictures ---- */

typedef struct lk_image_folder_args {
    const char *kw_;
    const char *folder;           /* required */
    int64_t     height, width;    /* required: pictures are resized to it */
    lk_integer  channels;         /* default 3; 1: grey */
    int         parallel;         /* default 0: the cores of this process */
    double      validation_split; /* default 0, none: the share of the pictures, picked by the seed, that LK_TEST gets */
    lk_split_of split;
    lk_number   seed; /* default 1; not the process's seed */
} lk_image_folder_args;

/* FOLDER/<class>/<picture>.png|jpg|jpeg: (picture f32 [height, width, channels] 0..255, label i64), classes and pictures in the
 * order of their names' bytes. Names are read here; pictures are decoded where their pixels are needed, those of a batch on
 * .parallel threads, so a shuffle over all of them costs nothing. One that cannot be read is an error that names it. Other files
 * are left out and told in the log; hidden ones are not looked at. */
#define lk_image_folder(...) lk_image_folder_kw(LKI_KW(lk_image_folder_args, __VA_ARGS__))
LK_API lk_dataset *lk_image_folder_kw(lk_image_folder_args args);

/* What the labels of an image folder, or of a CSV file with text labels, stand for; also of operations on one. None for other
 * datasets.
 * Owner   the dataset. */
LK_API lk_names lk_class_names(const lk_dataset *d);

/* One picture file, PNG or JPEG: u8 [height, width, channels]; channels 0: as it is. */
LK_API lk_tensor *lk_image_read(const char *path, int channels);
LK_API lk_status  lk_image_write(const char *path,
                                 lk_tensor  *picture); /* PNG; u8 or f32 0..255, [height, width] or [height, width, 1|3|4] */

/* ---- records of tf.train.Example ---- */

/* What a record holds: a feature of fixed size each. LK_FEATURE("image", LK_U8, LK_SHAPE(28, 28)), LK_FEATURE("weight", .missing =
 * LK_NUMBER(1)). */
typedef struct lk_feature {
    const char *kw_;
    const char *name;    /* required */
    lk_dtype    dtype;   /* default LK_F32; LK_I64; LK_U8: a byte string of the size of the shape, or a picture */
    lk_shape    shape;   /* default: a scalar */
    int         picture; /* 1: bytes are a PNG or JPEG file, decoded to u8 of this shape */
    lk_number   missing; /* default: an error; the value of every element where the feature is not there or empty */
} lk_feature;
#define LK_FEATURE(...) LKI_KW_PART(lk_feature, __VA_ARGS__)
#define LK_FEATURES(...)                                                                                                           \
    (int)LKI_N(lk_feature, {0}, __VA_ARGS__) - 1, (const lk_feature[]) { {0}, __VA_ARGS__ }

/* lk_dataset_parse_example(records, parallel, LK_FEATURES(LK_FEATURE("image", LK_U8, LK_SHAPE(28, 28)), LK_FEATURE("label",
 * LK_I64))): a tensor per feature, in this order. Parallel 0 or 1: parsed on the thread that reads; more: on so many, some records
 * ahead. Errors name the record, counted from 0, and the feature. */
LK_API lk_dataset *lk_dataset_parse_example(lk_dataset *records, int parallel, int count, const lk_feature *one_based);

/* tf.train.Example: read one feature of a serialised record (u8 [bytes]). Missing, empty, or several byte strings: an error. */
LK_API lk_tensor *lk_example_feature(lk_tensor *record, const char *name); /* bytes: u8 [n]; int64: i64 [n]; float: f32 [n] */

/* ---- operations -------------------------------------------------------------------------------------------------------------- */

typedef struct lk_map_args {
    const char *kw_;
    lk_dataset *dataset; /* required */
    lk_fn       fn;      /* required */
    void       *user;
    int         parallel; /* default 0, as 1: on the thread that reads; more: on so many, some elements ahead, order kept */
} lk_map_args;

/* fn of each element. It is traced first: called once on stand-ins without values (lk_data() of one is NULL). If every op works
 * element by element (or reshapes), it is run over many rows at once where they are needed, and what it does besides ops happens
 * while tracing only; if not, it is called for each. */
#define lk_dataset_map(...) lk_dataset_map_kw(LKI_KW(lk_map_args, __VA_ARGS__))
LK_API lk_dataset *lk_dataset_map_kw(lk_map_args args);

typedef int (*lk_filter_fn)(lk_tuple element, void *user); /* 0: leave it out */
LK_API lk_dataset *lk_dataset_filter(lk_dataset *d, lk_filter_fn fn, void *user);

typedef struct lk_cache_args {
    const char *kw_;
    lk_dataset *dataset;
    const char *file; /* default: in memory. Written beside and renamed when the first iteration has ended */
} lk_cache_args;

/* The first whole iteration is kept and served from then on; one that is given up keeps nothing. A file is not told from another
 * pipeline's: delete it when what is before it changes. */
#define lk_dataset_cache(...) lk_dataset_cache_kw(LKI_KW(lk_cache_args, __VA_ARGS__))
LK_API lk_dataset *lk_dataset_cache_kw(lk_cache_args args);

typedef struct lk_shuffle_args {
    const char *kw_;
    lk_dataset *dataset;                  /* required */
    int64_t     buffer_size;              /* required */
    lk_number   seed;                     /* default: the process's random seed */
    lk_switch   reshuffle_each_iteration; /* default LK_ON */
} lk_shuffle_args;
/* A row drawn from a buffer of so many goes out, the next one takes its place. The order is a function of the seed, of which
 * shuffle of the pipeline this is, and of the iteration, and of nothing else. */
#define lk_dataset_shuffle(...) lk_dataset_shuffle_kw(LKI_KW(lk_shuffle_args, __VA_ARGS__))
LK_API lk_dataset *lk_dataset_shuffle_kw(lk_shuffle_args args);

typedef struct lk_batch_args {
    const char *kw_;
    lk_dataset *dataset;        /* required */
    int64_t     size;           /* required */
    lk_switch   drop_remainder; /* default LK_OFF */
    lk_number   padding;        /* padded_batch: default 0 */
} lk_batch_args;
#define lk_dataset_batch(...) lk_dataset_batch_kw(LKI_KW(lk_batch_args, __VA_ARGS__))
#define lk_dataset_padded_batch(...) lk_dataset_padded_batch_kw(LKI_KW(lk_batch_args, __VA_ARGS__))
LK_API lk_dataset *lk_dataset_batch_kw(lk_batch_args args);
LK_API lk_dataset *lk_dataset_padded_batch_kw(lk_batch_args args); /* each element is padded to the largest of its batch */

LK_API lk_dataset *lk_dataset_unbatch(lk_dataset *d);
typedef struct lk_repeat_args {
    const char *kw_;
    lk_dataset *dataset;
    int64_t     times; /* default 0: for ever */
} lk_repeat_args;
#define lk_dataset_repeat(...) lk_dataset_repeat_kw(LKI_KW(lk_repeat_args, __VA_ARGS__))
LK_API lk_dataset *lk_dataset_repeat_kw(lk_repeat_args args);
LK_API lk_dataset *lk_dataset_take(lk_dataset *d, int64_t count);
LK_API lk_dataset *lk_dataset_skip(lk_dataset *d, int64_t count);
LK_API lk_dataset *lk_dataset_shard(lk_dataset *d, int64_t count, int64_t index); /* elements whose number mod count is index */
enum {
    LK_SHARD_HINTED = -1
}; /* as count and index: all elements, until workers that share the data by LK_SHARD_HINT put their numbers here */
LK_API lk_dataset *lk_dataset_concatenate(lk_dataset *a, lk_dataset *b);
LK_API lk_dataset *lk_dataset_enumerate(lk_dataset *d, int64_t start); /* an i64 before each element's tensors */
LK_API lk_dataset *lk_dataset_prefetch(lk_dataset *d, int elements);   /* made ahead on a thread of its own; 0: two */

#define lk_dataset_zip(...) lk_dataset_zip_of((int)LKI_N(lk_dataset *, 0, __VA_ARGS__) - 1, (lk_dataset *const[]){0, __VA_ARGS__})
LK_API lk_dataset *lk_dataset_zip_of(int                count,
                                     lk_dataset *const *one_based); /* the tensors of each, side by side; ends with the shortest */

typedef lk_dataset *(*lk_interleave_fn)(lk_tuple element, void *user);
typedef struct lk_interleave_args {
    const char      *kw_;
    lk_dataset      *dataset; /* required */
    lk_interleave_fn fn;      /* required: a dataset per element */
    void            *user;
    lk_integer       cycle_length; /* default 4: open at the same time */
    lk_integer       block_length; /* default 1: elements taken from each in turn */
} lk_interleave_args;
#define lk_dataset_interleave(...) lk_dataset_interleave_kw(LKI_KW(lk_interleave_args, __VA_ARGS__))
LK_API lk_dataset *lk_dataset_interleave_kw(lk_interleave_args args);

/* state = fn(state, element) for all elements; compiled, so that a whole epoch is one call. */
typedef lk_tuple (*lk_fold_fn)(lk_tuple state, lk_tuple element, void *user);
typedef struct lk_fold_args {
    const char *kw_;
    lk_dataset *dataset; /* required */
    lk_tuple    initial; /* required */
    lk_fold_fn  fn;      /* required */
    void       *user;
} lk_fold_args;
#define lk_dataset_reduce(...) lk_dataset_reduce_kw(LKI_KW(lk_fold_args, __VA_ARGS__))
LK_API lk_tuple lk_dataset_reduce_kw(lk_fold_args args);

enum { LK_INFINITE = -1, LK_UNKNOWN = -2 };
LK_API int64_t lk_dataset_cardinality(const lk_dataset *d); /* elements, LK_INFINITE or LK_UNKNOWN */

/* What an element looks like: tensors of the types and shapes (unknown sizes -1), without values. Where operations do not tell, the
 * first element is made and looked at. Of more than 8 tensors the first 8 are described. */
typedef struct lk_element_spec {
    int      count;
    lk_dtype dtype[8];
    lk_shape shape[8];
} lk_element_spec;
LK_API lk_element_spec lk_dataset_element_spec(lk_dataset *d);

/* ---- iterating --------------------------------------------------------------------------------------------------------------- */

/* Used by one thread at a time. One that failed tells its error again each time, until it is restored. */
LK_API lk_iterator *lk_iterator_of(lk_dataset *d);

/* The next element; 0 at the end or on failure (lk_failed() tells). The call begins a step: tensors made on this thread since the
 * one before go. An error inside run. */
LK_API int lk_next(lk_iterator *it, lk_tuple *element);

/* Where an iterator stands, as bytes. Restored to an iterator of a pipeline of the same operations and parameters, in another
 * process too, it goes on with the same elements, and iterations after it with the same orders. Prefetch and, split by lanes, the
 * number of replicas may differ. Rows of tensors, ranges, generators, drawn digits, image folders and plain files are saved as
 * references, others by value; what a cache kept is collected again.
 * Owner   the caller: lk_free_bytes(). */
LK_API lk_status lk_iterator_save(lk_iterator *it, void **bytes, size_t *size);
LK_API lk_status lk_iterator_restore(lk_iterator *it, const void *bytes, size_t size);
LK_API void      lk_free_bytes(void *bytes);

LK_API lki_block lki_each_enter(lk_dataset *d);
LK_API void      lki_each_leave(lki_block *);
LK_API int       lki_each_next(lki_block *, lk_tuple *element);

/* LK_FOR_EACH(batch, dataset) { ... batch.item[0] ... }: one turn is one step. break and continue mean what they say. */
#define LK_FOR_EACH(name, ds)                                                                                                      \
    LKI_BLOCK(lki_each_##name, lki_each_leave, lki_each_enter(ds)) for (lk_tuple name; lki_each_next(&lki_each_##name, &name);)

/* ---- over the replicas ------------------------------------------------------------------------------------------------------- */

typedef enum lk_split_rule {
    LK_SPLIT_LANES = 0, /* each replica the rows of its lanes: the same bits for any number of replicas */
    LK_SPLIT_FILL,      /* full sub-batches first, batch by batch */
    LK_SPLIT_STREAM,    /* fixed sub-batch sizes over the stream of rows */
    LK_SPLIT_EVEN,      /* equal parts of each batch */
} lk_split_rule;

typedef enum lk_auto_shard { LK_SHARD_AUTO = 0, LK_SHARD_FILE, LK_SHARD_DATA, LK_SHARD_OFF, LK_SHARD_HINT } lk_auto_shard;
typedef enum lk_replication { LK_PER_WORKER = 0, LK_PER_REPLICA_INPUT } lk_replication;

typedef struct lk_input_context {
    int num_input_pipelines, input_pipeline_id, num_replicas_in_sync;
} lk_input_context;
LK_API int lk_per_replica_batch_size(const lk_input_context *c,
                                     int64_t                 global_batch_size); /* -1 and an error when it does not divide */

typedef lk_dataset *(*lk_dataset_fn)(const lk_input_context *context, void *user);

typedef struct lk_distribute_args {
    const char    *kw_;
    lk_strategy   *strategy; /* required */
    lk_dataset    *dataset;  /* distribute_dataset: required */
    lk_split_rule  split;
    lk_auto_shard  auto_shard; /* workers > 1: who reads what. AUTO: by files where there are some, else DATA, and says so */
    lk_replication replication;
    lk_number      prefetch;        /* default 2 elements ahead of the step; 0: none */
    lk_switch      place_on_device; /* default LK_OFF; needs LK_PER_REPLICA_INPUT and no prefetch */
    lk_integer     workers; /* default 1: several machines, as one of them sees it; the strategy's replicas are this one's */
    int            worker;  /* default 0: which of them this is */
} lk_distribute_args;

/* Batches spread over the replicas: elements are per-replica values, plain tensors with one replica. Only iterating, cardinality
 * and element_spec are left to do with it. With the default strategy it is the dataset itself. */
#define lk_distribute_dataset(...) lk_distribute_dataset_kw(LKI_KW(lk_distribute_args, __VA_ARGS__))
#define lk_experimental_distribute_dataset(...) lk_distribute_dataset_kw(LKI_KW(lk_distribute_args, __VA_ARGS__))
LK_API lk_dataset *lk_distribute_dataset_kw(lk_distribute_args args);

typedef struct lk_distribute_fn_args {
    const char    *kw_;
    lk_strategy   *strategy; /* required */
    lk_dataset_fn  fn;       /* required */
    void          *user;
    lk_replication replication;
    lk_number      prefetch;
    lk_switch      place_on_device;
    lk_integer     workers;
    int            worker;
} lk_distribute_fn_args;
#define lk_distribute_datasets_from_function(...)                                                                                  \
    lk_distribute_datasets_from_function_kw(LKI_KW(lk_distribute_fn_args, __VA_ARGS__))
#define lk_experimental_distribute_datasets_from_function(...)                                                                     \
    lk_distribute_datasets_from_function_kw(LKI_KW(lk_distribute_fn_args, __VA_ARGS__))
LK_API lk_dataset *lk_distribute_datasets_from_function_kw(lk_distribute_fn_args args);

/* The first form of run: the dataset's next element, passed to fn. */
LK_API lk_tuple lk_experimental_run(lk_strategy *s, lk_fn fn, lk_iterator *it, void *user);

/* Arrays in memory as a dataset of rows. */
LK_API lk_dataset *lk_make_array_dataset(lk_strategy *s, lk_tuple arrays);
#define lk_experimental_make_numpy_dataset(s, arrays) lk_make_array_dataset(s, arrays)

LK_END

#endif
