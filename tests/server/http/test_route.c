/* SPDX-License-Identifier: Apache-2.0
 *
 * The route table and the router.
 */
#include <stdio.h>
#include <string.h>

#include "server/http/route.h"
#include "tests/lib/caller.h"
#include "tests/lib/test.h"

static void nothing(struct call *c)
{
    (void)c;
}

static const struct route table[] = {
    ROW("list", "GET", "/v1/things", 1, 0, nothing),
    ROW("make", "POST", "/v1/things", 1, 10, nothing),
    ROW("stop", "POST", "/v1/things/{id}/stop", 1, 0, nothing),
    ROW("get", "GET", "/v1/things/{id}", 1, 0, nothing),
    ROW("drop", "DELETE", "/v1/things/{id}", 1, 0, nothing),
};

static struct route_match match(const char *method, char *path)
{
    assert_int_equal(route_decode(path), 0);
    return route_find(table, sizeof table / sizeof *table, method, path);
}

static void expect(const char *method, const char *sent, const char *name, const char *param)
{
    char path[256];
    snprintf(path, sizeof path, "%s", sent);
    struct route_match m = match(method, path);
    assert_string_equal(m.route ? m.route->name : "", name);
    assert_int_equal(m.n_param, strlen(param));
    assert_memory_equal(m.param ? m.param : "", param, m.n_param);
}

/* A parameter that loses its colons or slashes; a prefix taken for the whole. */
static void test_finds(void **state)
{
    (void)state;
    expect("GET", "/v1/things", "list", "");
    expect("HEAD", "/v1/things", "list", "");
    expect("POST", "/v1/things", "make", "");
    expect("GET", "/v1/things/a", "get", "a");
    expect("GET", "/v1/things/ft:base:org:x:1:ckpt-step-88", "get", "ft:base:org:x:1:ckpt-step-88");
    expect("GET", "/v1/things/ft%3Abase%3aorg", "get", "ft:base:org");
    expect("GET", "/v1/things/org/name", "get", "org/name");
    expect("GET", "/v1/things/org%2Fname", "get", "org/name");
    expect("GET", "/v1/things/%C3%A9", "get", "\xc3\xa9");
    expect("POST", "/v1/things/a/b/stop", "stop", "a/b");
    expect("POST", "/v1/things//stop", "", "");
    expect("GET", "/v1/things/", "", "");
    expect("GET", "/v1/thing", "", "");
    expect("GET", "/v1/thingsx", "", "");
    expect("GET", "/", "", "");
    expect("GET", "", "", "");
}

/* 405 that does not say what would do, or says it twice; 404 that says anything. */
static void test_allow(void **state)
{
    (void)state;
    char a[] = "/v1/things", b[] = "/v1/things/x", c[] = "/nope";
    assert_string_equal(match("PUT", a).allow, "GET, POST");
    assert_string_equal(match("PUT", b).allow, "GET, DELETE");
    assert_string_equal(match("PUT", c).allow, "");
    assert_null(match("get", a).route);
}

/* An escape that reads past the end, or smuggles a control byte in. */
static void test_decode(void **state)
{
    static const char *const bad[] = {"/%",   "/%4",      "/%zz", "/%0",
                                      "/%00", "/a%0d%0a", "/%7f", "/%1F"};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char path[32];
        snprintf(path, sizeof path, "%s", bad[i]);
        assert_int_equal(route_decode(path), -1);
    }
}

/* What stands open: exactly these, by name. A route that is added is closed unless it is listed
 * here. */
static void test_open(void **state)
{
    static const char *const open[] = {"health",   "ping", "live",     "ready",        "v2_live",
                                       "v2_ready", "web",  "web_file", "tinker_health"};
    (void)state;
    for (size_t i = 0; i < n_routes; i++) {
        bool listed = false;
        for (size_t k = 0; k < sizeof open / sizeof *open; k++)
            listed |= strcmp(open[k], routes[i].name) == 0;
        assert_int_equal(routes[i].scope == SCOPE_OPEN, listed);
    }
}

/* A row that an earlier row hides; a body on a method that has none. */
static void test_rows(void **state)
{
    static const char *const known[] = {"chat", "completions", "embeddings"};
    size_t found = 0;
    (void)state;
    for (size_t i = 0; i < n_routes; i++) {
        const struct route *r = &routes[i];
        char path[128];
        snprintf(path, sizeof path, "%s", r->path);
        assert_ptr_equal(route_find(routes, n_routes, r->method, path).route, r);
        assert_true(r->max_body == 0 || strcmp(r->method, "POST") == 0);
        for (size_t k = 0; k < sizeof known / sizeof *known; k++)
            found += strcmp(known[k], r->name) == 0;
    }
    assert_int_equal(found, sizeof known / sizeof *known);
}

/* A thing of OpenAI's that is refused without its name, and a path that only begins alike. */
static void absent(void **state)
{
    (void)state;
    assert_string_equal(route_absent("/v1/messages/batches")->what, "Batches of messages");
    assert_string_equal(route_absent("/v1/images/edits")->what, "Images");
    assert_non_null(strstr(route_absent("/api/pull")->instead, "tandem pull"));
    assert_null(route_absent("/v1/imageses"));
    assert_null(route_absent("/v1/upload"));
    for (size_t i = 0; i < n_routes; i++)
        assert_null(route_absent(routes[i].path));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(absent),      cmocka_unit_test(test_finds), cmocka_unit_test(test_allow),
        cmocka_unit_test(test_decode), cmocka_unit_test(test_open),  cmocka_unit_test(test_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
