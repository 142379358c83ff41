/* SPDX-License-Identifier: Apache-2.0
 *
 * The halves of an adapter that PEFT wrote, and a trainer's: one into the other, or compared.
 */
#ifndef TESTS_LIB_GOLDEN_HALVES_H
#define TESTS_LIB_GOLDEN_HALVES_H

#include "engine/train/trainer.h"

/* path: of a safetensors file. */
void golden_halves_take(struct trainer *t, const char *path);
void golden_halves_check(struct trainer *t, const char *path); /* within 1e-3 */

#endif
