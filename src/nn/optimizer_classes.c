/* Optimisers and schedules by their names in Keras files (optimizer_classes.h): a table of fields for each, keys in the order of
 * get_config(). */
#include "nn/optimizer_classes.h"
#include "core/error.h"
#include "kernel/update.h"
#include <lockstep/tensor.h>

/* ---- optimisers ---- */

#define REAL_OR_NONE(A, member) LKI_FIELD(REAL, A, member, .none = true)
#define COMMON(A, rate_, decay_)                                                                                                   \
    LKI_FIELD(NAME, A, name), LKI_FIELD_AS("learning_rate", OBJECT, A, schedule, .kind = LKI_KIND_SCHEDULE),                       \
        LKI_FIELD(NUMBER, A, learning_rate, .standard = rate_),                                                                    \
        LKI_FIELD(NUMBER, A, weight_decay, .standard = decay_, .none = (decay_) == 0, .null_is_zero = (decay_) != 0,               \
                  .real = true),                                                                                                   \
        REAL_OR_NONE(A, clipnorm), REAL_OR_NONE(A, global_clipnorm), REAL_OR_NONE(A, clipvalue), LKI_FIELD(SWITCH, A, use_ema),    \
        LKI_FIELD(NUMBER, A, ema_momentum, .standard = 0.99), LKI_FIELD(COUNT, A, ema_overwrite_frequency, .none = true),          \
        REAL_OR_NONE(A, loss_scale_factor), LKI_FIELD(INTEGER, A, gradient_accumulation_steps, .none = true)
#define NUMBER(A, member, standard_) LKI_FIELD(NUMBER, A, member, .standard = standard_)
#define BETAS(beta_2_) NUMBER(lk_adam_args, beta_1, 0.9), NUMBER(lk_adam_args, beta_2, beta_2_)
#define EPSILON(A) NUMBER(A, epsilon, 1e-7)

static const lki_field SGD[] = {
    COMMON(lk_sgd_args, 0.01, 0),
    LKI_FIELD(REAL, lk_sgd_args, momentum),
    LKI_FIELD(SWITCH, lk_sgd_args, nesterov),
};
static const lki_field ADAM[] = {
    COMMON(lk_adam_args, 0.001, 0),
    BETAS(0.999),
    EPSILON(lk_adam_args),
    LKI_FIELD(SWITCH, lk_adam_args, amsgrad),
};
static const lki_field ADAMW[] = {
    COMMON(lk_adam_args, 0.001, 0.004),
    BETAS(0.999),
    EPSILON(lk_adam_args),
    LKI_FIELD(SWITCH, lk_adam_args, amsgrad),
};
static const lki_field MOMENTS[] = {COMMON(lk_adam_args, 0.001, 0), BETAS(0.999), EPSILON(lk_adam_args)}; /* adamax, nadam, lamb */
static const lki_field LION[] = {COMMON(lk_adam_args, 0.001, 0), BETAS(0.99)};
static const lki_field RMSPROP[] = {
    COMMON(lk_rmsprop_args, 0.001, 0),
    NUMBER(lk_rmsprop_args, rho, 0.9),
    LKI_FIELD(REAL, lk_rmsprop_args, momentum),
    EPSILON(lk_rmsprop_args),
    LKI_FIELD(SWITCH, lk_rmsprop_args, centered),
};
static const lki_field ADAGRAD[] = {
    COMMON(lk_adagrad_args, 0.001, 0),
    NUMBER(lk_adagrad_args, initial_accumulator_value, 0.1),
    EPSILON(lk_adagrad_args),
};
static const lki_field ADADELTA[] = {
    COMMON(lk_adadelta_args, 0.001, 0),
    NUMBER(lk_adadelta_args, rho, 0.95),
    EPSILON(lk_adadelta_args),
};
static const lki_field FTRL[] = {
    COMMON(lk_ftrl_args, 0.001, 0),
    NUMBER(lk_ftrl_args, learning_rate_power, -0.5),
    NUMBER(lk_ftrl_args, initial_accumulator_value, 0.1),
    LKI_FIELD(REAL, lk_ftrl_args, l1_regularization_strength),
    LKI_FIELD(REAL, lk_ftrl_args, l2_regularization_strength),
    LKI_FIELD(REAL, lk_ftrl_args, l2_shrinkage_regularization_strength),
    LKI_FIELD(REAL, lk_ftrl_args, beta),
};

static const lki_field ADAFACTOR[] = {
    COMMON(lk_adafactor_args, 0.001, 0),          NUMBER(lk_adafactor_args, beta_2_decay, -0.8),
    NUMBER(lk_adafactor_args, epsilon_1, 1e-30),  NUMBER(lk_adafactor_args, epsilon_2, 0.001),
    NUMBER(lk_adafactor_args, clip_threshold, 1), LKI_FIELD(SWITCH, lk_adafactor_args, relative_step, .standard = 1),
};
static const lki_field SCHEDULE_FREE[] = {
    COMMON(lk_schedule_free_adamw_args, 0.0025, 0),
    NUMBER(lk_schedule_free_adamw_args, beta_1, 0.9),
    NUMBER(lk_schedule_free_adamw_args, beta_2, 0.999),
    NUMBER(lk_schedule_free_adamw_args, epsilon, 1e-8),
    LKI_FIELD(INTEGER, lk_schedule_free_adamw_args, warmup_steps),
};
static const lki_field MUON[] = {
    COMMON(lk_muon_args, 0.001, 0.004),
    NUMBER(lk_muon_args, adam_beta_1, 0.9),
    NUMBER(lk_muon_args, adam_beta_2, 0.999),
    EPSILON(lk_muon_args),
    LKI_FIELD(NAME, lk_muon_args, exclude_layers, .listed = true),
    NUMBER(lk_muon_args, muon_a, 3.4445),
    NUMBER(lk_muon_args, muon_b, -4.7750),
    NUMBER(lk_muon_args, muon_c, 2.0315),
    NUMBER(lk_muon_args, adam_lr_ratio, 1),
    NUMBER(lk_muon_args, momentum, 0.95),
    LKI_FIELD(INTEGER, lk_muon_args, ns_steps, .standard = 5),
    LKI_FIELD(SWITCH, lk_muon_args, nesterov, .standard = 1),
    LKI_FIELD(SWITCH, lk_muon_args, exclude_embeddings, .standard = 1),
    LKI_FIELD(NUMBER, lk_muon_args, adam_weight_decay, .standard = 0.004, .null_is_zero = true),
    LKI_FIELD(NUMBER, lk_muon_args, rms_rate, .standard = 0.2, .null_is_zero = true),
};
static const lki_field LOSS_SCALE[] = {
    LKI_FIELD(NAME, lk_loss_scale_optimizer_args, name),
    LKI_FIELD(OBJECT, lk_loss_scale_optimizer_args, inner_optimizer, .kind = LKI_KIND_OPTIMIZER, .required = true),
    NUMBER(lk_loss_scale_optimizer_args, initial_scale, 32768),
    LKI_FIELD(INTEGER, lk_loss_scale_optimizer_args, dynamic_growth_steps, .standard = 2000),
};

#define MAKE(name, A)                                                                                                              \
    static void *make_##name(const void *args) { return lk_##name##_kw(*(const A *)args); }
MAKE(sgd, lk_sgd_args)
MAKE(adam, lk_adam_args)
MAKE(adamw, lk_adam_args)
MAKE(adamax, lk_adam_args)
MAKE(nadam, lk_adam_args)
MAKE(lion, lk_adam_args)
MAKE(lamb, lk_adam_args)
MAKE(rmsprop, lk_rmsprop_args)
MAKE(adagrad, lk_adagrad_args)
MAKE(adadelta, lk_adadelta_args)
MAKE(ftrl, lk_ftrl_args)
MAKE(adafactor, lk_adafactor_args)
MAKE(schedule_free_adamw, lk_schedule_free_adamw_args)
MAKE(muon, lk_muon_args)
MAKE(loss_scale_optimizer, lk_loss_scale_optimizer_args)

#define OPTIMIZER(name, A, FIELDS, make)                                                                                           \
    {                                                                                                                              \
        name, "keras.optimizers", LKI_ARGS(A, FIELDS), make                                                                        \
    }
const lki_class lki_optimizer_classes[LKI_OPTIMIZER_IDS + 1] = {
    [LKI_SGD] = OPTIMIZER("SGD", lk_sgd_args, SGD, make_sgd),
    [LKI_ADAM] = OPTIMIZER("Adam", lk_adam_args, ADAM, make_adam),
    [LKI_ADAMW] = OPTIMIZER("AdamW", lk_adam_args, ADAMW, make_adamw),
    [LKI_ADAMAX] = OPTIMIZER("Adamax", lk_adam_args, MOMENTS, make_adamax),
    [LKI_NADAM] = OPTIMIZER("Nadam", lk_adam_args, MOMENTS, make_nadam),
    [LKI_LION] = OPTIMIZER("Lion", lk_adam_args, LION, make_lion),
    [LKI_LAMB] = OPTIMIZER("Lamb", lk_adam_args, MOMENTS, make_lamb),
    [LKI_RMSPROP] = OPTIMIZER("RMSprop", lk_rmsprop_args, RMSPROP, make_rmsprop),
    [LKI_ADAGRAD] = OPTIMIZER("Adagrad", lk_adagrad_args, ADAGRAD, make_adagrad),
    [LKI_ADADELTA] = OPTIMIZER("Adadelta", lk_adadelta_args, ADADELTA, make_adadelta),
    [LKI_FTRL] = OPTIMIZER("Ftrl", lk_ftrl_args, FTRL, make_ftrl),
    [LKI_ADAFACTOR] = OPTIMIZER("Adafactor", lk_adafactor_args, ADAFACTOR, make_adafactor),
    [LKI_SCHEDULE_FREE_ADAMW] =
        OPTIMIZER("ScheduleFreeAdamW", lk_schedule_free_adamw_args, SCHEDULE_FREE, make_schedule_free_adamw),
    [LKI_MUON] = OPTIMIZER("Muon", lk_muon_args, MUON, make_muon),
    [LKI_LOSS_SCALE] = OPTIMIZER("LossScaleOptimizer", lk_loss_scale_optimizer_args, LOSS_SCALE, make_loss_scale_optimizer),
};

/* ---- schedules ---- */

#define DECAY(kind, member, ...) LKI_FIELD(kind, lk_decay_args, member, __VA_ARGS__)
#define FIRST DECAY(REAL, initial_learning_rate, .required = true)
#define STEPS DECAY(REAL, decay_steps, .required = true)
#define NAMED(text)                                                                                                                \
    {                                                                                                                              \
        .name = "name", .type = LKI_FIELD_FIXED, .literal = "\"" text "\"", .none = true                                           \
    }

static const lki_field EXPONENTIAL[] = {FIRST, STEPS, DECAY(REAL, decay_rate, .required = true),
                                        DECAY(SWITCH, staircase, .standard = 0), NAMED("ExponentialDecay")};
static const lki_field INVERSE_TIME[] = {FIRST, STEPS, DECAY(REAL, decay_rate, .required = true),
                                         DECAY(SWITCH, staircase, .standard = 0), NAMED("InverseTimeDecay")};
static const lki_field POLYNOMIAL[] = {
    FIRST,
    STEPS,
    DECAY(NUMBER, end_learning_rate, .standard = 0.0001),
    DECAY(NUMBER, power, .standard = 1),
    DECAY(SWITCH, cycle, .standard = 0),
    NAMED("PolynomialDecay"),
};
static const lki_field COSINE[] = {
    FIRST,
    STEPS,
    DECAY(REAL, alpha, .standard = 0),
    NAMED("CosineDecay"),
    DECAY(NUMBER, warmup_target, .none = true),
    DECAY(REAL, warmup_steps, .standard = 0),
};
static const lki_field RESTARTS[] = {
    FIRST,
    LKI_FIELD_AS("first_decay_steps", REAL, lk_decay_args, decay_steps, .required = true),
    DECAY(NUMBER, t_mul, .standard = 2),
    DECAY(NUMBER, m_mul, .standard = 1),
    DECAY(REAL, alpha, .standard = 0),
    NAMED("SGDRDecay"),
};
static const lki_field PIECEWISE[] = {
    LKI_FIELD(ARRAY, lki_piecewise_args, boundaries, .required = true, .dtype = LK_F64),
    LKI_FIELD(ARRAY, lki_piecewise_args, values, .required = true, .dtype = LK_F64),
    NAMED("PiecewiseConstant"),
};

MAKE(exponential_decay, lk_decay_args)
MAKE(inverse_time_decay, lk_decay_args)
MAKE(polynomial_decay, lk_decay_args)
MAKE(cosine_decay, lk_decay_args)
MAKE(cosine_decay_restarts, lk_decay_args)

static void *make_piecewise(const void *args)
{
    const lki_piecewise_args *a = args;
    const int64_t             boundaries = a->boundaries ? lk_size(a->boundaries) : 0, values = a->values ? lk_size(a->values) : 0;
    if (boundaries > INT32_MAX || values != boundaries + 1)
        return lki_fail(LK_EINVAL, "piecewise_constant_decay: %lld values for %lld boundaries: must be one more", (long long)values,
                        (long long)boundaries),
               NULL;
    return lk_piecewise_constant_decay((int)boundaries, lk_data(a->boundaries), lk_data(a->values));
}

#define SCHEDULE(name, A, FIELDS, make)                                                                                            \
    {                                                                                                                              \
        name, "keras.optimizers.schedules", LKI_ARGS(A, FIELDS), make                                                              \
    }
const lki_class lki_schedule_classes[] = {
    [LKI_SCHEDULE_EXPONENTIAL] = SCHEDULE("ExponentialDecay", lk_decay_args, EXPONENTIAL, make_exponential_decay),
    [LKI_SCHEDULE_INVERSE_TIME] = SCHEDULE("InverseTimeDecay", lk_decay_args, INVERSE_TIME, make_inverse_time_decay),
    [LKI_SCHEDULE_POLYNOMIAL] = SCHEDULE("PolynomialDecay", lk_decay_args, POLYNOMIAL, make_polynomial_decay),
    [LKI_SCHEDULE_COSINE] = SCHEDULE("CosineDecay", lk_decay_args, COSINE, make_cosine_decay),
    [LKI_SCHEDULE_COSINE_RESTARTS] = SCHEDULE("CosineDecayRestarts", lk_decay_args, RESTARTS, make_cosine_decay_restarts),
    [LKI_SCHEDULE_PIECEWISE] = SCHEDULE("PiecewiseConstantDecay", lki_piecewise_args, PIECEWISE, make_piecewise),
    [LKI_SCHEDULE_COUNT] = {0},
};
