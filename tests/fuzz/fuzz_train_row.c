/* SPDX-License-Identifier: Apache-2.0
 *
 * A line of a training file. The first byte says what it is read for. Whatever it is, it is refused
 * with a message, or it is a row whose messages, weights and texts are there.
 */
#include "api/train_row.h"
#include "tests/fuzz/fuzz.h"

#include <math.h>
#include <string.h>

enum { ARENA_BYTES = 64 << 20 };

static void check(const struct train_example *x, struct train_wants wants)
{
    if (x->kind == TRAIN_PREFERENCE && !wants.has_pairs)
        return; /* recognised, and not read */
    ASSERT(isfinite(x->row_weight) && x->row_weight >= 0);
    if (x->kind == TRAIN_TEXT) {
        ASSERT(x->completion && (x->prompt || !x->n_prompt));
        return;
    }
    ASSERT(x->messages.type == JT_LIST && x->messages.l->n > 0);
    ASSERT(!x->weight || x->n_weight == (size_t)x->messages.l->n);
    for (size_t i = 0; x->weight && i < x->n_weight; i++)
        ASSERT(isfinite(x->weight[i]) && x->weight[i] >= 0);
    if (x->kind == TRAIN_PREFERENCE) {
        ASSERT(x->other.type == JT_LIST && x->n_shared <= (size_t)x->other.l->n);
        ASSERT(x->n_shared <= (size_t)x->messages.l->n);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a;
    struct train_example x = {0};
    struct train_said said = {.unread = ""};
    if (size == 0)
        return 0;
    struct train_wants wants = {
        .knows_developer = data[0] & 1, .has_pairs = data[0] & 2, .has_prompts = data[0] & 4};
    arena_init(&a, ARENA_BYTES);
    if (api_train_row(&a, (const char *)data + 1, size - 1, wants, &x, &said))
        ASSERT(said.error.status >= 400 && *said.error.message);
    else
        check(&x, wants);
    ASSERT(memchr(said.unread, 0, sizeof said.unread));
    arena_release(&a);
    return 0;
}
