/* SPDX-License-Identifier: Apache-2.0
 *
 * Who comes in: names, pages, willingness, keys, scopes, limits, and in which order they are asked.
 */
#include "server/http/front.h"

#include <string.h>

#include "api/error.h"
#include "server/http/call_own.h"
#include "tests/lib/test.h"

static const struct route open_route = {.name = "health", .method = "GET", .scope = SCOPE_OPEN};
static const struct route chat_route = {.name = "chat", .method = "POST", .scope = SCOPE_INFERENCE};
static const struct route metrics_route = {
    .name = "metrics", .method = "GET", .scope = SCOPE_ADMIN};

struct world {
    struct front front;
    struct call call;
    struct api_error error;
    enum front_will will;
    size_t now;
};

static int setup(void **state)
{
    static struct world w;
    static const char *names[] = {"name.example", "[2001:db8::1]"};
    static const char *origins[] = {"http://page.example"};
    struct err e = ERR_INIT;
    memset(&w, 0, sizeof w);
    w.front = (struct front){.auth = auth_new((struct limit_rule){0}),
                             .host = "192.0.2.7",
                             .allowed_host = {names, 2},
                             .cors_origin = {origins, 1},
                             .retry_s = 7};
    assert_good(auth_add(w.front.auth, "one", SCOPE_INFERENCE, "key-one-1",
                         &(struct limit_rule){.requests_min = 2}, &e),
                &e);
    assert_good(auth_add(w.front.auth, "root", SCOPE_ADMIN, "key-root", NULL, &e), &e);
    arena_init(&w.call.arena, 1 << 20);
    buf_init(&w.call.out, 1 << 20);
    *state = &w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    auth_unref(w->call.auth);
    auth_unref(w->front.auth);
    arena_release(&w->call.arena);
    buf_release(&w->call.out);
    return 0;
}

/* As a new request: its status, 0 where it goes on to the handler. */
static int ask(struct world *w, const struct route *r, struct http_headers h)
{
    struct route_match m = {.route = r, .allow = "GET, POST"};
    w->call.header = NULL;
    w->call.answer = CALL_NONE;
    w->call.closes = false;
    w->call.status = 0;
    w->call.req.who = NULL;
    auth_unref(w->call.auth);
    w->call.auth = NULL;
    w->error = (struct api_error){0};
    h.method = h.method ? h.method : "POST";
    h.host = h.host ? h.host : "localhost";
    if (front_admit(&w->front, w->will, w->now, &w->call, &h, &m, &w->error))
        return w->error.status;
    return w->call.status;
}

static int ask_key(struct world *w, const struct route *r, const char *key)
{
    int status = ask(w, r, (struct http_headers){.authorization = key});
    limit_give(&w->call.grant, 0, 0);
    return status;
}

static const char *header(const struct world *w, const char *name)
{
    for (const struct call_pair *p = w->call.header; p; p = p->next)
        if (strcmp(p->name, name) == 0)
            return p->value;
    return "";
}

/* A name that a page could have pointed here. */
static void test_names(void **state)
{
    static const char *const good[] = {
        "localhost",    "LOCALHOST:8080", "127.0.0.1",      "127.0.0.1:1", "[::1]:8080",
        "192.0.2.7:80", "name.example",   "Name.Example:1", "localhost:",  "[2001:db8::1]:80",
    };
    static const char *const bad[] = {
        "",
        ":80",
        "evil.example",
        "localhost.evil.example",
        "xlocalhost",
        "localhost:80x",
        "localhost:80:80",
        "localhost@evil.example",
        "localhost ",
        "[::1",
        "[::1]x",
        "[::1].evil.example",
        "::1",
        "192.0.2.77",
        "name.example.",
        "192.0.2.8",
        "[",
        "[]",
        "name.example/path",
        "127.0.0.1.evil.example",
    };
    struct world *w = *state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (!front_knows_host(&w->front, good[i]))
            fail_msg("refused: \"%s\"", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (front_knows_host(&w->front, bad[i]))
            fail_msg("taken: \"%s\"", bad[i]);
    assert_int_equal(ask(w, &open_route, (struct http_headers){.host = "evil.example"}), 403);
    assert_string_equal(w->error.code, "host_not_allowed");
    struct http_headers local = {.host = "evil.example", .is_local = true};
    assert_int_equal(ask(w, &open_route, local), 0);
    local.origin = "http://strange.example";
    assert_int_equal(ask(w, &open_route, local), 403);
}

/* Where every address is ours, a name that only looks like one. */
static void test_addresses(void **state)
{
    struct world *w = *state;
    w->front.any_address = true;
    assert_true(front_knows_host(&w->front, "198.51.100.1:80"));
    assert_true(front_knows_host(&w->front, "[2001:db8::2]"));
    assert_false(front_knows_host(&w->front, "198.51.100.1.evil.example"));
    assert_false(front_knows_host(&w->front, "198.51.100"));
    assert_false(front_knows_host(&w->front, "[evil.example]"));
    assert_false(front_knows_host(&w->front, "[198.51.100.1]"));
    w->front.any_host = true;
    assert_true(front_knows_host(&w->front, "evil.example"));
}

/* A foreign page that is answered, or an allowed one that may not read the answer. */
static void test_origins(void **state)
{
    struct world *w = *state;
    struct http_headers h = {.origin = "http://evil.example"};
    assert_int_equal(ask(w, &open_route, h), 403);
    assert_string_equal(w->error.code, "origin_not_allowed");
    assert_string_equal(header(w, "Access-Control-Allow-Origin"), "");
    h.origin = "null";
    assert_int_equal(ask(w, &open_route, h), 403);
    h.origin = "http://page.example.evil.example";
    assert_int_equal(ask(w, &open_route, h), 403);
    h.origin = "http://page.example";
    assert_int_equal(ask(w, &open_route, h), 0);
    assert_string_equal(header(w, "Access-Control-Allow-Origin"), "http://page.example");
    assert_string_equal(header(w, "Vary"), "Origin");
    h = (struct http_headers){.origin = "http://localhost:80", .host = "localhost:80"};
    assert_int_equal(ask(w, &open_route, h), 0);
    h.host = "localhost:81";
    assert_int_equal(ask(w, &open_route, h), 403);
    static const char *any[] = {"*"};
    w->front.cors_origin = (struct opt_list){any, 1};
    h.origin = "http://evil.example";
    assert_int_equal(ask(w, &open_route, h), 0);
}

/* A preflight that wants the key that it can never carry, or one that opens to foreign pages. */
static void test_preflight(void **state)
{
    struct world *w = *state;
    struct http_headers h = {.method = "OPTIONS", .origin = "http://page.example"};
    static char endless[1100];
    assert_int_equal(ask(w, NULL, h), 204);
    assert_string_equal(header(w, "Access-Control-Allow-Methods"), "GET, POST");
    assert_non_null(strstr(header(w, "Access-Control-Allow-Headers"), "authorization"));
    h.asks_headers = "authorization,x-stainless-os, X-Stainless-Retry-Count";
    assert_int_equal(ask(w, NULL, h), 204);
    assert_non_null(strstr(header(w, "Access-Control-Allow-Headers"), "x-stainless-os"));
    assert_non_null(strstr(header(w, "Access-Control-Allow-Headers"), "X-Stainless-Retry-Count"));
    memset(endless, 'x', sizeof endless - 1);
    static const char *const bad[] = {"a\r\nSet-Cookie: b", "*", "a;b", "\"a\"", endless};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        h.asks_headers = bad[i];
        assert_int_equal(ask(w, NULL, h), 204);
        assert_string_equal(header(w, "Access-Control-Allow-Headers"),
                            "authorization, content-type, x-request-id");
    }
    h.origin = "http://evil.example";
    assert_int_equal(ask(w, NULL, h), 403);
    h.origin = NULL; /* no page asks: the route table answers */
    assert_int_equal(ask(w, NULL, h), 0);
}

/* A key of another scope, none at all, or a wrong one; each is told what it is. */
static void test_keys(void **state)
{
    struct world *w = *state;
    assert_int_equal(ask_key(w, &chat_route, NULL), 401);
    assert_string_equal(w->error.code, "missing_api_key");
    assert_int_equal(ask_key(w, &chat_route, "Bearer wrong-key"), 401);
    assert_string_equal(w->error.code, "invalid_api_key");
    assert_int_equal(ask_key(w, &chat_route, "Bearer key-root"), 403);
    assert_int_equal(ask_key(w, &metrics_route, "Bearer key-one-1"), 403);
    assert_int_equal(ask_key(w, &metrics_route, "Bearer key-root"), 0);
    assert_int_equal(ask_key(w, &chat_route, "Bearer key-one-1"), 0);
    assert_string_equal(w->call.req.who->name, "one");
    assert_int_equal(ask_key(w, &open_route, "Bearer wrong-key"), 0);
    assert_int_equal(ask_key(w, &open_route, NULL), 0);
}

/* Faults: who has no key is not told how one is sent, as HTTP asks of a 401, or who has one is. */
static void test_challenge(void **state)
{
    struct world *w = *state;
    assert_int_equal(ask_key(w, &chat_route, NULL), 401);
    call_error(&w->call, &w->error);
    assert_string_equal(header(w, "WWW-Authenticate"), "Bearer");
    buf_release(&w->call.out); /* ask_key begins anew */
    assert_int_equal(ask_key(w, &chat_route, "Bearer key-root"), 403);
    call_error(&w->call, &w->error);
    assert_string_equal(header(w, "WWW-Authenticate"), "");
}

/* Strangers who learn whether the server is loading or full; a health check that is refused. */
static void test_will(void **state)
{
    struct world *w = *state;
    for (int i = FRONT_LOADING; i <= FRONT_REFUSING; i++) {
        w->will = (enum front_will)i;
        assert_int_equal(ask_key(w, &chat_route, NULL), 401);
        assert_int_equal(ask_key(w, &chat_route, "Bearer key-one-1"), 503);
        assert_int_equal(w->error.retry_after_s, 7);
        assert_int_equal(w->call.closes, i == FRONT_REFUSING);
        assert_int_equal(ask_key(w, &open_route, NULL), 0);
        assert_int_equal(ask_key(w, &metrics_route, "Bearer key-root"), 0);
        assert_int_equal(ask_key(w, &metrics_route, NULL), 401);
    }
    w->will = FRONT_GOOD;
    w->front.max_now = 3;
    w->now = 3; /* this one is among them */
    assert_int_equal(ask_key(w, &chat_route, "Bearer key-one-1"), 0);
    w->now = 4;
    assert_int_equal(ask_key(w, &chat_route, "Bearer key-one-1"), 503);
    assert_string_equal(w->error.code, "overloaded");
    assert_int_equal(ask_key(w, &open_route, NULL), 0);
}

/* A refusal that costs of the limit, a limit that is not told, or that closes open routes. */
static void test_limits(void **state)
{
    struct world *w = *state;
    w->will = FRONT_LOADING;
    assert_int_equal(ask_key(w, &chat_route, "Bearer key-one-1"), 503);
    w->will = FRONT_GOOD;
    assert_int_equal(ask_key(w, &chat_route, "Bearer key-one-1"), 0);
    assert_string_equal(header(w, "x-ratelimit-limit-requests"), "2");
    assert_string_equal(header(w, "x-ratelimit-remaining-requests"), "1");
    assert_string_equal(header(w, "x-ratelimit-limit-tokens"), "");
    assert_int_equal(ask_key(w, &chat_route, "Bearer key-one-1"), 0);
    /* fewer than two a minute can have come back, however long this test is kept waiting */
    struct auth_key *key = auth_find(w->front.auth, "Bearer key-one-1");
    key->limit.level->requests = -10;
    assert_int_equal(ask_key(w, &chat_route, "Bearer key-one-1"), 429);
    assert_null(w->call.grant.limit);
    assert_true(w->error.retry_after_s >= 1);
    assert_string_equal(header(w, "x-ratelimit-remaining-requests"), "0");
    assert_int_equal(ask_key(w, &open_route, "Bearer key-one-1"), 0);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_names), CASE(test_addresses), CASE(test_origins), CASE(test_preflight),
        CASE(test_keys),  CASE(test_challenge), CASE(test_will),    CASE(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
