/* SPDX-License-Identifier: Apache-2.0
 *
 * One for the process, as cmocka runs one test after the other.
 */
#include "tests/lib/own_arena.h"

struct arena own_arena;

int own_arena_new(void **state)
{
    (void)state;
    arena_init(&own_arena, 1 << 20);
    return 0;
}

int own_arena_free(void **state)
{
    (void)state;
    arena_release(&own_arena);
    return 0;
}
