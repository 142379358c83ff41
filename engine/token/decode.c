/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of a decoding chain: its steps own their strings and regexes. What the steps do stands
 * in detok.c, how they are read from a file in load_decode.c.
 */
#include "engine/token/decode.h"

#include <stdlib.h>

static void step_release(struct decode_step *s)
{
    free(s->text);
    free(s->content);
    regex_free(s->regex);
}

void decode_release(struct decode *d)
{
    for (size_t i = 0; i < d->n; i++)
        step_release(&d->step[i]);
    *d = (struct decode){0};
}

int decode_give(struct decode *d, struct decode_step *step, struct err *e)
{
    if (d->n < DECODE_MAX_STEPS) {
        d->step[d->n++] = *step;
        return 0;
    }
    step_release(step);
    return err_set(e, ERR_TOO_LARGE, "more than %d decoders", DECODE_MAX_STEPS);
}
