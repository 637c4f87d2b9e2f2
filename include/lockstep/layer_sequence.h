/* Layers for sequences: embeddings, recurrent layers, wrappers, attention (layer.h). */
#ifndef LOCKSTEP_LAYER_SEQUENCE_H
#define LOCKSTEP_LAYER_SEQUENCE_H

#include "layer.h"

LK_BEGIN

/* ---- sequences ---- */

typedef struct lk_embedding_args {
    const char     *kw_;
    int64_t         input_dim, output_dim;  /* required: ids are 0 .. input_dim-1 */
    lk_initializer *embeddings_initializer; /* default uniform in -0.05 .. 0.05 */
    lk_regularizer *embeddings_regularizer, *activity_regularizer;
    lk_constraint  *embeddings_constraint;
    lk_switch       mask_zero; /* default LK_OFF; LK_ON: id 0 is padding: later layers, losses and metrics leave those steps out */
    LKI_LAYER_COMMON;
} lk_embedding_args;
#define lk_embedding(...) lk_embedding_kw(LKI_KW(lk_embedding_args, __VA_ARGS__))
LK_API lk_layer *lk_embedding_kw(lk_embedding_args args);

/* Steps in which all features have this value are masked: later layers, losses and metrics leave them out. */
typedef struct lk_masking_args {
    const char *kw_;
    double      mask_value; /* default 0 */
    LKI_LAYER_COMMON;
} lk_masking_args;
#define lk_masking(...) lk_masking_kw(LKI_KW(lk_masking_args, __VA_ARGS__))
LK_API lk_layer *lk_masking_kw(lk_masking_args args);

/* Inputs: the sequences [steps, features]; by name "mask", which else comes with the sequences unless a state is given, and
 * "initial_state": h [units], of an LSTM h and c. With return_state the results are the output and the last state. */
typedef struct lk_recurrent_args {
    const char     *kw_;
    int64_t         units;                      /* required */
    lk_activation   activation;                 /* default LK_TANH */
    lk_activation   recurrent_activation;       /* lstm, gru: default LK_SIGMOID */
    lk_switch       use_bias;                   /* default LK_ON */
    lk_switch       return_sequences;           /* default LK_OFF: return the last step only */
    lk_switch       go_backwards;               /* default LK_OFF */
    lk_switch       unit_forget_bias;           /* lstm: default LK_ON */
    lk_switch       reset_after;                /* gru: default LK_ON */
    double          dropout, recurrent_dropout; /* default 0 */
    lk_number       seed;
    lk_initializer *kernel_initializer, *recurrent_initializer, *bias_initializer; /* default Glorot uniform, orthogonal, zeros */
    lk_regularizer *kernel_regularizer, *recurrent_regularizer, *bias_regularizer, *activity_regularizer;
    lk_constraint  *kernel_constraint, *recurrent_constraint, *bias_constraint;
    lk_switch       return_state;         /* default LK_OFF */
    lk_switch       zero_output_for_mask; /* default LK_OFF: the output of a masked step is that of the step before */
    LKI_LAYER_COMMON;
} lk_recurrent_args;
#define lk_lstm(...) lk_lstm_kw(LKI_KW(lk_recurrent_args, __VA_ARGS__))
#define lk_gru(...) lk_gru_kw(LKI_KW(lk_recurrent_args, __VA_ARGS__))
#define lk_simple_rnn(...) lk_simple_rnn_kw(LKI_KW(lk_recurrent_args, __VA_ARGS__))
LK_API lk_layer *lk_lstm_kw(lk_recurrent_args args);
LK_API lk_layer *lk_gru_kw(lk_recurrent_args args);
LK_API lk_layer *lk_simple_rnn_kw(lk_recurrent_args args);

/* One step of them, for lk_rnn_layer(): rows of [features] to [units]. return_sequences and the other options about steps, and
 * activity_regularizer, are those of lk_rnn_layer(). */
#define lk_lstm_cell(...) lk_lstm_cell_kw(LKI_KW(lk_recurrent_args, __VA_ARGS__))
#define lk_gru_cell(...) lk_gru_cell_kw(LKI_KW(lk_recurrent_args, __VA_ARGS__))
#define lk_simple_rnn_cell(...) lk_simple_rnn_cell_kw(LKI_KW(lk_recurrent_args, __VA_ARGS__))
LK_API lk_layer *lk_lstm_cell_kw(lk_recurrent_args args);
LK_API lk_layer *lk_gru_cell_kw(lk_recurrent_args args);
LK_API lk_layer *lk_simple_rnn_cell_kw(lk_recurrent_args args);

/* Cells one over the other: lk_stacked_rnn_cells(LK_LAYERS(lk_lstm_cell(8), lk_gru_cell(4))). */
typedef struct lk_stacked_rnn_cells_args {
    const char *kw_;
    lk_layers   cells; /* required */
    LKI_LAYER_COMMON;
} lk_stacked_rnn_cells_args;
#define lk_stacked_rnn_cells(...) lk_stacked_rnn_cells_kw(LKI_KW(lk_stacked_rnn_cells_args, __VA_ARGS__))
LK_API lk_layer *lk_stacked_rnn_cells_kw(lk_stacked_rnn_cells_args args);

/* A cell, or stacked ones, step by step. Inputs and results are as those of lk_lstm(); stacked cells have the states of all. */
typedef struct lk_rnn_layer_args {
    const char     *kw_;
    lk_layer       *cell;                                                               /* required */
    lk_switch       return_sequences, return_state, go_backwards, zero_output_for_mask; /* default LK_OFF */
    lk_regularizer *activity_regularizer;
    LKI_LAYER_COMMON;
} lk_rnn_layer_args;
#define lk_rnn_layer(...) lk_rnn_layer_kw(LKI_KW(lk_rnn_layer_args, __VA_ARGS__))
LK_API lk_layer *lk_rnn_layer_kw(lk_rnn_layer_args args);

typedef enum lk_merge_mode { LK_MERGE_CONCAT = 0, LK_MERGE_SUM, LK_MERGE_MUL, LK_MERGE_AVE, LK_MERGE_NONE } lk_merge_mode;

/* Inputs as those of the layer; an initial state is that of the layer, then that of its copy. Results: the merged output, or both
 * with LK_MERGE_NONE, then, if the layer returns its state, the states of both. */
typedef struct lk_bidirectional_args {
    const char   *kw_;
    lk_layer     *layer; /* required: lk_lstm, lk_gru or lk_simple_rnn; a copy of it runs in the other direction */
    lk_merge_mode merge_mode;
    LKI_LAYER_COMMON;
} lk_bidirectional_args;
#define lk_bidirectional(...) lk_bidirectional_kw(LKI_KW(lk_bidirectional_args, __VA_ARGS__))
LK_API lk_layer *lk_bidirectional_kw(lk_bidirectional_args args);

typedef struct lk_time_distributed_args {
    const char *kw_;
    lk_layer   *layer; /* required: applied to each step; its activity_regularizer is ignored, as in Keras */
    LKI_LAYER_COMMON;
} lk_time_distributed_args;
#define lk_time_distributed(...) lk_time_distributed_kw(LKI_KW(lk_time_distributed_args, __VA_ARGS__))
LK_API lk_layer *lk_time_distributed_kw(lk_time_distributed_args args);

/* Inputs: (query, value) or (query, value, key), rows of [steps, width], or of more axes before the width; by name
 * "attention_mask", [query steps, value steps], and "value_mask", "key_mask", which else come with the inputs. With
 * return_attention_scores the results are the output and the weights, [num_heads, query steps, value steps]. */
typedef struct lk_multi_head_attention_layer_args {
    const char *kw_;
    int64_t     num_heads, key_dim; /* required */
    lk_integer  value_dim;          /* default: key_dim */
    double      dropout;            /* default 0 */
    lk_number   seed;
    lk_switch   use_causal_mask; /* default LK_OFF: a step attends to all steps; LK_ON: to itself and earlier ones */
    LKI_KERNEL_AND_BIAS;
    lk_axes    output_shape;            /* default: as wide as the query */
    lk_axes    attention_axes;          /* default: all axes between batch and width */
    lk_integer sliding_window;          /* default none: a step attends to steps less than this far away */
    lk_switch  use_gate;                /* default LK_OFF; LK_ON: a sigmoid of the query multiplies what the heads return */
    lk_switch  return_attention_scores; /* default LK_OFF */
    LKI_LAYER_COMMON;
} lk_multi_head_attention_layer_args;
#define lk_multi_head_attention(...) lk_multi_head_attention_kw(LKI_KW(lk_multi_head_attention_layer_args, __VA_ARGS__))
LK_API lk_layer *lk_multi_head_attention_kw(lk_multi_head_attention_layer_args args);

/* The same, where num_key_value_heads heads of key and value serve num_query_heads heads of the query, num_query_heads /
 * num_key_value_heads each. */
typedef struct lk_group_query_attention_args {
    const char *kw_;
    int64_t     head_dim, num_query_heads, num_key_value_heads; /* required */
    double      dropout;                                        /* default 0 */
    lk_number   seed;
    lk_integer  sliding_window;
    lk_switch   use_gate, use_causal_mask, return_attention_scores; /* default LK_OFF */
    LKI_KERNEL_AND_BIAS;
    LKI_LAYER_COMMON;
} lk_group_query_attention_args;
#define lk_group_query_attention(...) lk_group_query_attention_kw(LKI_KW(lk_group_query_attention_args, __VA_ARGS__))
LK_API lk_layer *lk_group_query_attention_kw(lk_group_query_attention_args args);

/* Attention without projections. Inputs: (query, value) or (query, value, key), rows of [steps, width]. With
 * return_attention_scores the results are the output and the weights, [query steps, value steps]. */
typedef enum lk_score_mode { LK_SCORE_DOT = 0, LK_SCORE_CONCAT } lk_score_mode;
typedef struct lk_attention_layer_args {
    const char   *kw_;
    lk_switch     use_scale;  /* default LK_OFF; additive: LK_ON */
    lk_score_mode score_mode; /* default LK_SCORE_DOT; not additive */
    double        dropout;    /* default 0 */
    lk_number     seed;
    lk_switch     use_causal_mask, return_attention_scores; /* default LK_OFF */
    LKI_LAYER_COMMON;
} lk_attention_layer_args;
#define lk_attention_layer(...) lk_attention_layer_kw(LKI_KW(lk_attention_layer_args, __VA_ARGS__))
#define lk_additive_attention(...) lk_additive_attention_kw(LKI_KW(lk_attention_layer_args, __VA_ARGS__))
LK_API lk_layer *lk_attention_layer_kw(lk_attention_layer_args args);
LK_API lk_layer *lk_additive_attention_kw(lk_attention_layer_args args);

LK_END

#endif
