/* SPDX-License-Identifier: Apache-2.0
 *
 * Uploads in parts, as they are asked for.
 */
#include "api/parts.h"

#include <stdio.h>
#include <string.h>

#include "api/multipart.h"
#include "engine/base/arena.h"
#include "tests/lib/test.h"

#define REST "\"purpose\":\"batch\",\"bytes\":5,\"mime_type\":\"a\""

static bool is_taken(const char *body, struct parts *out, struct arena *a)
{
    struct api_error e = {0};
    return parts_ask_parse(body, strlen(body), a, out, &e) == 0;
}

/* Faults: the shortest or the longest name is refused, or an empty, a longer or a cut one taken. */
static void names_have_their_lengths(void **state)
{
    (void)state;
    char name[MULTIPART_NAME_MAX + 2], body[MULTIPART_NAME_MAX + 200];
    struct parts p;
    struct arena a;
    arena_init(&a, 1 << 20);
    memset(name, 'n', sizeof name);
    for (size_t n = 0; n <= MULTIPART_NAME_MAX + 1; n++) {
        snprintf(body, sizeof body, "{\"filename\":\"%.*s\"," REST "}", (int)n, name);
        bool is_good = n >= 1 && n <= MULTIPART_NAME_MAX;
        assert_int_equal(is_taken(body, &p, &a), is_good);
        if (is_good)
            assert_true(strlen(p.name) == n && p.bytes == 5 && strcmp(p.mime, "a") == 0);
    }
    assert_false(is_taken("{\"filename\":\"a\\u0000b\"," REST "}", &p, &a));
    assert_false(is_taken("{" REST "}", &p, &a));
    arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_have_their_lengths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
