/* SPDX-License-Identifier: Apache-2.0
 *
 * Defaults and the schedule of the learning rate.
 */
#include "engine/train/options.h"

#include <math.h>

#include "engine/train/preference.h"

void train_options_default(struct train_options *o)
{
    *o = (struct train_options){.lora = {.rank = 16, .alpha = 32},
                                .lr = 2e-4,
                                .schedule = TRAIN_LINEAR,
                                .beta1 = 0.9,
                                .beta2 = 0.999,
                                .eps = 1e-8,
                                .max_norm = 1,
                                .cap_tok = 2048};
}

bool train_has_reference(const struct train_options *o)
{
    return o->policy.is_on ? o->policy.kl > 0 : preference_has_reference(&o->preference);
}

int64_t train_warmup(double ratio, int64_t n_step)
{
    return (int64_t)ceil(ratio * (double)n_step);
}

double train_lr(const struct train_options *o, int64_t step)
{
    const double pi = 3.14159265358979323846;
    double left, rest = (double)(o->n_step - o->warmup);
    if (step < o->warmup)
        return o->lr * (double)step / (double)o->warmup;
    left = rest > 0 ? fmax(0, (double)(o->n_step - step) / rest) : 1;
    switch (o->schedule) {
    case TRAIN_LINEAR:
        return o->lr * left;
    case TRAIN_COSINE:
        return o->lr * 0.5 * (1 + cos(pi * (1 - left)));
    case TRAIN_CONSTANT:
        break;
    }
    return o->lr;
}
