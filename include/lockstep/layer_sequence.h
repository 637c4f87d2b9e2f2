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
    LKI_LAYER_COMMON;
} lk_embedding_args;
#define lk_embedding(...) lk_embedding_kw(LKI_KW(lk_embedding_args, __VA_ARGS__))
LK_API lk_layer *lk_embedding_kw(lk_embedding_args args);

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
    LKI_LAYER_COMMON;
} lk_recurrent_args;
#define lk_lstm(...) lk_lstm_kw(LKI_KW(lk_recurrent_args, __VA_ARGS__))
#define lk_gru(...) lk_gru_kw(LKI_KW(lk_recurrent_args, __VA_ARGS__))
#define lk_simple_rnn(...) lk_simple_rnn_kw(LKI_KW(lk_recurrent_args, __VA_ARGS__))
LK_API lk_layer *lk_lstm_kw(lk_recurrent_args args);
LK_API lk_layer *lk_gru_kw(lk_recurrent_args args);
LK_API lk_layer *lk_simple_rnn_kw(lk_recurrent_args args);

typedef enum lk_merge_mode { LK_MERGE_CONCAT = 0, LK_MERGE_SUM, LK_MERGE_MUL, LK_MERGE_AVE } lk_merge_mode;
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

/* The inputs are (query, value) or (query, value, key). */
typedef struct lk_multi_head_attention_layer_args {
    const char *kw_;
    int64_t     num_heads, key_dim; /* required */
    lk_integer  value_dim;          /* default: key_dim */
    double      dropout;            /* default 0 */
    lk_number   seed;
    lk_switch   use_causal_mask; /* default LK_OFF: a step attends to all steps; LK_ON: to itself and earlier ones */
    LKI_KERNEL_AND_BIAS;
    LKI_LAYER_COMMON;
} lk_multi_head_attention_layer_args;
#define lk_multi_head_attention(...) lk_multi_head_attention_kw(LKI_KW(lk_multi_head_attention_layer_args, __VA_ARGS__))
LK_API lk_layer *lk_multi_head_attention_kw(lk_multi_head_attention_layer_args args);

LK_END

#endif
