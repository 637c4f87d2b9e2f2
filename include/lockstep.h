/* lockstep: train neural networks on many devices at once, from C.
 *
 *     #include <lockstep.h>
 *
 *     static lk_variable *w;
 *
 *     static lk_tuple step(lk_tuple batch, void *optimizer)
 *     {
 *         lk_tape   *tape = lk_tape_begin();
 *         lk_tensor *guess = lk_matmul(batch.item[0], lk_read(w));
 *         lk_tensor *loss = lk_reduce_mean(lk_squared_difference(guess, batch.item[1]));
 *         lk_optimizer_apply(optimizer, lk_tape_gradient(tape, loss, LK_VARIABLES(w)));
 *         return LK_TUPLE(loss);
 *     }
 *
 * This header includes the whole library; each header under lockstep/ can also be included alone. */
#ifndef LOCKSTEP_H
#define LOCKSTEP_H

#include "lockstep/base.h"
#include "lockstep/checkpoint.h"
#include "lockstep/dataset.h"
#include "lockstep/error.h"
#include "lockstep/files.h"
#include "lockstep/fit.h"
#include "lockstep/grad.h"
#include "lockstep/keras.h"
#include "lockstep/layer.h"
#include "lockstep/loss.h"
#include "lockstep/metric.h"
#include "lockstep/model.h"
#include "lockstep/nn.h"
#include "lockstep/ops.h"
#include "lockstep/optimizer.h"
#include "lockstep/runtime.h"
#include "lockstep/step.h"
#include "lockstep/strategy.h"
#include "lockstep/tensor.h"

#endif
