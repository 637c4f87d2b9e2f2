/* Datasets: reading rows, transforming them, and distributing them over replicas.
 *
 *     lk_dataset *train = lk_dataset_batch(lk_dataset_shuffle(lk_fashion_mnist(.split = LK_TRAIN, .scaled = LK_ON), 60000), 128);
 *     LK_FOR_EACH(batch, lk_distribute_dataset(strategy, train))
 *         lk_call(step, batch);
 *
 * A dataset only describes what to read: nothing is read until it is iterated, and every iteration starts from the beginning. An
 * element is a tuple of 1 to 64 tensors. lk_dataset_batch() marks the leading axis of its results as the rows of a global batch of
 * its size. An operation on a dataset returns a new one, which keeps the old one alive and does not change it.
 *
 * Functions passed to map, filter, interleave and from_generator may be called on other threads (with prefetch, .parallel or
 * distributed datasets). If one of them fails, the lk_next() that should return the element fails with its error. */
#ifndef LOCKSTEP_DATASET_H
#define LOCKSTEP_DATASET_H

#include "strategy.h"

LK_BEGIN

typedef struct lk_dataset  lk_dataset;
typedef struct lk_iterator lk_iterator;

/* ---- sources ----------------------------------------------------------------------------------------------------------------- */

LK_API lk_dataset *lk_dataset_from_tensors(lk_tuple element); /* one element */
LK_API lk_dataset *lk_dataset_from_tensor_slices(
    lk_tuple tensors); /* one element per row; all tensors have the same number of rows */

typedef struct lk_range_args {
    const char *kw_;
    int64_t     start;      /* without stop: the end, and the range starts at 0 */
    lk_number   stop, step; /* default: none (see start); 1 */
    lk_dtype    dtype;      /* default LK_F32 */
} lk_range_args;

/* lk_dataset_range(14), lk_dataset_range(14, .dtype = LK_F32), lk_dataset_range(2, .stop = LK_NUMBER(10), .step = LK_NUMBER(3)). */
#define lk_dataset_range(...) lk_dataset_range_kw(LKI_KW(lk_range_args, __VA_ARGS__))
LK_API lk_dataset *lk_dataset_range_kw(lk_range_args args);

/* Called with the index of the element, from 0; returns 0 at the end. The element must depend on the index only. It is called on
 * any thread, but not twice at the same time for one iterator. */
typedef int (*lk_generator_fn)(int64_t index, lk_tuple *element, void *user);
LK_API lk_dataset *lk_dataset_from_generator(lk_generator_fn fn, void *user);

typedef struct lk_files_args {
    const char *kw_;
    lk_names    files;                      /* required */
    lk_switch   gzip;                       /* default: detected from the file's first bytes */
    int64_t     record_bytes;               /* fixed-length records: required */
    int64_t     header_bytes, footer_bytes; /* fixed-length records: default 0 */
} lk_files_args;
#define lk_tfrecord_dataset(...) lk_tfrecord_dataset_kw(LKI_KW(lk_files_args, __VA_ARGS__))
#define lk_text_line_dataset(...) lk_text_line_dataset_kw(LKI_KW(lk_files_args, __VA_ARGS__))
#define lk_fixed_length_record_dataset(...) lk_fixed_length_record_dataset_kw(LKI_KW(lk_files_args, __VA_ARGS__))
LK_API lk_dataset *lk_tfrecord_dataset_kw(lk_files_args args);            /* u8 [bytes] each */
LK_API lk_dataset *lk_text_line_dataset_kw(lk_files_args args);           /* u8 [bytes] each, without the line ending */
LK_API lk_dataset *lk_fixed_length_record_dataset_kw(lk_files_args args); /* u8 [record_bytes] each */

/* Write a TFRecord file of these records, u8 each. It is renamed into place when complete, so no partial file is seen. */
LK_API lk_status lk_tfrecord_write(const char *path, lk_tuple records);

typedef enum lk_split_of { LK_TRAIN = 0, LK_TEST = 1 } lk_split_of;
typedef struct lk_mnist_args {
    const char *kw_;
    lk_split_of split;
    lk_switch   scaled;   /* default LK_OFF: u8 [28, 28, 1]; LK_ON: f32, divided by 255 */
    const char *folder;   /* default: LOCKSTEP_DATA, else the user's cache folder */
    lk_switch   download; /* default LK_ON: files missing in the cache folder are downloaded; nothing is written to .folder */
    lk_switch   verify;   /* default LK_OFF; LK_ON: a file of the cache folder with a wrong SHA-256 is downloaded again */
} lk_mnist_args;

/* Elements are (image, label i64). This call reads the IDX files, such as train-images-idx3-ubyte[.gz], in FOLDER/mnist or
 * FOLDER/fashion-mnist. The user's cache folder is $XDG_CACHE_HOME/lockstep, else ~/.cache/lockstep. Missing files are downloaded
 * from LOCKSTEP_MIRROR, if that is set, and then from public mirrors; never when LOCKSTEP_OFFLINE is set. */
#define lk_mnist(...) lk_mnist_kw(LKI_KW(lk_mnist_args, __VA_ARGS__))
#define lk_fashion_mnist(...) lk_fashion_mnist_kw(LKI_KW(lk_mnist_args, __VA_ARGS__))
LK_API lk_dataset *lk_mnist_kw(lk_mnist_args args);
LK_API lk_dataset *lk_fashion_mnist_kw(lk_mnist_args args);

/* Write to `path` the folder where "mnist" or "fashion-mnist" is looked for ("" when none is known), and check that its files are
 * complete. The check is cheap: it reads only the headers and sizes of the files.
 * Errors  LK_ENOTFOUND for a missing file, LK_EFORMAT for a file whose size differs from its header. */
LK_API lk_status lk_mnist_find(const char *name, char *path, size_t bytes);

typedef struct lk_digits_args {
    const char *kw_;
    lk_split_of split;
    lk_switch   scaled; /* as in lk_mnist() */
    lk_number   seed;   /* default 1: selects the digits; independent of the process's seed */
    lk_integer  rows;   /* default 60,000 for LK_TRAIN, 10,000 for LK_TEST; row i does not depend on it */
} lk_digits_args;

/* Digits drawn as they are needed: strokes of varying width, shifted, bent, slanted and rotated, with noise. Elements are (image,
 * label i64) as with lk_mnist(); no file or network is needed. LK_TRAIN and LK_TEST have different rows; row n of a seed is the
 * same on every machine. A row is drawn only when its pixels are used, and is then kept, so a shuffle over all rows and later
 * epochs cost nothing extra. */
#define lk_digits(...) lk_digits_kw(LKI_KW(lk_digits_args, __VA_ARGS__))
LK_API lk_dataset *lk_digits_kw(lk_digits_args args);

/* ---- fetching files ---- */

typedef struct lk_fetch_args {
    const char *kw_;
    lk_names    urls;       /* required: mirrors of one file, tried in order; http, https, file */
    const char *sha256;     /* default: not checked; 64 hexadecimal digits */
    const char *path;       /* required: the file to write. An existing file with this digest (or any, without sha256) is kept */
    lk_number   timeout;    /* seconds without data before the next mirror is tried; default 30 */
    lk_integer  most_bytes; /* a larger file is refused; default 64 GiB */
} lk_fetch_args;

/* Download a file. It is written to PATH.part, and renamed when its digest is correct; missing folders are created. With .sha256,
 * an interrupted download is resumed. Error messages list every mirror with its reason, and say what to do offline. Nothing is
 * downloaded when LOCKSTEP_OFFLINE is set. Needs libcurl, which is loaded at run time. */
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
    lk_names    columns;     /* default all but the label: the columns to use, in this order; others are not parsed */
    lk_switch   text_labels; /* default LK_OFF: labels are numbers; LK_ON: text, numbered in byte order */
    lk_switch   finite;      /* default LK_OFF: "" and nan are NaN, inf is infinite; LK_ON: these are errors */
} lk_csv_args;

/* Rows of numbers: f32 [columns], and the label, if any: i64 if all labels are integers, else f32. This call reads and checks the
 * files. A field that is not a number, an empty label, and a line with more or fewer fields than the first are errors with file,
 * line, column and text. Quotes are as in RFC 4180; spaces around a field and blank lines are skipped; an empty field is NaN. */
#define lk_csv_dataset(...) lk_csv_dataset_kw(LKI_KW(lk_csv_args, __VA_ARGS__))
LK_API lk_dataset *lk_csv_dataset_kw(lk_csv_args args);

/* Read and write arrays of .npy files, and of .npz files (zip files of .npy files). Written files are renamed into place when
 * complete, so no partial file is seen. */
LK_API lk_tensor *lk_npy_read(const char *path);
LK_API lk_tensor *lk_npz_read(const char *path, const char *name); /* NULL: the only one */
LK_API lk_names   lk_npz_names(const char *path);                  /* count 0 and an error when it cannot be read */
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
    double      validation_split; /* default 0: no split; else the fraction of the pictures, chosen by the seed, that LK_TEST
                                   * gets */
    lk_split_of split;
    lk_number   seed; /* default 1; independent of the process's seed */
} lk_image_folder_args;

/* FOLDER/<class>/<picture>.png|jpg|jpeg: elements are (picture f32 [height, width, channels] 0..255, label i64); classes and
 * pictures are sorted by name, in byte order. This call reads names only. Pictures are decoded when their pixels are used, those of
 * a batch on .parallel threads, so a shuffle over all of them is cheap. A picture that cannot be read is an error that names the
 * file. Other files are skipped, with a line in the log; hidden files are ignored. */
#define lk_image_folder(...) lk_image_folder_kw(LKI_KW(lk_image_folder_args, __VA_ARGS__))
LK_API lk_dataset *lk_image_folder_kw(lk_image_folder_args args);

/* The names of the classes that labels count: of an image folder, or of a CSV file with text labels; also for datasets made from
 * one by operations. Count 0 for other datasets.
 * Owner   the dataset. */
LK_API lk_names lk_class_names(const lk_dataset *d);

/* Read one picture file, PNG or JPEG: u8 [height, width, channels]; channels 0: as many as the file has. */
LK_API lk_tensor *lk_image_read(const char *path, int channels);
LK_API lk_status  lk_image_write(const char *path,
                                 lk_tensor  *picture); /* PNG; u8 or f32 0..255, [height, width] or [height, width, 1|3|4] */

/* ---- records of tf.train.Example ---- */

/* One feature of a record; its size is fixed. LK_FEATURE("image", LK_U8, LK_SHAPE(28, 28)), LK_FEATURE("weight", .missing =
 * LK_NUMBER(1)). */
typedef struct lk_feature {
    const char *kw_;
    const char *name;    /* required */
    lk_dtype    dtype;   /* default LK_F32; or LK_I64, or LK_U8 for a byte string of the shape's size or a picture */
    lk_shape    shape;   /* default: a scalar */
    int         picture; /* 1: bytes are a PNG or JPEG file, decoded to u8 of this shape */
    lk_number   missing; /* value of every element where the feature is absent or empty; default: an error */
} lk_feature;
#define LK_FEATURE(...) LKI_KW_PART(lk_feature, __VA_ARGS__)
#define LK_FEATURES(...)                                                                                                           \
    (int)LKI_N(lk_feature, {0}, __VA_ARGS__) - 1, (const lk_feature[]) { {0}, __VA_ARGS__ }

/* lk_dataset_parse_example(records, parallel, LK_FEATURES(LK_FEATURE("image", LK_U8, LK_SHAPE(28, 28)), LK_FEATURE("label",
 * LK_I64))): one tensor per feature, in this order. With parallel 0 or 1, records are parsed on the thread that iterates; with n >
 * 1, n threads parse some records ahead. Errors name the record, counted from 0, and the feature. */
LK_API lk_dataset *lk_dataset_parse_example(lk_dataset *records, int parallel, int count, const lk_feature *one_based);

/* Read one feature of a serialised tf.train.Example (u8 [bytes]). An absent or empty feature, or several byte strings, is an
 * error. */
LK_API lk_tensor *lk_example_feature(lk_tensor *record, const char *name); /* bytes: u8 [n]; int64: i64 [n]; float: f32 [n] */

/* ---- operations -------------------------------------------------------------------------------------------------------------- */

typedef struct lk_map_args {
    const char *kw_;
    lk_dataset *dataset; /* required */
    lk_fn       fn;      /* required */
    void       *user;
    int         parallel; /* default 0: on the thread that iterates, as 1; n > 1: n threads work some elements ahead; the order is
                           * kept */
} lk_map_args;

/* Apply fn to each element. fn is first traced: it is called once on tensors without values (their lk_data() is NULL). If all its
 * ops are element-wise or reshape, it is then run on many rows at once, and what fn does besides ops happens only during that
 * trace. Otherwise fn is called for each element. */
#define lk_dataset_map(...) lk_dataset_map_kw(LKI_KW(lk_map_args, __VA_ARGS__))
LK_API lk_dataset *lk_dataset_map_kw(lk_map_args args);

typedef int (*lk_filter_fn)(lk_tuple element, void *user); /* 0: drop the element */
LK_API lk_dataset *lk_dataset_filter(lk_dataset *d, lk_filter_fn fn, void *user);

typedef struct lk_cache_args {
    const char *kw_;
    lk_dataset *dataset;
    const char *file; /* default: in memory. Written when the first iteration has ended; no partial file is seen */
} lk_cache_args;

/* Store the elements of the first complete iteration and read them in later ones. An iteration that stops early stores nothing. A
 * cache file does not record which pipeline wrote it: delete it when the datasets before the cache change. */
#define lk_dataset_cache(...) lk_dataset_cache_kw(LKI_KW(lk_cache_args, __VA_ARGS__))
LK_API lk_dataset *lk_dataset_cache_kw(lk_cache_args args);

typedef struct lk_shuffle_args {
    const char *kw_;
    lk_dataset *dataset;                  /* required */
    int64_t     buffer_size;              /* required */
    lk_number   seed;                     /* default: the process's random seed */
    lk_switch   reshuffle_each_iteration; /* default LK_ON */
} lk_shuffle_args;
/* Shuffle with a buffer of buffer_size elements: each result is drawn at random from the buffer, and the next element of `dataset`
 * replaces it. The order depends only on the seed, the shuffle's position in the pipeline, and the number of the iteration. */
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
    int64_t     times; /* default 0: without end */
} lk_repeat_args;
#define lk_dataset_repeat(...) lk_dataset_repeat_kw(LKI_KW(lk_repeat_args, __VA_ARGS__))
LK_API lk_dataset *lk_dataset_repeat_kw(lk_repeat_args args);
LK_API lk_dataset *lk_dataset_take(lk_dataset *d, int64_t count);
LK_API lk_dataset *lk_dataset_skip(lk_dataset *d, int64_t count);
LK_API lk_dataset *lk_dataset_shard(lk_dataset *d, int64_t count, int64_t index); /* elements i with i % count == index */
enum { LK_SHARD_HINTED = -1 }; /* for count and index: all elements, unless LK_SHARD_HINT inserts the numbers of the workers */
LK_API lk_dataset *lk_dataset_concatenate(lk_dataset *a, lk_dataset *b);
LK_API lk_dataset *lk_dataset_enumerate(lk_dataset *d, int64_t start); /* puts an i64 counter before each element's tensors */
LK_API lk_dataset *lk_dataset_prefetch(lk_dataset *d, int elements);   /* makes this many elements ahead on its own thread; 0:
                                                                        * two */

#define lk_dataset_zip(...) lk_dataset_zip_of((int)LKI_N(lk_dataset *, 0, __VA_ARGS__) - 1, (lk_dataset *const[]){0, __VA_ARGS__})
LK_API lk_dataset *lk_dataset_zip_of(int                count,
                                     lk_dataset *const *one_based); /* tuples of the tensors of all; ends with the shortest */

typedef lk_dataset *(*lk_interleave_fn)(lk_tuple element, void *user);
typedef struct lk_interleave_args {
    const char      *kw_;
    lk_dataset      *dataset; /* required */
    lk_interleave_fn fn;      /* required: returns the dataset for an element */
    void            *user;
    lk_integer       cycle_length; /* default 4: datasets open at the same time */
    lk_integer       block_length; /* default 1: elements from each in turn */
} lk_interleave_args;
#define lk_dataset_interleave(...) lk_dataset_interleave_kw(LKI_KW(lk_interleave_args, __VA_ARGS__))
LK_API lk_dataset *lk_dataset_interleave_kw(lk_interleave_args args);

/* The datasets of all elements, one after the other. */
LK_API lk_dataset *lk_dataset_flat_map(lk_dataset *d, lk_interleave_fn fn, void *user);

typedef struct lk_window_args {
    const char *kw_;
    lk_dataset *dataset;        /* required */
    int64_t     size;           /* required: elements of a window */
    lk_integer  shift;          /* default size: how far the next window begins after this one */
    lk_integer  stride;         /* default 1: which elements of the input belong to a window */
    lk_switch   drop_remainder; /* default LK_OFF: the last windows may have fewer elements */
} lk_window_args;
/* Windows over the elements: each is one element, whose tensors are stacked, as window() and then batch() of each window in
 * TensorFlow. Their leading axis is not that of a batch. */
#define lk_dataset_window(...) lk_dataset_window_kw(LKI_KW(lk_window_args, __VA_ARGS__))
LK_API lk_dataset *lk_dataset_window_kw(lk_window_args args);

LK_API lk_dataset *lk_dataset_take_while(lk_dataset *d, lk_filter_fn fn, void *user);         /* ends before the first 0 */
LK_API lk_dataset *lk_dataset_unique(lk_dataset *d);                                          /* the first of equal elements */
LK_API lk_dataset *lk_dataset_rebatch(lk_dataset *d, int64_t size, lk_switch drop_remainder); /* batches of another size */

/* A choice between datasets. LK_DATASETS(a, b, c) is a list of them. */
#define LK_DATASETS(...)                                                                                                           \
    (int)LKI_N(lk_dataset *, 0, __VA_ARGS__) - 1, (lk_dataset *const[]) { 0, __VA_ARGS__ }

/* lk_dataset_choose_from(choices, LK_ON, LK_DATASETS(a, b)): the next element of the dataset whose number, from 0, the next element
 * of `choices`, an integer, has. With stop_on_empty it ends when that dataset has ended; else the choice is skipped. */
LK_API lk_dataset *lk_dataset_choose_from(lk_dataset *choices, lk_switch stop_on_empty, int count, lk_dataset *const *one_based);

typedef struct lk_sample_args {
    const char        *kw_;
    int                count;                      /* required */
    lk_dataset *const *datasets;                   /* required: datasets[0] to [count - 1] */
    const double      *weights;                    /* default: equal */
    lk_number          seed;                       /* default: the process's random seed */
    lk_switch          stop_on_empty_dataset;      /* default LK_OFF: it ends when all have ended */
    lk_switch          rerandomize_each_iteration; /* default LK_OFF: the same choices in each iteration */
} lk_sample_args;
/* Each element from a dataset that is chosen at random. Choices depend only on the seed, the place in the pipeline and, with
 * rerandomize_each_iteration, the iteration. They are not those of TensorFlow. */
#define lk_dataset_sample_from(...) lk_dataset_sample_from_kw(LKI_KW(lk_sample_args, __VA_ARGS__))
LK_API lk_dataset *lk_dataset_sample_from_kw(lk_sample_args args);

typedef struct lk_random_dataset_args {
    const char *kw_;
    lk_number   seed;                       /* default: the process's random seed */
    lk_switch   rerandomize_each_iteration; /* default LK_OFF */
} lk_random_dataset_args;
#define lk_dataset_random(...) lk_dataset_random_kw(LKI_KW(lk_random_dataset_args, __VA_ARGS__))
LK_API lk_dataset *lk_dataset_random_kw(lk_random_dataset_args args); /* i64 from 0 to 2^32 - 1, without end */

typedef int64_t (*lk_key_fn)(lk_tuple element, void *user);
typedef lk_dataset *(*lk_window_fn)(int64_t key, lk_dataset *window, void *user);
typedef int64_t (*lk_window_size_fn)(int64_t key, void *user);
typedef struct lk_group_args {
    const char       *kw_;
    lk_dataset       *dataset;        /* required */
    lk_key_fn         key;            /* required: the group of an element */
    lk_window_fn      reduce;         /* required: the dataset for a full window of a group, for example batches of it */
    int64_t           window_size;    /* elements of a window; or */
    lk_window_size_fn window_size_fn; /* a size for each key */
    void             *user;
} lk_group_args;
/* Collect elements by key, and return the elements of reduce(window) as soon as a window is full; at the end of the input the
 * windows that are not full, in the order of keys. */
#define lk_dataset_group_by_window(...) lk_dataset_group_by_window_kw(LKI_KW(lk_group_args, __VA_ARGS__))
LK_API lk_dataset *lk_dataset_group_by_window_kw(lk_group_args args);

typedef struct lk_bucket_args {
    const char    *kw_;
    lk_dataset    *dataset;        /* required */
    lk_key_fn      length;         /* required: of an element */
    int            count;          /* of boundaries */
    const int64_t *boundaries;     /* required, ascending: bucket 0 has lengths below boundaries[0] */
    const int64_t *sizes;          /* required: count + 1 batch sizes */
    lk_number      padding;        /* default 0 */
    lk_switch      no_padding;     /* default LK_OFF; LK_ON: elements of a bucket must have one shape */
    lk_switch      drop_remainder; /* default LK_OFF */
    void          *user;
} lk_bucket_args;
/* Batches of elements of similar length, each padded to the longest of its batch. */
#define lk_dataset_bucket_by_sequence_length(...) lk_dataset_bucket_by_sequence_length_kw(LKI_KW(lk_bucket_args, __VA_ARGS__))
LK_API lk_dataset *lk_dataset_bucket_by_sequence_length_kw(lk_bucket_args args);

typedef struct lk_resample_args {
    const char   *kw_;
    lk_dataset   *dataset;  /* required */
    lk_key_fn     class_fn; /* required: 0 to classes - 1 */
    int           classes;  /* required */
    const double *target;   /* required: the share of each class that is wanted */
    const double *initial;  /* default: estimated from the elements so far */
    lk_number     seed;     /* default: the process's random seed */
    void         *user;
} lk_resample_args;
/* Drop elements at random so that classes have the wanted shares. Each element has its class, i64, before its tensors. */
#define lk_dataset_rejection_resample(...) lk_dataset_rejection_resample_kw(LKI_KW(lk_resample_args, __VA_ARGS__))
LK_API lk_dataset *lk_dataset_rejection_resample_kw(lk_resample_args args);

/* fn(state, element) returns a tuple: the new state, which has the types and shapes of `initial`, then the tensors of an
 * element. */
typedef lk_tuple (*lk_scan_fn)(lk_tuple state, lk_tuple element, void *user);
LK_API lk_dataset *lk_dataset_scan(lk_dataset *d, lk_tuple initial, lk_scan_fn fn, void *user);

typedef struct lk_list_files_args {
    const char *kw_;
    lk_names    patterns; /* required: LK_FILES("data/part-*.tfrecord"); as the shell expands them */
    lk_switch   shuffle;  /* default LK_ON; LK_OFF: in byte order */
    lk_number   seed;     /* default: the process's random seed */
} lk_list_files_args;
/* The names of the files that match, u8 [bytes] each. This call looks for them; it is an error if there are none. */
#define lk_dataset_list_files(...) lk_dataset_list_files_kw(LKI_KW(lk_list_files_args, __VA_ARGS__))
LK_API lk_dataset *lk_dataset_list_files_kw(lk_list_files_args args);

/* Write all elements to a file, which gets its name when it is complete; and the elements of such a file. The format is that of
 * lk_dataset_cache(), not TensorFlow's. */
LK_API lk_status   lk_dataset_save(lk_dataset *d, const char *path);
LK_API lk_dataset *lk_dataset_load(const char *path);

/* The only element. An error if there is none, or more than one. */
LK_API lk_tuple lk_dataset_get_single_element(lk_dataset *d);

/* state = fn(state, element) for all elements. fn is compiled, and a whole epoch is one call. */
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

/* The types and shapes of an element's tensors; unknown sizes are -1. Where the operations do not determine them, the first element
 * is computed. Only the first 8 tensors are described. */
typedef struct lk_element_spec {
    int      count;
    lk_dtype dtype[8];
    lk_shape shape[8];
} lk_element_spec;
LK_API lk_element_spec lk_dataset_element_spec(lk_dataset *d);

/* ---- iterating --------------------------------------------------------------------------------------------------------------- */

/* An iterator is used by one thread at a time. After a failure, every lk_next() reports the same error until the iterator is
 * restored. */
LK_API lk_iterator *lk_iterator_of(lk_dataset *d);

/* Get the next element. Returns 0 at the end, and on failure; lk_failed() tells which. The call begins a step: tensors made on this
 * thread since the previous call are freed. Calling it inside lk_run() is an error. */
LK_API int lk_next(lk_iterator *it, lk_tuple *element);

/* Save the position of an iterator as bytes. An iterator of a pipeline with the same operations and parameters, also in another
 * process, can restore them. It then returns the same remaining elements, and later iterations have the same orders. Prefetch may
 * differ, and with LK_SPLIT_LANES the number of replicas too. Buffered elements from tensors, ranges, generators, drawn digits,
 * image folders and plain files are saved as references, others by value. The contents of a cache are not saved; they are collected
 * again.
 * Owner   the caller, who frees the bytes by lk_free_bytes(). */
LK_API lk_status lk_iterator_save(lk_iterator *it, void **bytes, size_t *size);
LK_API lk_status lk_iterator_restore(lk_iterator *it, const void *bytes, size_t size);
LK_API void      lk_free_bytes(void *bytes);

LK_API lki_block lki_each_enter(lk_dataset *d);
LK_API void      lki_each_leave(lki_block *);
LK_API int       lki_each_next(lki_block *, lk_tuple *element);

/* LK_FOR_EACH(batch, dataset) { ... batch.item[0] ... }: each pass through the body is one step. break and continue work as in a
 * loop. */
#define LK_FOR_EACH(name, ds)                                                                                                      \
    LKI_BLOCK(lki_each_##name, lki_each_leave, lki_each_enter(ds)) for (lk_tuple name; lki_each_next(&lki_each_##name, &name);)

/* ---- over the replicas ------------------------------------------------------------------------------------------------------- */

typedef enum lk_split_rule {
    LK_SPLIT_LANES = 0, /* each replica gets the rows of its lanes: the same bits for any number of replicas */
    LK_SPLIT_FILL,      /* sub-batches are filled one after the other, within each batch */
    LK_SPLIT_STREAM,    /* sub-batches of fixed size, taken from all rows in sequence */
    LK_SPLIT_EVEN,      /* each batch is split into equal parts */
} lk_split_rule;

typedef enum lk_auto_shard { LK_SHARD_AUTO = 0, LK_SHARD_FILE, LK_SHARD_DATA, LK_SHARD_OFF, LK_SHARD_HINT } lk_auto_shard;
typedef enum lk_replication { LK_PER_WORKER = 0, LK_PER_REPLICA_INPUT } lk_replication;

typedef struct lk_input_context {
    int num_input_pipelines, input_pipeline_id, num_replicas_in_sync;
} lk_input_context;
LK_API int lk_per_replica_batch_size(const lk_input_context *c,
                                     int64_t                 global_batch_size); /* -1 and an error when the replicas do not divide
                                                                                  * it */

typedef lk_dataset *(*lk_dataset_fn)(const lk_input_context *context, void *user);

typedef struct lk_distribute_args {
    const char    *kw_;
    lk_strategy   *strategy; /* required */
    lk_dataset    *dataset;  /* distribute_dataset: required */
    lk_split_rule  split;
    lk_auto_shard  auto_shard; /* workers > 1: how they share the data. AUTO: by files if there are any, else DATA, with a log
                                * line */
    lk_replication replication;
    lk_number      prefetch;        /* default 2 elements ahead of the step; 0: none */
    lk_switch      place_on_device; /* default LK_OFF; needs LK_PER_REPLICA_INPUT and no prefetch */
    lk_integer     workers;         /* default 1; n > 1: n machines share the data; the strategy has this machine's replicas */
    int            worker;          /* default 0: the number of this machine */
} lk_distribute_args;

/* Split batches over the replicas: elements are per-replica values, or plain tensors with one replica. The result can only be
 * iterated and asked for its cardinality and element_spec. With the default strategy the result is the dataset itself. */
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

/* Call fn once per replica with the iterator's next element. */
LK_API lk_tuple lk_experimental_run(lk_strategy *s, lk_fn fn, lk_iterator *it, void *user);

/* Arrays in memory as a dataset of rows. */
LK_API lk_dataset *lk_make_array_dataset(lk_strategy *s, lk_tuple arrays);
#define lk_experimental_make_numpy_dataset(s, arrays) lk_make_array_dataset(s, arrays)

LK_END

#endif
