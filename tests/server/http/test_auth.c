/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys: which header opens what, and what a key file may say.
 */
#include "server/http/auth.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/sha256.h"
#include "tests/lib/test.h"

static const struct limit_rule rule = {.requests_min = 10, .tokens_min = 20, .at_once = 3};
enum { ALL = SCOPE_INFERENCE | SCOPE_TRAINING | SCOPE_ADMIN };

static const char *name_of(struct auth *a, const char *header)
{
    const struct auth_key *k = auth_find(a, header);
    return k ? k->who.name : "";
}

/* Without keys somebody is shut out; with one somebody comes in without. */
static void test_open(void **state)
{
    struct err e = ERR_INIT;
    struct auth *a = auth_new(rule);
    (void)state;
    assert_true(auth_is_open(a));
    assert_string_equal(name_of(a, NULL), "anonymous");
    assert_string_equal(name_of(a, "Bearer whatever"), "anonymous");
    assert_int_equal(auth_find(a, NULL)->who.scopes, ALL);
    assert_good(auth_add(a, "one", SCOPE_INFERENCE, "key-one-1", NULL, &e), &e);
    assert_false(auth_is_open(a));
    assert_null(auth_find(a, NULL));
    auth_unref(a);
}

/* A header that is nearly a key's. */
static void test_headers(void **state)
{
    static const char *const bad[] = {
        "",
        "Bearer",
        "Bearer ",
        "Bearer key-one-",
        "key-one-1",
        "Bearer key-one-1 ",
        "Bearer key-one-11",
        "Bearer KEY-ONE-1",
        "Basic key-one-1",
        "Bearerkey-one-1",
        "Bearer \tkey-one-1",
        "Bearer key-one-1,key-two-2",
    };
    struct err e = ERR_INIT;
    struct auth *a = auth_new(rule);
    (void)state;
    assert_good(auth_add(a, "one", SCOPE_INFERENCE, "key-one-1", NULL, &e), &e);
    assert_good(auth_add(a, "two", ALL, "key-two-2", NULL, &e), &e);
    assert_string_equal(name_of(a, "Bearer key-one-1"), "one");
    assert_string_equal(name_of(a, "bearer key-two-2"), "two");
    assert_string_equal(name_of(a, "BEARER   key-two-2"), "two");
    assert_int_equal(auth_find(a, "Bearer key-one-1")->who.scopes, SCOPE_INFERENCE);
    assert_int_not_equal(auth_find(a, "Bearer key-one-1")->who.salt,
                         auth_find(a, "Bearer key-two-2")->who.salt);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (auth_find(a, bad[i]))
            fail_msg("opened by \"%s\"", bad[i]);
    auth_unref(a);
}

/* A digest that is taken for a key: who reads the file could come in with what stands in it. */
static void test_digest(void **state)
{
    struct err e = ERR_INIT;
    struct auth *a = auth_new(rule);
    uint8_t digest[SHA256_BYTES];
    char text[8 + 2 * SHA256_BYTES] = "sha256:", header[128];
    (void)state;
    sha256_of("key-one-1", 9, digest);
    for (int i = 0; i < SHA256_BYTES; i++)
        snprintf(text + 7 + 2 * i, 3, i % 2 ? "%02x" : "%02X", (unsigned)digest[i]);
    assert_good(auth_add(a, "one", ALL, text, NULL, &e), &e);
    assert_string_equal(name_of(a, "Bearer key-one-1"), "one");
    snprintf(header, sizeof header, "Bearer %s", text);
    assert_null(auth_find(a, header));
    assert_err(auth_add(a, "again", ALL, "key-one-1", NULL, &e), &e, ERR_EXISTS, "\"one\"'s too");
    text[70] = 0;
    assert_err(auth_add(a, "short", ALL, text, NULL, &e), &e, ERR_BAD_INPUT, "64");
    assert_err(auth_add(a, "odd", ALL, "sha256:xyz", NULL, &e), &e, ERR_BAD_INPUT, "64");
    auth_unref(a);
}

/* Keys that are guessed at once, and names that break the log. */
static void test_bounds(void **state)
{
    struct err e = ERR_INIT;
    struct auth *a = auth_new(rule);
    char name[AUTH_NAME_MAX + 2], key[32];
    (void)state;
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = 0;
    assert_err(auth_add(a, "", ALL, "key-one-1", NULL, &e), &e, ERR_BAD_INPUT, "name");
    assert_err(auth_add(a, name, ALL, "key-one-1", NULL, &e), &e, ERR_BAD_INPUT, "name");
    assert_err(auth_add(a, "one", ALL, "1234567", NULL, &e), &e, ERR_BAD_INPUT, "8 characters");
    assert_true(auth_is_open(a));
    for (int i = 0; i < AUTH_KEYS_MAX; i++) {
        snprintf(key, sizeof key, "key-%08d", i);
        assert_good(auth_add(a, "one", ALL, key, NULL, &e), &e);
    }
    assert_err(auth_add(a, "one", ALL, "one-too-many", NULL, &e), &e, ERR_TOO_LARGE, "1024");
    assert_non_null(auth_find(a, "Bearer key-00001023"));
    auth_unref(a);
}

/* ---- the file ------------------------------------------------------------------------------ */

static int read_text(struct auth *a, const char *text, size_t n, struct err *e)
{
    char path[512], *dir = test_dir_new();
    snprintf(path, sizeof path, "%s/keys", dir);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, n, f), n);
    fclose(f);
    int rc = auth_read(a, path, e);
    test_dir_free(dir);
    return rc;
}

/* Limits that are those of another line; a comment that is a key; a last line without its end. */
static void key_file_bounds(void **state)
{
    static const char text[] =
        "# NAME SCOPES KEY\r\n\n"
        "one inference key-one-1 rpm=5 weight=3\r\n"
        "\t two\tinference,training   key-two-2 tpm=7 at_once=0 texts=11 jobs=12 jobs_waiting=13 adapters=14 bytes=15 # more\n"
        "three all key-three-3";
    struct err e = ERR_INIT;
    struct auth *a = auth_new(rule);
    (void)state;
    assert_good(read_text(a, text, sizeof text - 1, &e), &e);
    const struct auth_key *one = auth_find(a, "Bearer key-one-1");
    const struct auth_key *two = auth_find(a, "Bearer key-two-2");
    const struct auth_key *three = auth_find(a, "Bearer key-three-3");
    assert_string_equal(one->who.name, "one");
    assert_int_equal(one->who.scopes, SCOPE_INFERENCE);
    assert_int_equal(one->limit.rule.requests_min, 5);
    assert_int_equal(one->who.weight, 3);
    assert_int_not_equal(one->who.tenant, two->who.tenant);
    assert_int_equal(one->limit.rule.tokens_min, 20);
    assert_int_equal(two->who.scopes, SCOPE_INFERENCE | SCOPE_TRAINING);
    assert_int_equal(two->limit.rule.requests_min, 10);
    assert_int_equal(two->limit.rule.tokens_min, 7);
    assert_int_equal(two->limit.rule.at_once, 0);
    assert_ptr_equal(two->who.rule, &two->limit.rule);
    assert_int_equal(two->who.rule->texts, 11);
    assert_int_equal(two->who.rule->jobs, 12);
    assert_int_equal(two->who.rule->jobs_waiting, 13);
    assert_int_equal(two->who.rule->adapters, 14);
    assert_int_equal(two->who.rule->bytes, 15);
    assert_int_equal(three->who.scopes, ALL);
    assert_int_equal(three->limit.rule.at_once, 3);
    auth_unref(a);
}

/* A line that is not understood and passed over: a key with more than was meant, or none. */
static void test_bad_file(void **state)
{
    static const struct {
        const char *text, *words;
    } bad[] = {
        {"", "no key"},
        {"# only\n", "no key"},
        {"one\n", ":1: a line is"},
        {"\none all\n", ":2: a line is"},
        {"one all # key\n", "a line is"},
        {"one root key-one-1\n", "no scope \"root\""},
        {"one inference, key-one-1\n", "no scope \"\""},
        {"one infer key-one-1\n", "no scope"},
        {"one all key-one-1 rpm=\n", ":1"},
        {"one all key-one-1 rpm=-1\n", ":1"},
        {"one all key-one-1 rpm=1x\n", ":1"},
        {"one all key-one-1 rpm=9999999999999999999999\n", ":1"},
        {"one all key-one-1 rps=1\n", "rpm=N"},
        {"one all key-one-1 weight=0\n", ":1"},
        {"one all key-one-1 weight=1001\n", ":1"},
        {"one all key-one-1\ntwo all key-one-1\n", ":2: "},
        {"one all short\n", "8 characters"},
    };
    struct err e = ERR_INIT;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct auth *a = auth_new(rule);
        if (read_text(a, bad[i].text, strlen(bad[i].text), &e) == 0)
            fail_msg("taken: %s", bad[i].text);
        if (!strstr(e.msg, bad[i].words))
            fail_msg("%s: %s", bad[i].text, e.msg);
        auth_unref(a);
    }
    struct auth *a = auth_new(rule);
    assert_err(read_text(a, "one all key-one-1\n\0x", 20, &e), &e, ERR_BAD_INPUT, "zero byte");
    assert_int_not_equal(auth_read(a, "/none/such", &e), 0);
    auth_unref(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open),       cmocka_unit_test(test_headers),
        cmocka_unit_test(test_digest),     cmocka_unit_test(test_bounds),
        cmocka_unit_test(key_file_bounds), cmocka_unit_test(test_bad_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
