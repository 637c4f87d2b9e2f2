/* Every class that a Keras file can name: read from a config, written, read again and written again without loss. A class with
 * options must have a sample here that sets them. */
#include "keras/config.h"
#include "check.h"
#include <lockstep/fit.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define OBJECT(module, name, config) "{\"module\": \"keras." module "\", \"class_name\": \"" name "\", \"config\": {" config "}}"
#define HE "\"he_normal\""
#define L2 OBJECT("regularizers", "L2", "\"l2\": 0.01")
#define NON_NEG "\"non_neg\""

#define VALUES "\"value_range\": [-1, 1], \"data_format\": \"channels_first\", \"seed\": 7"
#define COLORS(factor) "\"factor\": [" factor "], " VALUES
#define COMMON "\"name\": \"mine\", \"trainable\": false, "
#define FOR(what) "\"" what "_initializer\": " HE ", \"" what "_regularizer\": " L2 ", \"" what "_constraint\": " NON_NEG
#define WITH_BIAS "\"use_bias\": true, " FOR("bias") ", \"activity_regularizer\": " L2 ", "
#define WINDOW                                                                                                                     \
    "\"kernel_size\": [3, 2], \"strides\": [2, 1], \"padding\": \"same\", \"dilation_rate\": [1, 1], \"activation\": \"tanh\", "
#define POOL2 COMMON "\"pool_size\": [3, 2], \"strides\": [1, 2], \"padding\": \"same\", \"data_format\": \"channels_last\""
#define POOL3 COMMON "\"pool_size\": [3, 2, 1], \"strides\": [1, 2, 3], \"padding\": \"same\", \"data_format\": \"channels_first\""
#define POOL1 COMMON "\"pool_size\": [3], \"strides\": [1], \"padding\": \"same\", \"data_format\": \"channels_last\""
#define NORM "\"epsilon\": 0.125, \"center\": true, \"scale\": true, " FOR("gamma") ", " FOR("beta")
#define RECURRENT                                                                                                                  \
    COMMON "\"units\": 3, \"return_sequences\": true, \"return_state\": true, \"go_backwards\": true, \"activation\": \"relu\", "  \
           "\"dropout\": 0.25, \"recurrent_dropout\": 0.5, \"seed\": 7, " FOR("kernel") ", " FOR("recurrent") ", " WITH_BIAS
#define OPTIMIZER                                                                                                                  \
    "\"name\": \"mine\", \"learning_rate\": 0.5, \"weight_decay\": 0.25, \"clipnorm\": 2.0, \"global_clipnorm\": null, "           \
    "\"clipvalue\": null, \"use_ema\": true, \"ema_momentum\": 0.75, \"ema_overwrite_frequency\": 3, \"loss_scale_factor\": "      \
    "null, "                                                                                                                       \
    "\"gradient_accumulation_steps\": 2"
#define DECAY "\"initial_learning_rate\": 0.5, \"decay_steps\": 10, "

static const struct {
    lki_kind    kind;
    const char *name, *config;
} SAMPLES[] = {
    {LKI_KIND_LAYER, "Dense", COMMON "\"units\": 3, \"activation\": \"relu\", " WITH_BIAS FOR("kernel")},
    {LKI_KIND_LAYER, "Conv1D",
     COMMON WITH_BIAS
     "\"filters\": 4, \"kernel_size\": [3], \"strides\": [2], \"padding\": \"causal\", \"groups\": 1, " FOR("kernel")},
    {LKI_KIND_LAYER, "Conv2D", COMMON WINDOW WITH_BIAS "\"filters\": 4, \"groups\": 1, " FOR("kernel")},
    {LKI_KIND_LAYER, "Conv3D",
     COMMON WITH_BIAS "\"filters\": 4, \"kernel_size\": [3, 2, 1], \"strides\": [1, 2, 3], \"padding\": \"same\", "
                      "\"data_format\": \"channels_first\", \"groups\": 2, " FOR("kernel")},
    {LKI_KIND_LAYER, "Conv1DTranspose",
     COMMON WITH_BIAS "\"filters\": 4, \"kernel_size\": [3], \"strides\": [2], \"output_padding\": [1], " FOR("kernel")},
    {LKI_KIND_LAYER, "Conv3DTranspose",
     COMMON WITH_BIAS "\"filters\": 4, \"kernel_size\": [3, 2, 1], \"strides\": [1, 2, 3], \"output_padding\": [0, 1, 2], "
                      "\"data_format\": \"channels_first\", " FOR("kernel")},
    {LKI_KIND_LAYER, "Conv2DTranspose", COMMON WINDOW WITH_BIAS "\"filters\": 4, \"output_padding\": null, " FOR("kernel")},
    {LKI_KIND_LAYER, "DepthwiseConv1D",
     COMMON WITH_BIAS "\"kernel_size\": [3], \"strides\": [2], \"depth_multiplier\": 2, \"padding\": \"same\", " FOR("depthwise")},
    {LKI_KIND_LAYER, "DepthwiseConv2D",
     COMMON WITH_BIAS
     "\"kernel_size\": [3, 3], \"strides\": [2, 2], \"depth_multiplier\": 2, \"padding\": \"same\", " FOR("depthwise")},
    {LKI_KIND_LAYER, "SeparableConv1D",
     COMMON WITH_BIAS "\"filters\": 4, \"kernel_size\": [3], \"strides\": [2], \"depth_multiplier\": 2, "
                      "\"data_format\": \"channels_first\", " FOR("depthwise") ", " FOR("pointwise")},
    {LKI_KIND_LAYER, "SeparableConv2D",
     COMMON WITH_BIAS "\"filters\": 4, \"kernel_size\": [3, 3], \"strides\": [2, 2], \"depth_multiplier\": 2, "
                      "\"padding\": \"same\", " FOR("depthwise") ", " FOR("pointwise")},
    {LKI_KIND_LAYER, "MaxPooling1D", POOL1},
    {LKI_KIND_LAYER, "MaxPooling2D", POOL2},
    {LKI_KIND_LAYER, "MaxPooling3D", POOL3},
    {LKI_KIND_LAYER, "AveragePooling1D", POOL1},
    {LKI_KIND_LAYER, "AveragePooling2D", POOL2},
    {LKI_KIND_LAYER, "AveragePooling3D", POOL3},
    {LKI_KIND_LAYER, "GlobalMaxPooling1D", COMMON "\"keepdims\": true"},
    {LKI_KIND_LAYER, "GlobalMaxPooling2D", COMMON "\"keepdims\": true"},
    {LKI_KIND_LAYER, "GlobalMaxPooling3D", COMMON "\"keepdims\": true, \"data_format\": \"channels_first\""},
    {LKI_KIND_LAYER, "GlobalAveragePooling1D", COMMON "\"keepdims\": true"},
    {LKI_KIND_LAYER, "GlobalAveragePooling2D", COMMON "\"keepdims\": true"},
    {LKI_KIND_LAYER, "GlobalAveragePooling3D", COMMON "\"keepdims\": true"},
    {LKI_KIND_LAYER, "AdaptiveMaxPooling1D", COMMON "\"output_size\": [3]"},
    {LKI_KIND_LAYER, "AdaptiveMaxPooling2D", COMMON "\"output_size\": [3, 2]"},
    {LKI_KIND_LAYER, "AdaptiveMaxPooling3D", COMMON "\"output_size\": [3, 2, 1], \"data_format\": \"channels_first\""},
    {LKI_KIND_LAYER, "AdaptiveAveragePooling1D", COMMON "\"output_size\": [3]"},
    {LKI_KIND_LAYER, "AdaptiveAveragePooling2D", COMMON "\"output_size\": [3, 2]"},
    {LKI_KIND_LAYER, "AdaptiveAveragePooling3D", COMMON "\"output_size\": [3, 2, 1]"},
    {LKI_KIND_LAYER, "BatchNormalization",
     COMMON NORM ", \"momentum\": 0.5, \"axis\": -1, \"synchronized\": true, \"renorm\": false, \"renorm_momentum\": 0.99, "
                 "\"moving_mean_initializer\": " HE ", \"moving_variance_initializer\": " HE},
    {LKI_KIND_LAYER, "LayerNormalization", COMMON NORM ", \"axis\": [-2, -1], \"rms_scaling\": true"},
    {LKI_KIND_LAYER, "GroupNormalization", COMMON NORM ", \"groups\": 4, \"axis\": -1"},
    {LKI_KIND_LAYER, "RMSNormalization", COMMON "\"axis\": [1, 2], \"epsilon\": 0.5"},
    {LKI_KIND_LAYER, "UnitNormalization", COMMON "\"axis\": [1, 2]"},
    {LKI_KIND_LAYER, "SpectralNormalization",
     COMMON "\"power_iterations\": 2, \"layer\": " OBJECT("layers", "Dense", "\"units\": 3")},
    {LKI_KIND_LAYER, "LayerScale", COMMON "\"init_values\": 0.5, \"projection_dim\": 3"},
    {LKI_KIND_LAYER, "CustomScaleLayer", COMMON "\"scale\": 0.5"},
    {LKI_KIND_LAYER, "EinsumDense",
     COMMON "\"equation\": \"abc,cd->abd\", \"output_shape\": [null, 3], \"activation\": \"relu\", \"bias_axes\": \"d\", "
            "\"activity_regularizer\": " L2 ", " FOR("bias") ", " FOR("kernel")},
    {LKI_KIND_LAYER, "Normalization", COMMON "\"axis\": [-1], \"invert\": true, \"mean\": [1.0, 2.0], \"variance\": [3.0, 4.0]"},
    {LKI_KIND_LAYER, "Dropout", COMMON "\"rate\": 0.25, \"seed\": 7, \"noise_shape\": [null, 1, 1]"},
    {LKI_KIND_LAYER, "AlphaDropout", COMMON "\"rate\": 0.25, \"seed\": 7, \"noise_shape\": [1, 3]"},
    {LKI_KIND_LAYER, "GaussianDropout", COMMON "\"rate\": 0.25, \"seed\": 7"},
    {LKI_KIND_LAYER, "GaussianNoise", COMMON "\"stddev\": 0.25, \"seed\": 7"},
    {LKI_KIND_LAYER, "ActivityRegularization", COMMON "\"l1\": 0.25, \"l2\": 0.5"},
    {LKI_KIND_LAYER, "SpatialDropout1D", "\"name\": \"mine\", \"rate\": 0.25, \"seed\": 7, \"dtype\": \"float32\""},
    {LKI_KIND_LAYER, "SpatialDropout3D", "\"name\": \"mine\", \"rate\": 0.25, \"seed\": 7, \"dtype\": \"float32\""},
    {LKI_KIND_LAYER, "Identity", COMMON "\"dtype\": \"float32\""},
    {LKI_KIND_LAYER, "RepeatVector", COMMON "\"n\": 3"},
    {LKI_KIND_LAYER, "ELU", COMMON "\"alpha\": 0.5"},
    {LKI_KIND_LAYER, "PReLU", COMMON "\"shared_axes\": [1, 2], " FOR("alpha")},
    {LKI_KIND_LAYER, "SpatialDropout2D", "\"name\": \"mine\", \"rate\": 0.25, \"seed\": 7, \"dtype\": \"float32\""},
    {LKI_KIND_LAYER, "Flatten", COMMON "\"data_format\": \"channels_last\""},
    {LKI_KIND_LAYER, "Reshape", COMMON "\"target_shape\": [2, -1]"},
    {LKI_KIND_LAYER, "Permute", COMMON "\"dims\": [3, 1, 2]"},
    {LKI_KIND_LAYER, "ZeroPadding1D", COMMON "\"padding\": [1, 2]"},
    {LKI_KIND_LAYER, "ZeroPadding3D", COMMON "\"padding\": [[1, 2], [3, 4], [5, 6]]"},
    {LKI_KIND_LAYER, "Cropping1D", COMMON "\"cropping\": [1, 2]"},
    {LKI_KIND_LAYER, "Cropping3D", COMMON "\"cropping\": [[1, 2], [3, 4], [5, 6]]"},
    {LKI_KIND_LAYER, "UpSampling1D", COMMON "\"size\": 3"},
    {LKI_KIND_LAYER, "UpSampling3D", COMMON "\"size\": [3, 2, 1], \"data_format\": \"channels_first\""},
    {LKI_KIND_LAYER, "ZeroPadding2D", COMMON "\"padding\": [[1, 2], [3, 4]]"},
    {LKI_KIND_LAYER, "Cropping2D", COMMON "\"cropping\": [[1, 2], [3, 4]]"},
    {LKI_KIND_LAYER, "UpSampling2D", COMMON "\"size\": [3, 2], \"interpolation\": \"bilinear\""},
    {LKI_KIND_LAYER, "Activation", COMMON "\"activation\": \"softmax\""},
    {LKI_KIND_LAYER, "ReLU", COMMON "\"max_value\": 6, \"negative_slope\": 0.25, \"threshold\": 0.5"},
    {LKI_KIND_LAYER, "LeakyReLU", COMMON "\"negative_slope\": 0.25"},
    {LKI_KIND_LAYER, "Softmax", COMMON "\"axis\": [1, 2]"},
    {LKI_KIND_LAYER, "Add", COMMON "\"dtype\": \"float32\""},
    {LKI_KIND_LAYER, "Subtract", COMMON "\"dtype\": \"float32\""},
    {LKI_KIND_LAYER, "Multiply", COMMON "\"dtype\": \"float32\""},
    {LKI_KIND_LAYER, "Average", COMMON "\"dtype\": \"float32\""},
    {LKI_KIND_LAYER, "Maximum", COMMON "\"dtype\": \"float32\""},
    {LKI_KIND_LAYER, "Minimum", COMMON "\"dtype\": \"float32\""},
    {LKI_KIND_LAYER, "Concatenate", COMMON "\"axis\": 1"},
    {LKI_KIND_LAYER, "Dot", COMMON "\"axes\": [1, 2], \"normalize\": true"},
    {LKI_KIND_LAYER, "Embedding",
     COMMON "\"input_dim\": 5, \"output_dim\": 3, \"mask_zero\": true, \"activity_regularizer\": " L2 ", " FOR("embeddings")},
    {LKI_KIND_LAYER, "Masking", COMMON "\"mask_value\": -1.0"},
    {LKI_KIND_LAYER, "LSTM", RECURRENT "\"recurrent_activation\": \"hard_sigmoid\", \"unit_forget_bias\": false"},
    {LKI_KIND_LAYER, "GRU", RECURRENT "\"recurrent_activation\": \"hard_sigmoid\", \"reset_after\": false"},
    {LKI_KIND_LAYER, "SimpleRNN", RECURRENT "\"stateful\": false"},
    {LKI_KIND_LAYER, "LSTMCell", COMMON "\"units\": 3, \"activation\": \"relu\", \"dropout\": 0.25, \"unit_forget_bias\": false"},
    {LKI_KIND_LAYER, "GRUCell", COMMON "\"units\": 3, \"recurrent_dropout\": 0.25, \"reset_after\": false, " FOR("recurrent")},
    {LKI_KIND_LAYER, "SimpleRNNCell", COMMON "\"use_bias\": false, \"units\": 3, \"seed\": 7"},
    {LKI_KIND_LAYER, "StackedRNNCells",
     COMMON "\"cells\": [" OBJECT("layers", "GRUCell", "\"units\": 3") ", " OBJECT("layers", "LSTMCell", "\"units\": 2") "]"},
    {LKI_KIND_LAYER, "RNN",
     COMMON "\"return_sequences\": true, \"return_state\": true, \"go_backwards\": true, \"zero_output_for_mask\": true, "
            "\"cell\": " OBJECT("layers", "SimpleRNNCell", "\"units\": 3")},
    {LKI_KIND_LAYER, "Bidirectional", COMMON "\"merge_mode\": \"ave\", \"layer\": " OBJECT("layers", "GRU", "\"units\": 3")},
    {LKI_KIND_LAYER, "TimeDistributed", COMMON "\"layer\": " OBJECT("layers", "Dense", "\"units\": 3")},
    {LKI_KIND_LAYER, "MultiHeadAttention",
     COMMON WITH_BIAS "\"num_heads\": 2, \"key_dim\": 3, \"value_dim\": 4, \"dropout\": 0.25, \"seed\": 7, \"use_gate\": true, "
                      "\"output_shape\": [5, 2], \"attention_axes\": [1], "
                      "\"sliding_window\": 3, " FOR("kernel")},
    {LKI_KIND_LAYER, "GroupQueryAttention",
     COMMON WITH_BIAS "\"head_dim\": 3, \"num_query_heads\": 4, \"num_key_value_heads\": 2, \"dropout\": 0.25, \"seed\": 7, "
                      "\"use_gate\": true, \"sliding_window\": 3, " FOR("kernel")},
    {LKI_KIND_LAYER, "Attention", COMMON "\"use_scale\": true, \"score_mode\": \"concat\", \"dropout\": 0.25, \"seed\": 7"},
    {LKI_KIND_LAYER, "AdditiveAttention", COMMON "\"use_scale\": false, \"dropout\": 0.25, \"seed\": 7"},
    {LKI_KIND_LAYER, "Rescaling", COMMON "\"scale\": [0.5, 2.0], \"offset\": -1.0"},
    {LKI_KIND_LAYER, "CategoryEncoding", COMMON "\"num_tokens\": 4, \"output_mode\": \"count\""},
    {LKI_KIND_LAYER, "Discretization",
     "\"name\": \"mine\", \"bin_boundaries\": [0.5, 1.0], \"num_bins\": 3, \"epsilon\": 0.25, "
     "\"output_mode\": \"one_hot\", \"sparse\": false"},
    {LKI_KIND_LAYER, "IntegerLookup",
     COMMON
     "\"vocabulary\": [5, 7], \"idf_weights\": [0.5, 1.0], \"output_mode\": \"tf_idf\", \"max_tokens\": 6, \"num_oov_indices\": "
     "2, \"mask_token\": 0, \"oov_token\": -2, \"pad_to_max_tokens\": true, \"invert\": false"},
    {LKI_KIND_LAYER, "Resizing",
     COMMON "\"height\": 4, \"width\": 5, \"interpolation\": \"area\", \"crop_to_aspect_ratio\": false, "
            "\"pad_to_aspect_ratio\": true, \"fill_mode\": \"constant\", \"fill_value\": 2.0, \"antialias\": true, "
            "\"data_format\": \"channels_first\""},
    {LKI_KIND_LAYER, "CenterCrop", COMMON "\"height\": 4, \"width\": 5, \"data_format\": \"channels_first\""},
    {LKI_KIND_LAYER, "RandomZoom",
     COMMON "\"data_format\": \"channels_first\", \"height_factor\": [-0.1, 0.3], \"width_factor\": 0.5, \"fill_mode\": \"wrap\", "
            "\"fill_value\": 2.0, \"interpolation\": \"nearest\", \"seed\": 7"},
    {LKI_KIND_LAYER, "RandomTranslation",
     COMMON "\"data_format\": \"channels_first\", \"height_factor\": [-0.1, 0.3], \"width_factor\": 0.5, \"fill_mode\": \"wrap\", "
            "\"fill_value\": 2.0, \"interpolation\": \"nearest\", \"seed\": 7"},
    {LKI_KIND_LAYER, "RandomShear",
     COMMON "\"data_format\": \"channels_first\", \"x_factor\": [0.1, 0.3], \"y_factor\": 0.5, \"fill_mode\": \"wrap\", "
            "\"fill_value\": 2.0, \"interpolation\": \"nearest\", \"seed\": 7"},
    {LKI_KIND_LAYER, "RandomPerspective",
     COMMON "\"data_format\": \"channels_first\", \"factor\": [0.25, 0.5], \"scale\": 0.5, \"fill_value\": 2.0, "
            "\"interpolation\": \"nearest\", \"seed\": 7"},
    {LKI_KIND_LAYER, "RandomErasing",
     COMMON "\"factor\": [0.25, 0.5], \"scale\": [0.25, 0.5], \"fill_value\": 2.0, \"value_range\": [-1, 1], "
            "\"data_format\": \"channels_first\", \"seed\": 7"},
    {LKI_KIND_LAYER, "RandomGaussianBlur",
     COMMON "\"factor\": [0.25, 0.5], \"kernel_size\": [3, 5], \"sigma\": [0.25, 0.5], \"value_range\": [-1, 1], "
            "\"data_format\": \"channels_first\", \"seed\": 7"},
    {LKI_KIND_LAYER, "RandomBrightness", COMMON COLORS("0.25, 0.5")},
    {LKI_KIND_LAYER, "RandomContrast", COMMON COLORS("0.25, 0.5")},
    {LKI_KIND_LAYER, "RandomColorDegeneration", COMMON COLORS("0.25, 0.5")},
    {LKI_KIND_LAYER, "RandomSaturation", COMMON COLORS("0.25, 0.5")},
    {LKI_KIND_LAYER, "RandomHue", COMMON COLORS("0.25, 0.5")},
    {LKI_KIND_LAYER, "RandomInvert", COMMON COLORS("0.25, 0.5")},
    {LKI_KIND_LAYER, "RandomSharpness", COMMON COLORS("0.25, 0.5")},
    {LKI_KIND_LAYER, "RandomPosterization", COMMON COLORS("2, 5")},
    {LKI_KIND_LAYER, "RandomGrayscale", COMMON "\"factor\": 0.25, \"data_format\": \"channels_first\", \"seed\": 7"},
    {LKI_KIND_LAYER, "RandomColorJitter",
     COMMON
     "\"brightness_factor\": 0.25, \"contrast_factor\": [0.25, 0.5], \"saturation_factor\": null, \"hue_factor\": 1, " VALUES},
    {LKI_KIND_LAYER, "Solarization", COMMON "\"addition_factor\": [0, 0.5], \"threshold_factor\": [0.25, 0.5], " VALUES},
    {LKI_KIND_LAYER, "AutoContrast", COMMON "\"value_range\": [-1, 1], \"data_format\": \"channels_first\""},
    {LKI_KIND_LAYER, "RandomFlip", COMMON "\"mode\": \"vertical\", \"seed\": 7"},
    {LKI_KIND_LAYER, "RandomRotation",
     COMMON
     "\"factor\": [-0.25, 0.5], \"fill_mode\": \"constant\", \"fill_value\": 0.5, \"interpolation\": \"nearest\", \"seed\": 7"},
    {LKI_KIND_LAYER, "RandomCrop", COMMON "\"height\": 4, \"width\": 5, \"seed\": 7"},

    {LKI_KIND_INITIALIZER, "Zeros", ""},
    {LKI_KIND_INITIALIZER, "Ones", ""},
    {LKI_KIND_INITIALIZER, "Constant", "\"value\": 0.5"},
    {LKI_KIND_INITIALIZER, "Identity", "\"gain\": 0.5"},
    {LKI_KIND_INITIALIZER, "RandomNormal", "\"mean\": 0.5, \"stddev\": 0.25, \"seed\": 7"},
    {LKI_KIND_INITIALIZER, "RandomUniform", "\"minval\": -0.5, \"maxval\": 0.25, \"seed\": 7"},
    {LKI_KIND_INITIALIZER, "TruncatedNormal", "\"mean\": 0.5, \"stddev\": 0.25, \"seed\": 7"},
    {LKI_KIND_INITIALIZER, "VarianceScaling", "\"scale\": 2.0, \"mode\": \"fan_out\", \"distribution\": \"uniform\", \"seed\": 7"},
    {LKI_KIND_INITIALIZER, "GlorotUniform", "\"seed\": 7"},
    {LKI_KIND_INITIALIZER, "GlorotNormal", "\"seed\": 7"},
    {LKI_KIND_INITIALIZER, "HeUniform", "\"seed\": 7"},
    {LKI_KIND_INITIALIZER, "HeNormal", "\"seed\": 7"},
    {LKI_KIND_INITIALIZER, "LecunUniform", "\"seed\": 7"},
    {LKI_KIND_INITIALIZER, "LecunNormal", "\"seed\": 7"},
    {LKI_KIND_INITIALIZER, "Orthogonal", "\"gain\": 0.5, \"seed\": 7"},

    {LKI_KIND_REGULARIZER, "L1", "\"l1\": 0.5"},
    {LKI_KIND_REGULARIZER, "L2", "\"l2\": 0.5"},
    {LKI_KIND_REGULARIZER, "L1L2", "\"l1\": 0.5, \"l2\": 0.25"},
    {LKI_KIND_REGULARIZER, "OrthogonalRegularizer", "\"factor\": 0.5, \"mode\": \"columns\""},
    {LKI_KIND_CONSTRAINT, "MaxNorm", "\"max_value\": 3.0, \"axis\": [0, 1]"},
    {LKI_KIND_CONSTRAINT, "MinMaxNorm", "\"min_value\": 0.5, \"max_value\": 0.75, \"rate\": 0.25, \"axis\": [1]"},
    {LKI_KIND_CONSTRAINT, "NonNeg", ""},
    {LKI_KIND_CONSTRAINT, "UnitNorm", "\"axis\": [0, 1]"},

    {LKI_KIND_OPTIMIZER, "SGD", OPTIMIZER ", \"momentum\": 0.5, \"nesterov\": true"},
    {LKI_KIND_OPTIMIZER, "Adam", OPTIMIZER ", \"beta_1\": 0.5, \"beta_2\": 0.25, \"epsilon\": 0.125, \"amsgrad\": true"},
    {LKI_KIND_OPTIMIZER, "AdamW", OPTIMIZER ", \"beta_1\": 0.5, \"beta_2\": 0.25, \"epsilon\": 0.125, \"amsgrad\": true"},
    {LKI_KIND_OPTIMIZER, "Adamax", OPTIMIZER ", \"beta_1\": 0.5, \"beta_2\": 0.25, \"epsilon\": 0.125"},
    {LKI_KIND_OPTIMIZER, "Nadam", OPTIMIZER ", \"beta_1\": 0.5, \"beta_2\": 0.25, \"epsilon\": 0.125"},
    {LKI_KIND_OPTIMIZER, "Lion", OPTIMIZER ", \"beta_1\": 0.5, \"beta_2\": 0.25"},
    {LKI_KIND_OPTIMIZER, "Lamb", OPTIMIZER ", \"beta_1\": 0.5, \"beta_2\": 0.25, \"epsilon\": 0.125"},
    {LKI_KIND_OPTIMIZER, "RMSprop", OPTIMIZER ", \"rho\": 0.5, \"momentum\": 0.25, \"epsilon\": 0.125, \"centered\": true"},
    {LKI_KIND_OPTIMIZER, "Adagrad", OPTIMIZER ", \"initial_accumulator_value\": 0.5, \"epsilon\": 0.125"},
    {LKI_KIND_OPTIMIZER, "Adadelta", OPTIMIZER ", \"rho\": 0.5, \"epsilon\": 0.125"},
    {LKI_KIND_OPTIMIZER, "Ftrl",
     OPTIMIZER ", \"learning_rate_power\": -0.25, \"initial_accumulator_value\": 0.5, \"l1_regularization_strength\": 0.125, "
               "\"l2_regularization_strength\": 0.25, \"l2_shrinkage_regularization_strength\": 0.5, \"beta\": 0.75"},
    {LKI_KIND_OPTIMIZER, "Adafactor",
     OPTIMIZER ", \"beta_2_decay\": -0.5, \"epsilon_1\": 0.25, \"epsilon_2\": 0.5, \"clip_threshold\": 2.0, "
               "\"relative_step\": false"},
    {LKI_KIND_OPTIMIZER, "ScheduleFreeAdamW",
     OPTIMIZER ", \"beta_1\": 0.5, \"beta_2\": 0.25, \"epsilon\": 0.125, \"warmup_steps\": 7"},
    {LKI_KIND_OPTIMIZER, "Muon",
     OPTIMIZER ", \"adam_beta_1\": 0.5, \"adam_beta_2\": 0.25, \"epsilon\": 0.125, \"exclude_layers\": [\"output\"], "
               "\"muon_a\": 3.5, \"muon_b\": -4.5, \"muon_c\": 2.5, \"adam_lr_ratio\": 0.75, \"momentum\": 0.5, \"ns_steps\": 3, "
               "\"nesterov\": false, \"exclude_embeddings\": false, \"adam_weight_decay\": null, \"rms_rate\": null"},
    {LKI_KIND_OPTIMIZER, "LossScaleOptimizer",
     "\"name\": \"mine\", \"inner_optimizer\": " OBJECT(
         "optimizers", "SGD", OPTIMIZER ", \"momentum\": 0.5, \"nesterov\": true") ", \"initial_scale\": 1024.0, "
                                                                                   "\"dynamic_growth_steps\": 5"},
    {LKI_KIND_SCHEDULE, "ExponentialDecay", DECAY "\"decay_rate\": 0.25, \"staircase\": true, \"name\": \"any\""},
    {LKI_KIND_SCHEDULE, "InverseTimeDecay", DECAY "\"decay_rate\": 0.25, \"staircase\": true"},
    {LKI_KIND_SCHEDULE, "PolynomialDecay", DECAY "\"end_learning_rate\": 0.25, \"power\": 2.0, \"cycle\": true"},
    {LKI_KIND_SCHEDULE, "CosineDecay", DECAY "\"alpha\": 0.25, \"warmup_target\": 0.75, \"warmup_steps\": 5"},
    {LKI_KIND_SCHEDULE, "CosineDecayRestarts",
     "\"initial_learning_rate\": 0.5, \"first_decay_steps\": 10, \"t_mul\": 1.5, \"m_mul\": 0.5, \"alpha\": 0.25"},
    {LKI_KIND_SCHEDULE, "PiecewiseConstantDecay", "\"boundaries\": [10, 20], \"values\": [0.5, 0.25, 0.1]"},

    {LKI_KIND_LOSS, "SparseCategoricalCrossentropy",
     "\"name\": \"mine\", \"reduction\": \"sum\", \"from_logits\": true, \"ignore_class\": 3"},
    {LKI_KIND_LOSS, "CategoricalCrossentropy", "\"from_logits\": true, \"label_smoothing\": 0.25, \"axis\": 1"},
    {LKI_KIND_LOSS, "BinaryFocalCrossentropy",
     "\"name\": \"mine\", \"from_logits\": true, \"label_smoothing\": 0.25, \"axis\": 1, \"apply_class_balancing\": true, "
     "\"alpha\": 0.5, "
     "\"gamma\": 3.0"},
    {LKI_KIND_LOSS, "CategoricalFocalCrossentropy",
     "\"from_logits\": true, \"label_smoothing\": 0.25, \"axis\": 1, \"alpha\": 0.5, \"gamma\": 3.0"},
    {LKI_KIND_LOSS, "CategoricalGeneralizedCrossEntropy", "\"q\": 0.25"},
    {LKI_KIND_LOSS, "Dice", "\"axis\": [1, 2]"},
    {LKI_KIND_LOSS, "Tversky", "\"alpha\": 0.25, \"beta\": 0.75, \"axis\": [1, 2]"},
    {LKI_KIND_LOSS, "Circle", "\"gamma\": 8.0, \"margin\": 0.25, \"remove_diagonal\": false"},
    {LKI_KIND_LOSS, "BinaryCrossentropy", "\"from_logits\": true, \"label_smoothing\": 0.25"},
    {LKI_KIND_LOSS, "Huber", "\"reduction\": \"none\", \"delta\": 0.5"},
    {LKI_KIND_METRIC, "BinaryAccuracy", "\"name\": \"mine\", \"dtype\": \"float32\", \"threshold\": 0.25"},
    {LKI_KIND_METRIC, "TopKCategoricalAccuracy", "\"name\": \"mine\", \"k\": 3"},
    {LKI_KIND_METRIC, "SparseTopKCategoricalAccuracy", "\"k\": 3"},
    {LKI_KIND_METRIC, "AUC",
     "\"name\": \"mine\", \"num_thresholds\": 4, \"curve\": \"PR\", \"summation_method\": \"majoring\", \"multi_label\": true, "
     "\"num_labels\": 2, \"label_weights\": [1.0, 2.0], \"from_logits\": true, \"thresholds\": [0.25, 0.5]"},
    {LKI_KIND_METRIC, "Precision", "\"name\": \"mine\", \"thresholds\": [0.25, 0.5], \"top_k\": 2, \"class_id\": 1"},
    {LKI_KIND_METRIC, "Recall", "\"thresholds\": 0.25, \"top_k\": 2"},
    {LKI_KIND_METRIC, "TruePositives", "\"thresholds\": [0.25, 0.5]"},
    {LKI_KIND_METRIC, "FBetaScore", "\"average\": \"macro\", \"beta\": 2.0, \"threshold\": 0.25"},
    {LKI_KIND_METRIC, "R2Score", "\"class_aggregation\": null, \"num_regressors\": 2"},
    {LKI_KIND_METRIC, "PearsonCorrelation", "\"axis\": 1"},
    {LKI_KIND_METRIC, "IoU",
     "\"name\": \"mine\", \"num_classes\": 3, \"target_class_ids\": [0, 2], \"ignore_class\": 1, \"sparse_y_true\": false, "
     "\"sparse_y_pred\": false, \"axis\": 1"},
    {LKI_KIND_METRIC, "MeanIoU", "\"num_classes\": 3, \"ignore_class\": 1, \"sparse_y_true\": false"},
    {LKI_KIND_METRIC, "BinaryIoU", "\"target_class_ids\": [1], \"threshold\": 0.25"},
    {LKI_KIND_METRIC, "OneHotIoU", "\"num_classes\": 3, \"target_class_ids\": [0, 2], \"sparse_y_pred\": true"},
    {LKI_KIND_METRIC, "OneHotMeanIoU", "\"num_classes\": 3, \"ignore_class\": 1"},
    {LKI_KIND_METRIC, "PrecisionAtRecall", "\"recall\": 0.5, \"num_thresholds\": 50, \"class_id\": 1"},
    {LKI_KIND_METRIC, "RecallAtPrecision", "\"precision\": 0.5"},
    {LKI_KIND_METRIC, "SensitivityAtSpecificity", "\"specificity\": 0.5"},
    {LKI_KIND_METRIC, "SpecificityAtSensitivity", "\"sensitivity\": 0.5"},
    {LKI_KIND_METRIC, "CategoricalCrossentropy", "\"from_logits\": true, \"label_smoothing\": 0.25, \"axis\": 1"},
    {LKI_KIND_METRIC, "SparseCategoricalCrossentropy", "\"ignore_class\": 1"},
    {LKI_KIND_METRIC, "BinaryCrossentropy", "\"label_smoothing\": 0.25"},
    {LKI_KIND_METRIC, "F1Score", "\"average\": \"macro\", \"threshold\": 0.25"},
};

static const char *sample_of(lki_kind kind, const char *name)
{
    for (int i = 0; i < LKI_COUNT(SAMPLES); i++)
        if (SAMPLES[i].kind == kind && !strcmp(SAMPLES[i].name, name)) return SAMPLES[i].config;
    return NULL;
}

/* ---- reading and writing one ---- */

static const lki_json *parsed(const char *text)
{
    const lki_json *v = NULL;
    if (lki_json_parse("sample", text, strlen(text), &v) != LK_OK) fail_msg("%s: %s", lk_error(), text);
    return v;
}

static void *object_of(lki_kind kind, const char *text)
{
    const lki_reading r = {.file = "file.keras"};
    const lki_json   *v = parsed(text);
    void             *object = lki_object_read(&r, kind, "sample", v);
    lki_json_free(v);
    return object;
}

static char *text_of(lki_kind kind, const void *object)
{
    lki_json_out o = {0};
    if (lki_object_write(&o, kind, object) != LK_OK) fail_msg("%s", lk_error());
    return o.text;
}

/* What a sample says must be said by what was written; a name for an object is written as the object. */
static void expect(const char *class_name, const lki_json *said, const lki_json *written)
{
    char a[200], b[200];
    if (!written) fail_msg("%s: \"%s\" was lost", class_name, said->key);
    if (said->type == LKI_JSON_STRING && written->type == LKI_JSON_OBJECT) return;
    if (said->type == LKI_JSON_OBJECT) {
        for (int i = 0; i < said->count; i++)
            expect(class_name, &said->item[i], lki_json_get(written, said->item[i].key));
        return;
    }
    if (said->type == LKI_JSON_NUMBER && written->type == LKI_JSON_NUMBER && said->number == written->number) return;
    if (said->type == LKI_JSON_ARRAY && written->type == LKI_JSON_ARRAY && said->count == written->count) {
        for (int i = 0; i < said->count; i++)
            expect(class_name, &said->item[i], &written->item[i]);
        return;
    }
    lki_json_show(said, a, sizeof a);
    lki_json_show(written, b, sizeof b);
    if (strcmp(a, b)) fail_msg("%s: \"%s\" is %s; it was %s", class_name, said->key ? said->key : "item", b, a);
}

static void check_said(const char *class_name, const char *config, const char *written)
{
    char text[4096];
    snprintf(text, sizeof text, "{%s}", config);
    const lki_json *said = parsed(text), *all = parsed(written);
    for (int i = 0; i < said->count; i++) {
        const char *key = said->item[i].key;
        const bool  left_out = !strcmp(key, "dtype") || (!strcmp(key, "name") && strstr(class_name, "Decay"));
        if (!left_out) expect(class_name, &said->item[i], lki_json_get(lki_json_get(all, "config"), key));
    }
    lki_json_free(said);
    lki_json_free(all);
}

static void round_trip(lki_kind kind, const lki_class *c, const char *config)
{
    char text[4096];
    snprintf(text, sizeof text, "{\"module\": \"%s\", \"class_name\": \"%s\", \"config\": {%s}}", c->module, c->name, config);
    LK_POOL {
        void *first = object_of(kind, text);
        if (!first) fail_msg("%s: %s", c->name, lk_error());
        char *once = text_of(kind, first);
        check_said(c->name, config, once);
        void *second = object_of(kind, once);
        if (!second) fail_msg("%s: %s", c->name, lk_error());
        char *twice = text_of(kind, second);
        assert_string_equal(once, twice);
        lki_release(once);
        lki_release(twice);
    }
    assert_false(lk_failed());
}

/* ---- all of them ---- */

static bool has_options(const lki_class *c)
{
    for (int i = 0; i < c->fields; i++)
        if (*c->field[i].name && strcmp(c->field[i].name, "name") && strcmp(c->field[i].name, "trainable") &&
            strcmp(c->field[i].name, "reduction") && c->field[i].type != LKI_FIELD_FIXED)
            return true;
    return false;
}

static int round_trips(lki_kind kind)
{
    const lki_family *f = lki_family_of(kind);
    const lki_class  *c;
    int               count = 0;
    for (int i = 0; (c = f->at(i)); i++) {
        if (!c->name || !c->make || lki_not_in_keras(c->name)) continue;
        const char *sample = sample_of(kind, c->name);
        if (!sample && has_options(c) && kind != LKI_KIND_METRIC) fail_msg("%s: there is no sample of it", c->name);
        round_trip(kind, c, sample ? sample : "");
        count++;
    }
    for (int i = 0; i < LKI_COUNT(SAMPLES); i++)
        if (SAMPLES[i].kind == kind && !lki_class_named(f, SAMPLES[i].name)) fail_msg("there is no class %s", SAMPLES[i].name);
    return count;
}

TEST(layers_come_back) { assert_true(round_trips(LKI_KIND_LAYER) >= 49); }
TEST(initialisers_come_back) { assert_int_equal(round_trips(LKI_KIND_INITIALIZER), 15); }
TEST(regularisers_come_back) { assert_int_equal(round_trips(LKI_KIND_REGULARIZER), 4); }
TEST(constraints_come_back) { assert_int_equal(round_trips(LKI_KIND_CONSTRAINT), 4); }
TEST(optimisers_come_back) { assert_int_equal(round_trips(LKI_KIND_OPTIMIZER), 15); }
TEST(schedules_come_back) { assert_int_equal(round_trips(LKI_KIND_SCHEDULE), 6); }
TEST(losses_come_back) { assert_int_equal(round_trips(LKI_KIND_LOSS), 22); }
TEST(metrics_come_back) { assert_true(round_trips(LKI_KIND_METRIC) >= 44); }

/* ---- defaults ---- */

/* An empty config gives what the constructor gives. */
TEST(defaults_are_written)
{
    LK_POOL {
        void       *dense = object_of(LKI_KIND_LAYER, OBJECT("layers", "Dense", "\"units\": 3"));
        const char *text = text_of(LKI_KIND_LAYER, dense);
        assert_non_null(strstr(text, "\"activation\": \"linear\", \"use_bias\": true, \"kernel_initializer\": {\"module\": "
                                     "\"keras.initializers\", \"class_name\": \"GlorotUniform\", \"config\": {"));
        assert_non_null(strstr(text, "\"kernel_regularizer\": null"));
        assert_non_null(strstr(text, "\"trainable\": true, \"dtype\": {\"module\": \"keras\", \"class_name\": \"DTypePolicy\""));
        lki_release((void *)text);
    }
}

TEST(statistics_that_are_not_synchronised_in_a_file_are_the_default_here)
{
    LK_POOL {
        const char *off = text_of(LKI_KIND_LAYER, lk_batch_normalization(.synchronized = LK_OFF)),
                   *on = text_of(LKI_KIND_LAYER, lk_batch_normalization(.synchronized = LK_ON)),
                   *neither = text_of(LKI_KIND_LAYER, lk_batch_normalization());
        assert_non_null(strstr(off, "\"synchronized\": false"));
        assert_non_null(strstr(on, "\"synchronized\": true"));
        assert_non_null(strstr(neither, "\"synchronized\": false"));
        lki_release((void *)off);
        lki_release((void *)on);
        lki_release((void *)neither);
    }
}

TEST(a_rate_that_was_set_is_written)
{
    LK_POOL {
        lk_optimizer *o = lk_adam();
        char         *before = text_of(LKI_KIND_OPTIMIZER, o);
        assert_non_null(strstr(before, "\"learning_rate\": 0.0010000000474974513,"));
        lk_optimizer_set_learning_rate(o, 0.25);
        char *after = text_of(LKI_KIND_OPTIMIZER, o);
        assert_non_null(strstr(after, "\"learning_rate\": 0.25,"));
        lk_optimizer_set_learning_rate(o, 0);
        char         *none = text_of(LKI_KIND_OPTIMIZER, o);
        lk_optimizer *again = object_of(LKI_KIND_OPTIMIZER, none);
        assert_true(lk_optimizer_learning_rate(again) == 0);
        lki_release(before);
        lki_release(after);
        lki_release(none);
    }
}

TEST(a_schedule_takes_the_place_of_the_rate)
{
    LK_POOL {
        lk_optimizer *o =
            lk_sgd(.schedule = lk_exponential_decay(.initial_learning_rate = 0.5, .decay_steps = 4, .decay_rate = 0.25));
        char *text = text_of(LKI_KIND_OPTIMIZER, o);
        assert_non_null(strstr(text, "\"learning_rate\": {\"module\": \"keras.optimizers.schedules\", \"class_name\": "
                                     "\"ExponentialDecay\", \"config\": {\"initial_learning_rate\": 0.5, \"decay_steps\": 4.0"));
        lk_optimizer *again = object_of(LKI_KIND_OPTIMIZER, text);
        assert_non_null(again);
        assert_true(lk_optimizer_learning_rate(again) == 0.5);
        lki_release(text);
    }
}

/* ---- names in place of objects ---- */

TEST(names_are_read)
{
    static const struct {
        lki_kind    kind;
        const char *name, *class_name;
    } NAMES[] = {{LKI_KIND_INITIALIZER, "glorot_uniform", "GlorotUniform"},
                 {LKI_KIND_INITIALIZER, "zeros", "Zeros"},
                 {LKI_KIND_INITIALIZER, "uniform", "RandomUniform"},
                 {LKI_KIND_INITIALIZER, "Orthogonal", "Orthogonal"},
                 {LKI_KIND_REGULARIZER, "l1_l2", "L1L2"},
                 {LKI_KIND_CONSTRAINT, "max_norm", "MaxNorm"},
                 {LKI_KIND_CONSTRAINT, "nonneg", "NonNeg"},
                 {LKI_KIND_OPTIMIZER, "adam", "Adam"},
                 {LKI_KIND_OPTIMIZER, "rmsprop", "RMSprop"},
                 {LKI_KIND_OPTIMIZER, "adamw", "AdamW"},
                 {LKI_KIND_LOSS, "mse", "MeanSquaredError"},
                 {LKI_KIND_METRIC, "mae", "MeanAbsoluteError"}};
    for (int i = 0; i < LKI_COUNT(NAMES); i++)
        LK_POOL {
            char text[64], right[64];
            snprintf(text, sizeof text, "\"%s\"", NAMES[i].name);
            snprintf(right, sizeof right, "\"class_name\": \"%s\"", NAMES[i].class_name);
            void *object = object_of(NAMES[i].kind, text);
            if (!object) fail_msg("%s", lk_error());
            char *written = text_of(NAMES[i].kind, object);
            assert_non_null(strstr(written, right));
            lki_release(written);
        }
}

TEST(activations_have_other_names)
{
    LK_POOL {
        char *swish =
            text_of(LKI_KIND_LAYER, object_of(LKI_KIND_LAYER, OBJECT("layers", "Activation", "\"activation\": \"swish\"")));
        char *function =
            text_of(LKI_KIND_LAYER,
                    object_of(LKI_KIND_LAYER, OBJECT("layers", "Activation",
                                                     "\"activation\": {\"module\": \"builtins\", \"class_name\": \"function\", "
                                                     "\"config\": \"relu6\", \"registered_name\": \"function\"}")));
        assert_non_null(strstr(swish, "\"activation\": \"silu\""));
        assert_non_null(strstr(function, "\"activation\": \"relu6\""));
        lki_release(swish);
        lki_release(function);
    }
}

TEST(optimisers_by_name)
{
    LK_POOL {
        lk_optimizer *o = lk_optimizer_named("SGD", 0.25);
        assert_true(lk_optimizer_learning_rate(o) == 0.25);
        assert_true(fabs(lk_optimizer_learning_rate(lk_optimizer_named("adam", 0)) - 0.001) < 1e-9);
        assert_null(lk_optimizer_named("speedy", 0));
        assert_string_equal(lk_error(),
                            "lk_optimizer_named: there is no optimiser \"speedy\"; there are SGD, Adam, AdamW, Adamax, Nadam, "
                            "Lion, Lamb, RMSprop, Adagrad, Adadelta, Ftrl, Adafactor, ScheduleFreeAdamW, Muon, "
                            "LossScaleOptimizer");
        lk_clear_error();
    }
}

/* ---- what is refused, and how ---- */

static void refused(lki_kind kind, const char *text, lk_status code, const char *words)
{
    LK_POOL {
        const void *object = object_of(kind, text);
        if (object) fail_msg("should be refused: %s", text);
        if (!strstr(lk_error(), words)) fail_msg("\"%s\" is not in: %s", words, lk_error());
        if (lk_error_code() != code)
            fail_msg("%s instead of %s: %s", lk_status_name(lk_error_code()), lk_status_name(code), lk_error());
        lk_clear_error();
    }
}

#define DENSE(options) OBJECT("layers", "Dense", "\"units\": 3, " options)
#define CONV(options) OBJECT("layers", "Conv2D", "\"filters\": 3, \"kernel_size\": [3, 3], " options)

TEST(what_there_is_nothing_for_is_refused)
{
    const lki_kind L = LKI_KIND_LAYER;
    refused(L, CONV("\"groups\": 2"), LK_EUNSUPPORTED, "file.keras: sample: lk_conv2d: 3 filters cannot be divided into 2 groups");
    refused(L, CONV("\"data_format\": \"channels_middle\""), LK_EUNSUPPORTED,
            "option \"data_format\" is \"channels_middle\"; there are channels_last, channels_first");
    refused(L, OBJECT("layers", "Resizing", "\"height\": 2, \"width\": 2, \"fill_mode\": \"reflect\""), LK_EUNSUPPORTED,
            "option \"fill_mode\" is \"reflect\"; only \"constant\" is supported");
    refused(L, CONV("\"padding\": \"full\""), LK_EUNSUPPORTED, "option \"padding\" is \"full\"; there are valid, same, causal");
    refused(L, DENSE("\"lora_rank\": 4"), LK_EUNSUPPORTED, "option \"lora_rank\", which is 4, is not known");
    refused(L, DENSE("\"dtype\": \"float8\""), LK_EUNSUPPORTED,
            "option \"dtype\" is \"float8\"; supported are float32, mixed_float16, mixed_bfloat16, float16, bfloat16, float64");
    refused(L, DENSE("\"dtype\": {\"class_name\": \"QuantizedDTypePolicy\", \"config\": {\"mode\": \"int8\"}}"), LK_EUNSUPPORTED,
            "option \"dtype\" is {");
    refused(L, DENSE("\"activation\": \"glue\""), LK_EUNSUPPORTED, "option \"activation\" is \"glue\"; did you mean glu");
    refused(L, DENSE("\"activation\": " OBJECT("layers", "LeakyReLU", "")), LK_EUNSUPPORTED, "option \"activation\" is {");
    refused(
        L, DENSE("\"kernel_initializer\": \"Magic\""), LK_EUNSUPPORTED,
        "file.keras: sample: option \"kernel_initializer\": there is no initialiser \"Magic\"; there are Zeros, Ones, Constant,");
    refused(L, DENSE("\"bias_initializer\": null"), LK_EUNSUPPORTED, "option \"bias_initializer\" is null");
    refused(L, DENSE("\"kernel_regularizer\": {\"module\": \"mine\", \"class_name\": \"L3\", \"config\": {}}"), LK_EUNSUPPORTED,
            "option \"kernel_regularizer\": class \"L3\" of mine is a custom class");
    refused(L, "{\"module\": \"keras.layers\", \"class_name\": \"Dense\", \"config\": {}, \"registered_name\": \"mine>Dense\"}",
            LK_EUNSUPPORTED, "class \"Dense\" of mine>Dense is a custom class");
    refused(L, OBJECT("layers", "Conv4D", ""), LK_EUNSUPPORTED,
            "there is no layer \"Conv4D\"; did you mean Conv1D, Conv2D, Conv3D?");
    refused(L, OBJECT("layers", "InputLayer", ""), LK_EUNSUPPORTED, "there is no layer \"InputLayer\"");
    refused(L, OBJECT("layers", "GroupNormalization", "\"groups\": 0"), LK_EUNSUPPORTED, "groups is 0; it must be at least 1");
    refused(LKI_KIND_OPTIMIZER, OBJECT("optimizers", "MultiOptimizer", ""), LK_EUNSUPPORTED,
            "there is no optimiser \"MultiOptimizer\"; there are SGD, Adam,");
    refused(LKI_KIND_LOSS, "\"my_loss\"", LK_EUNSUPPORTED, "file.keras: sample: ");
    refused(LKI_KIND_LOSS, OBJECT("losses", "Dise", ""), LK_EUNSUPPORTED, "there is no loss \"Dise\"; did you mean Dice");
}

/* ---- what means the same ---- */

#define BUILT(name, config, shape)                                                                                                 \
    "{\"module\": \"keras.layers\", \"class_name\": \"" name "\", \"config\": {" config                                            \
    "}, \"build_config\": {\"input_shape\": " shape "}}"
#define RELU_LAYER                                                                                                                 \
    OBJECT("layers", "ReLU",                                                                                                       \
           "\"name\": \"re_lu\", \"dtype\": \"float32\", \"max_value\": null, \"negative_slope\": 0.0, \"threshold\": 0.0")
#define POLICY_MAP(own, inside)                                                                                                    \
    "{\"class_name\": \"DTypePolicyMap\", \"config\": {\"default_policy\": " own ", \"policy_map\": {" inside "}}}"

static const struct {
    const char *said, *written;
} SAME[] = {
    {OBJECT("layers", "Normalization", "\"axis\": 3"), "\"axis\": [3]"},
    {OBJECT("layers", "Normalization", "\"axis\": null"), "\"axis\": []"},
    {OBJECT("layers", "Normalization", "\"axis\": []"), "\"axis\": []"},
    {OBJECT("layers", "Normalization", "\"name\": \"n\""), "\"axis\": [-1]"},
    {OBJECT("layers", "Normalization", "\"axis\": -1"), "\"axis\": [-1]"},
    {BUILT("GroupNormalization", "\"axis\": 3", "[null, 4, 4, 32]"), "\"axis\": 3"},
    {BUILT("GroupNormalization", "\"axis\": [-1]", "null"), "\"axis\": -1"},
    {OBJECT("layers", "BatchNormalization", "\"axis\": [3]"), "\"axis\": 3"},
    {OBJECT("layers", "Softmax", "\"axis\": [-1]"), "\"axis\": -1"},
    {OBJECT("layers", "Rescaling", "\"scale\": {\"class_name\": \"__tuple__\", \"items\": [0.5, 2]}"), "\"scale\": [0.5, 2.0]"},
    {OBJECT("layers", "Rescaling",
            "\"scale\": {\"class_name\": \"__numpy__\", \"config\": {\"value\": [0.5], \"dtype\": "
            "\"float32\"}}"),
     "\"scale\": [0.5]"},
    {DENSE("\"activation\": \"hard_swish\""), "\"activation\": \"hard_silu\""},
    {CONV("\"data_format\": null"), "\"data_format\": \"channels_last\""},
    {CONV("\"groups\": 1.0"), "\"groups\": 1"},
    {CONV("\"strides\": 2, \"dilation_rate\": 1"), "\"strides\": [2, 2]"},
    {OBJECT("layers", "Conv2DTranspose", "\"filters\": 3, \"kernel_size\": 3, \"dilation_rate\": 1"), "\"dilation_rate\": [1, 1]"},
    {OBJECT("layers", "Dense", "\"units\": 3.0"), "\"units\": 3"},
    {DENSE("\"use_bias\": 0"), "\"use_bias\": false"},
    {DENSE("\"use_bias\": 1"), "\"use_bias\": true"},
    {DENSE("\"activation\": " RELU_LAYER), "\"activation\": \"relu\""},
    {DENSE("\"activation\": " OBJECT("layers", "Softmax", "\"name\": \"s\", \"axis\": -1")), "\"activation\": \"softmax\""},
    {DENSE("\"activation\": {\"module\": \"builtins\", \"class_name\": \"function\", \"config\": \"relu\"}"),
     "\"activation\": \"relu\""},
    {DENSE("\"dtype\": " POLICY_MAP("null", "")), "\"units\": 3"},
    {DENSE("\"dtype\": \"mixed_bfloat16\""), "\"class_name\": \"DTypePolicy\", \"config\": {\"name\": \"mixed_bfloat16\"}"},
    {DENSE("\"dtype\": {\"class_name\": \"DTypePolicy\", \"config\": {\"name\": \"float64\"}}"), "{\"name\": \"float64\"}"},
    {DENSE("\"dtype\": \"float32\""), "{\"name\": \"float32\"}"},
    {DENSE("\"dtype\": " POLICY_MAP("\"float32\"", "")), "\"units\": 3"},
};

TEST(values_that_mean_the_same)
{
    for (int i = 0; i < (int)(sizeof SAME / sizeof *SAME); i++)
        LK_POOL {
            const void *object = object_of(LKI_KIND_LAYER, SAME[i].said);
            if (!object) fail_msg("%s", lk_error());
            char *text = text_of(LKI_KIND_LAYER, object);
            if (!strstr(text, SAME[i].written)) fail_msg("%s is not in %s", SAME[i].written, text);
            lki_release(text);
        }
    const lki_kind L = LKI_KIND_LAYER;
    refused(L, BUILT("GroupNormalization", "\"axis\": [2, 3]", "[null, 4, 4, 3]"), LK_EFORMAT, "option \"axis\" is [2, 3]");
    refused(L, OBJECT("layers", "BatchNormalization", "\"renorm\": true"), LK_EUNSUPPORTED, "option \"renorm\" is true");
    refused(L, DENSE("\"activation\": \"glu\""), LK_EUNSUPPORTED, "glu halves the last axis");
    refused(L, DENSE("\"activation\": " OBJECT("layers", "ReLU", "\"max_value\": 6.0")), LK_EUNSUPPORTED, "\"activation\" is {");
    refused(L, DENSE("\"dtype\": " POLICY_MAP("\"float32\"", "\"a\": \"float16\"")), LK_EUNSUPPORTED, "option \"dtype\"");
}

/* What constructors refuse is reported with the file and the place. */
TEST(numbers_out_of_range_are_refused)
{
    const lki_kind L = LKI_KIND_LAYER;
    refused(L, OBJECT("layers", "Dense", "\"units\": 0"), LK_EUNSUPPORTED,
            "file.keras: sample: lk_dense: units is 0; it must be at least 1");
    refused(L, OBJECT("layers", "Dense", "\"units\": -9223372036854775808"), LK_EUNSUPPORTED, "units is -9223372036854775808");
    refused(L, OBJECT("layers", "Dropout", "\"rate\": 1e300"), LK_EUNSUPPORTED,
            "file.keras: sample: lk_dropout: the rate is 1e+300");
    refused(L, OBJECT("layers", "Dropout", "\"rate\": NaN"), LK_EUNSUPPORTED, "lk_dropout: the rate is nan");
    refused(LKI_KIND_OPTIMIZER, OBJECT("optimizers", "Adam", "\"learning_rate\": -1"), LK_EUNSUPPORTED, "learning_rate is -1");
    refused(LKI_KIND_OPTIMIZER, OBJECT("optimizers", "Adam", "\"clipnorm\": 1, \"clipvalue\": 1"), LK_EUNSUPPORTED,
            "at most one of them may be given");
    refused(LKI_KIND_SCHEDULE,
            OBJECT("optimizers.schedules", "PiecewiseConstantDecay", "\"boundaries\": [1, 2], \"values\": [1, 2]"), LK_EUNSUPPORTED,
            "2 values for 2 boundaries: must be one more");
    refused(LKI_KIND_SCHEDULE,
            OBJECT("optimizers.schedules", "PiecewiseConstantDecay", "\"boundaries\": [2, 1], \"values\": [1, 2, 3]"),
            LK_EUNSUPPORTED, "must ascend");
}

TEST(wrong_types_are_refused)
{
    const lki_kind L = LKI_KIND_LAYER;
    refused(L, OBJECT("layers", "Dense", "\"units\": \"three\""), LK_EFORMAT,
            "option \"units\" is \"three\"; it should be an integer");
    refused(L, OBJECT("layers", "Dense", "\"units\": 3.5"), LK_EFORMAT, "option \"units\" is 3.5; it should be an integer");
    refused(L, OBJECT("layers", "Dense", "\"name\": \"x\""), LK_EFORMAT, "option \"units\" is missing");
    refused(L, DENSE("\"use_bias\": 2"), LK_EFORMAT, "option \"use_bias\" is 2; it should be true or false");
    refused(L, DENSE("\"name\": 3"), LK_EFORMAT, "option \"name\" is 3; it should be a string");
    refused(L, DENSE("\"activation\": 3"), LK_EFORMAT, "option \"activation\" is 3; it should be a word");
    refused(L, DENSE("\"kernel_initializer\": 3"), LK_EFORMAT,
            "option \"kernel_initializer\": it is a number; it should be the name of a class or an object");
    refused(L, DENSE("\"kernel_initializer\": {}"), LK_EFORMAT, "\"class_name\" is missing; it should be a string");
    refused(L, DENSE("\"kernel_initializer\": {\"class_name\": \"Zeros\"}"), LK_EFORMAT,
            "the config of class \"Zeros\" is missing");
    refused(L, DENSE("\"kernel_initializer\": {\"class_name\": \"Zeros\", \"config\": []}"), LK_EFORMAT,
            "the config of class \"Zeros\" is an array; it should be an object");
    refused(L, OBJECT("layers", "Dropout", "\"rate\": true"), LK_EFORMAT, "option \"rate\" is true; it should be a number");
    refused(L, CONV("\"strides\": [1, 2, 3]"), LK_EFORMAT,
            "option \"strides\" is [1, 2, 3]; it should be an integer or a list of 2");
    refused(L, CONV("\"strides\": []"), LK_EFORMAT, "option \"strides\" is []");
    refused(L, OBJECT("layers", "Permute", "\"dims\": [1,2,3,4,5,6,7,8,9]"), LK_EFORMAT, "an integer or a list of up to 8");
    refused(L, OBJECT("layers", "Reshape", "\"target_shape\": 7"), LK_EFORMAT,
            "option \"target_shape\" is 7; it should be a list of sizes");
    refused(L, OBJECT("layers", "Reshape", "\"target_shape\": [1,1,1,1,1,1,1,1,1]"), LK_EFORMAT, "it should be a list of sizes");
    refused(L, OBJECT("layers", "ZeroPadding2D", "\"padding\": [1, 2, 3]"), LK_EFORMAT, "[[top, bottom], [left, right]]");
    refused(L, OBJECT("layers", "Softmax", "\"axis\": \"last\""), LK_EFORMAT,
            "option \"axis\" is \"last\"; it should be an integer or a list");
    refused(L, OBJECT("layers", "Normalization", "\"mean\": [1, [2]], \"variance\": [1, 1]"), LK_EFORMAT, "all of one shape");
    refused(L, OBJECT("layers", "Normalization", "\"mean\": [[[[[[[[[1]]]]]]]]]"), LK_EFORMAT, "nested lists of numbers");
    refused(L, "[]", LK_EFORMAT, "it is an array; it should be the name of a class or an object");
    refused(LKI_KIND_OPTIMIZER, OBJECT("optimizers", "SGD", "\"ema_overwrite_frequency\": 3000000000"), LK_EFORMAT,
            "an integer of 32 bits");
}

TEST(what_keras_has_not_is_not_written)
{
    LK_POOL {
        lki_json_out o = {0};
        assert_int_equal(lki_object_write(&o, LKI_KIND_LAYER, lk_activation_layer(LK_GELU_TANH)), LK_EUNSUPPORTED);
        assert_non_null(strstr(lk_error(), "activation \"gelu_tanh\": the activation gelu of Keras files is the exact one"));
        lki_json_out_free(&o);
        lk_clear_error();
    }
}

/* ---- memory ---- */

static int read_and_write(void)
{
    static const char TEXT[] = OBJECT("layers", "Dense", COMMON "\"units\": 3, " WITH_BIAS FOR("kernel"));
    int               good = 0;
    const lki_json   *v = NULL;
    LK_POOL {
        const lki_reading r = {.file = "file.keras"};
        lki_json_out      o = {0};
        void             *object =
            lki_json_parse("sample", TEXT, sizeof TEXT - 1, &v) == LK_OK ? lki_object_read(&r, LKI_KIND_LAYER, "it", v) : NULL;
        good = object && lki_object_write(&o, LKI_KIND_LAYER, object) == LK_OK && !o.failed;
        lki_json_out_free(&o);
    }
    lki_json_free(v);
    return good;
}

TEST(every_allocation_may_fail) { assert_true(check_every_allocation(read_and_write) > 10); }

TESTS(cmocka_unit_test(layers_come_back), cmocka_unit_test(initialisers_come_back), cmocka_unit_test(regularisers_come_back),
      cmocka_unit_test(constraints_come_back), cmocka_unit_test(optimisers_come_back), cmocka_unit_test(schedules_come_back),
      cmocka_unit_test(losses_come_back), cmocka_unit_test(metrics_come_back), cmocka_unit_test(defaults_are_written),
      cmocka_unit_test(statistics_that_are_not_synchronised_in_a_file_are_the_default_here),
      cmocka_unit_test(a_rate_that_was_set_is_written), cmocka_unit_test(a_schedule_takes_the_place_of_the_rate),
      cmocka_unit_test(names_are_read), cmocka_unit_test(activations_have_other_names), cmocka_unit_test(optimisers_by_name),
      cmocka_unit_test(what_there_is_nothing_for_is_refused), cmocka_unit_test(values_that_mean_the_same),
      cmocka_unit_test(numbers_out_of_range_are_refused), cmocka_unit_test(wrong_types_are_refused),
      cmocka_unit_test(what_keras_has_not_is_not_written), cmocka_unit_test(every_allocation_may_fail))
