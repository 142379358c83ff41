/* SPDX-License-Identifier: Apache-2.0
 *
 * An arena of each test's own: setup and teardown for cmocka_unit_test_setup_teardown.
 */
#ifndef TESTS_LIB_OWN_ARENA_H
#define TESTS_LIB_OWN_ARENA_H

#include "engine/base/arena.h"

extern struct arena own_arena;
int own_arena_new(void **state);
int own_arena_free(void **state);

#endif
