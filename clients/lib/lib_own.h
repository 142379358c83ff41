/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files behind tandem.h share.
 *
 * Thread: as tandem.h says.
 */
#ifndef CLIENTS_LIB_LIB_OWN_H
#define CLIENTS_LIB_LIB_OWN_H

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>

#include "clients/lib/tandem.h"
#include "engine/engine.h"

/* Who is in a function of tandem.h: a model that is closed waits for them. */
struct lib_callers {
    pthread_mutex_t lock;
    pthread_cond_t none; /* n became 0 */
    int64_t n;
    bool are_sent_off; /* the model is being closed */
};

struct tandem_model {
    struct engine *engine;       /* owned */
    pthread_mutex_t trains;      /* held by the training there is */
    struct lib_callers *callers; /* owned */
};

extern FILE *lib_no_stream; /* NULL */

/* Around all that a function of tandem.h does with a model. */
void lib_enter(const struct tandem_model *m);
void lib_leave(const struct tandem_model *m);
bool lib_is_closing(const struct tandem_model *m);

/* The error as the caller sees it; -1. e may be NULL. */
int lib_fail(struct tandem_error *e, const struct err *from);

/* The caller's options, as far as its header had them, over those that are chosen: `to` holds
 * these, and begins with its size, as `from` does. */
int lib_options(void *to, const void *from, struct err *e);

#endif
