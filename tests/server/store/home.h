/* SPDX-License-Identifier: Apache-2.0
 *
 * A folder and an arena of each test's own: setup and teardown for cmocka_unit_test_setup_teardown.
 */
#ifndef TESTS_SERVER_STORE_HOME_H
#define TESTS_SERVER_STORE_HOME_H

#include "tests/lib/test.h"

#include "engine/base/arena.h"

static char *dir;
static struct arena arena;

static inline int setup(void **state)
{
    (void)state;
    dir = test_dir_new();
    arena_init(&arena, 0);
    return 0;
}

static inline int teardown(void **state)
{
    (void)state;
    arena_release(&arena);
    test_dir_free(dir);
    return 0;
}

#endif
