/* SPDX-License-Identifier: Apache-2.0
 *
 * The matrices of a model that an adapter may have whole beside its halves, as PEFT's
 * modules_to_save: the table of tokens and the lm_head. Where the model ties the two an adapter's
 * are still two matrices, of which it may have either, unless it says that it ties them as well.
 *
 * An adapter's matrix has the model's format and shape, so whatever multiplies by the one can do so
 * by the other.
 *
 * Thread: any; pure functions.
 */
#ifndef ENGINE_MODEL_SAVED_H
#define ENGINE_MODEL_SAVED_H

#include "engine/model/model.h"

enum { SAVED_NAME_BYTES = 256 };

/* The model's own; NULL: it has none. */
const struct param *saved_param(const struct model *m, enum saved s);

/* The module as PEFT calls it in the class that others load the model as, "model.embed_tokens",
 * and the end of that by which people name it, "embed_tokens". */
void saved_module(const struct model *m, enum saved s, char name[SAVED_NAME_BYTES]);
const char *saved_word(const struct model *m, enum saved s);

/* Which of them a module is, under any prefix of the family; -1: none. */
int saved_find(const struct model *m, const char *module);

/* Whether an adapter of this model can have one: ERR_UNSUPPORTED says why not. trains: whether it
 * can be trained, too. */
int saved_check(const struct model *m, enum saved s, bool trains, struct err *e);

/* The same of `model`, without its format: whether steps are to look for such matrices at all. */
bool saved_is_possible(const struct model *m);

#endif
