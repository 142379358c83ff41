/* SPDX-License-Identifier: Apache-2.0
 *
 * Names, versions and references of adapters, with readers beside loads.
 */
#include "tests/lib/test.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "engine/base/fs.h"
#include "engine/base/mem.h"
#include "engine/serve/registry.h"
#include "tests/lib/golden.h"

#define FOLDER "tests/golden/models/llama_plain/"

enum { READERS = 3, SWITCHES = 60 };

static struct registry *registry_for(const struct golden *g, int64_t n_max, size_t bytes_max)
{
    return registry_new(g->model, &(struct registry_limits){
                                      .n_max = n_max, .rank_max = 16, .bytes_max = bytes_max});
}

static void load(struct registry *r, const char *name, const char *sub, uint64_t *gone)
{
    struct err e = ERR_INIT;
    char dir[200];
    snprintf(dir, sizeof dir, "%s%s", FOLDER, sub);
    assert_good(registry_load(r, name, dir, gone, &e), &e);
}

/* Faults: a switch that takes the old version from who holds it, a version given twice or 0, a name
 * that stays behind a drop or goes with a load that failed. */
static void a_name_means_the_newest(void **state)
{
    struct golden g;
    struct err e = ERR_INIT;
    uint64_t gone = 9;
    struct registry_entry all[4];
    (void)state;
    golden_init_short(&g, "llama_plain", K_F32);
    size_t before = mem_stat().now_bytes;
    struct registry *r = registry_for(&g, 2, 1 << 30);
    assert_null(registry_get(r, "one"));
    load(r, "one", "lora", &gone);
    assert_int_equal(gone, 0);
    struct adapter *first = registry_get(r, "one");
    uint64_t version = adapter_version(first);
    assert_true(version > 0);
    load(r, "one", "lora_final", &gone);
    assert_int_equal(gone, version);
    struct adapter *second = registry_get(r, "one");
    assert_ptr_not_equal(first, second);
    assert_true(adapter_version(second) > version);
    assert_int_equal(registry_bytes(r), 2 * adapter_bytes(first));
    assert_int_equal(adapter_version(first), version); /* still there */
    adapter_unref(first);
    assert_int_equal(registry_bytes(r), adapter_bytes(second));
    assert_err(registry_load(r, "one", FOLDER "nothing", &gone, &e), &e, ERR_NOT_FOUND, "one");
    first = registry_get(r, "one");
    assert_ptr_equal(first, second);
    adapter_unref(first);
    load(r, "two", "lora", NULL);
    assert_int_equal(registry_list(r, all, 4), 2);
    assert_string_equal(all[0].name, "one");
    assert_string_equal(all[1].name, "two");
    assert_true(all[1].version > all[0].version && !all[0].is_known);
    assert_int_equal(registry_list(r, NULL, 0), 2);
    assert_good(registry_drop(r, "one", &gone, &e), &e);
    assert_int_equal(gone, adapter_version(second));
    assert_null(registry_get(r, "one"));
    assert_err(registry_drop(r, "one", &gone, &e), &e, ERR_NOT_FOUND, "one");
    adapter_unref(second);
    registry_free(r);
    assert_int_equal(mem_stat().now_bytes, before);
    golden_release(&g);
}

/* Faults: a limit off by one; a limit that hinders a new version; bytes that are not counted. */
static void limits_hold(void **state)
{
    struct golden g;
    struct err e = ERR_INIT;
    (void)state;
    golden_init_short(&g, "llama_plain", K_F32);
    struct registry *r = registry_for(&g, 2, 1 << 30);
    load(r, "a", "lora", NULL);
    load(r, "b", "lora", NULL);
    assert_err(registry_load(r, "c", FOLDER "lora", NULL, &e), &e, ERR_TOO_LARGE, "2 adapters");
    load(r, "b", "lora_final", NULL);
    assert_good(registry_drop(r, "a", NULL, &e), &e);
    load(r, "c", "lora", NULL);
    size_t bytes = registry_bytes(r) / 2;
    registry_free(r);
    r = registry_for(&g, 9, 2 * bytes);
    load(r, "a", "lora", NULL);
    struct adapter *old = registry_get(r, "a");
    load(r, "a", "lora", NULL);
    assert_err(registry_load(r, "a", FOLDER "lora", NULL, &e), &e, ERR_TOO_LARGE, "bytes");
    adapter_unref(old);
    load(r, "a", "lora", NULL);
    registry_free(r);
    r = registry_new(g.model,
                     &(struct registry_limits){.n_max = 9, .rank_max = 3, .bytes_max = 1 << 30});
    assert_err(registry_load(r, "a", FOLDER "lora", NULL, &e), &e, ERR_TOO_LARGE, "rank 4");
    registry_free(r);
    golden_release(&g);
}

static struct adapter *fetch(struct registry *r, const char *name)
{
    struct err e = ERR_INIT;
    struct adapter *a = NULL;
    assert_good(registry_fetch(r, name, &a, &e), &e);
    assert_string_equal(adapter_name(a), name);
    return a;
}

static void fetch_and_leave(struct registry *r, const char *name)
{
    adapter_unref(fetch(r, name));
}

static bool is_there(struct registry *r, const char *name)
{
    struct adapter *a = registry_get(r, name);
    adapter_unref(a);
    return a != NULL;
}

static void count_gone(void *ctx, uint64_t version)
{
    int *n = ctx;
    assert_true(version > 0);
    ++*n;
}

static void know(struct registry *r, const char *name)
{
    struct err e = ERR_INIT;
    assert_good(registry_know(r, name, FOLDER "lora", 7, &e), &e);
}

/* Faults: what is in use that makes place, or what was asked for last; one that is given out while
 * it is to leave; a place that is never found; one loaded by name that makes place; a bound that
 * does not hold. */
static void the_oldest_makes_place(void **state)
{
    struct golden g;
    struct err e = ERR_INIT;
    struct adapter *none;
    struct registry_entry all[8];
    int n_gone = 0;
    (void)state;
    golden_init_short(&g, "llama_plain", K_F32);
    size_t before = mem_stat().now_bytes;
    struct registry *r = registry_new(g.model, &(struct registry_limits){.n_max = 3,
                                                                         .rank_max = 16,
                                                                         .bytes_max = 1 << 30,
                                                                         .on_gone = count_gone,
                                                                         .gone_ctx = &n_gone});
    know(r, "a");
    know(r, "b");
    know(r, "c");
    know(r, "d");
    load(r, "mine", "lora", NULL);
    assert_true(registry_knows(r, "a") && !registry_knows(r, "mine") && !is_there(r, "a"));
    assert_int_equal(registry_list(r, all, 8), 5);
    assert_true(all[0].version > 0 && all[1].version == 0 && all[1].created == 7);
    fetch_and_leave(r, "a");
    fetch_and_leave(r, "b");
    fetch_and_leave(r, "a");
    fetch_and_leave(r, "c");
    assert_true(is_there(r, "a") && !is_there(r, "b") && is_there(r, "c"));
    assert_int_equal(n_gone, 1);
    struct adapter *a = fetch(r, "a"), *c = fetch(r, "c");
    assert_err(registry_fetch(r, "b", &none, &e), &e, ERR_BUSY, "in use");
    assert_null(registry_get(r, "a")); /* to leave: it was asked for before c */
    assert_err(registry_fetch(r, "a", &none, &e), &e, ERR_BUSY, "in use");
    assert_true(is_there(r, "c") && is_there(r, "mine"));
    adapter_unref(a);
    fetch_and_leave(r, "b");
    assert_true(!is_there(r, "a") && is_there(r, "b"));
    load(r, "more", "lora", NULL); /* b makes place */
    assert_err(registry_load(r, "third", FOLDER "lora", NULL, &e), &e, ERR_TOO_LARGE, "drop one");
    assert_int_equal(registry_bytes(r), 3 * adapter_bytes(c));
    adapter_unref(c);
    fetch_and_leave(r, "d");
    assert_good(registry_drop(r, "b", NULL, &e), &e);
    assert_err(registry_fetch(r, "b", &none, &e), &e, ERR_NOT_FOUND, "b");
    registry_free(r);
    assert_int_equal(mem_stat().now_bytes, before);
    golden_release(&g);
}

static size_t bytes_of_one(const struct golden *g)
{
    struct registry *r = registry_for(g, 9, 1 << 30);
    load(r, "a", "lora", NULL);
    size_t bytes = registry_bytes(r);
    registry_free(r);
    return bytes;
}

/* Faults: bytes that have no room while what nobody uses lies in it; files that cannot be read and
 * are read again for each who asks, or put others out. */
static void bytes_make_room_too(void **state)
{
    struct golden g;
    struct err e = ERR_INIT;
    struct adapter *none;
    (void)state;
    golden_init_short(&g, "llama_plain", K_F32);
    struct registry *r = registry_for(&g, 9, 2 * bytes_of_one(&g));
    know(r, "a");
    know(r, "b");
    know(r, "c");
    fetch_and_leave(r, "a");
    struct adapter *b = fetch(r, "b");
    fetch_and_leave(r, "c");
    assert_true(!is_there(r, "a") && is_there(r, "b") && is_there(r, "c"));
    assert_good(registry_know(r, "bad", FOLDER "nothing", 7, &e), &e);
    assert_err(registry_fetch(r, "bad", &none, &e), &e, ERR_CORRUPT, "'bad' is not served");
    assert_true(!registry_knows(r, "bad") && registry_why(r, "bad", &e) && is_there(r, "c"));
    adapter_unref(b);
    registry_free(r);
    golden_release(&g);
}

/* Fault: what there was no room for, that is taken as files that cannot be read, and never read
 * again. */
static void want_of_room_bars_no_name(void **state)
{
    struct golden g;
    struct err e = ERR_INIT;
    struct adapter *none;
    (void)state;
    golden_init_short(&g, "llama_plain", K_F32);
    struct registry *r = registry_for(&g, 9, bytes_of_one(&g));
    know(r, "a");
    know(r, "b");
    struct adapter *a = fetch(r, "a");
    assert_err(registry_fetch(r, "b", &none, &e), &e, ERR_BUSY, "in use");
    assert_true(registry_knows(r, "b") && !registry_why(r, "b", &e));
    adapter_unref(a);
    fetch_and_leave(r, "b");
    registry_free(r);
    r = registry_new(g.model,
                     &(struct registry_limits){.n_max = 9, .rank_max = 3, .bytes_max = 1 << 30});
    know(r, "a");
    assert_err(registry_fetch(r, "a", &none, &e), &e, ERR_TOO_LARGE, "rank 4");
    assert_true(registry_knows(r, "a") && !registry_why(r, "a", &e));
    registry_free(r);
    golden_release(&g);
}

/* Fault: a moment without descriptors, that is taken as files that cannot be read for ever. */
static void want_of_descriptors_bars_no_name(void **state)
{
    struct golden g;
    struct err e = ERR_INIT;
    struct adapter *none;
    struct rlimit had, few;
    (void)state;
    golden_init_short(&g, "llama_plain", K_F32);
    struct registry *r = registry_for(&g, 9, 1 << 30);
    know(r, "a");
    int next = open("/dev/null", O_RDONLY);
    assert_true(next >= 0 && !close(next));
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &had), 0);
    few = had;
    few.rlim_cur = (rlim_t)next;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    int rc = registry_fetch(r, "a", &none, &e);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &had), 0);
    assert_err(rc, &e, ERR_IO, "Too many open files");
    assert_null(strstr(e.msg, FOLDER));
    assert_true(registry_knows(r, "a") && !registry_why(r, "a", &e));
    fetch_and_leave(r, "a");
    registry_free(r);
    golden_release(&g);
}

static void put_file(const char *dir, const char *name, const void *data, size_t n)
{
    char path[400];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "wb");
    assert_true(f && fwrite(data, 1, n, f) == n && fclose(f) == 0);
}

/* Fault: good files that this server has nothing for, told as altered ones. */
static void what_is_not_served_here_is_not_altered(void **state)
{
    static const char config[] =
        "{\"peft_type\":\"LORA\",\"r\":4,\"lora_alpha\":8,\"target_modules\":"
        "[\"q_proj\"],\"modules_to_save\":[\"score\"]}";
    struct golden g;
    struct err e = ERR_INIT, why = ERR_INIT;
    struct adapter *none;
    struct buf b;
    char *dir = test_dir_new();
    (void)state;
    golden_init_short(&g, "llama_plain", K_F32);
    struct registry *r = registry_for(&g, 9, 1 << 30);
    buf_init(&b, 1 << 20);
    assert_good(fs_read(FOLDER "lora/adapter_model.safetensors", &b, &e), &e);
    put_file(dir, "adapter_model.safetensors", b.data, b.len);
    put_file(dir, "adapter_config.json", config, sizeof config - 1);
    buf_release(&b);
    assert_good(registry_know(r, "more", dir, 7, &e), &e);
    assert_err(registry_fetch(r, "more", &none, &e), &e, ERR_UNSUPPORTED, "'score'");
    assert_null(strstr(e.msg, "not what was published"));
    assert_true(!registry_knows(r, "more") && registry_why(r, "more", &why));
    assert_string_equal(why.msg, e.msg);
    registry_free(r);
    golden_release(&g);
    test_dir_free(dir);
}

/* Fault: a name that is a path, or breaks a log line. */
static void names_are_plain(void **state)
{
    static const char *const good[] = {"a", "7", "ft:base:org:suffix:Ab-1.2", "org/name_1"};
    static const char *const bad[] = {"",    ".a",  "/etc", "a/../b",   "a b",
                                      "a\n", "a\\", "-a",   "\xc3\xa9", "a..b"};
    char big[ADAPTER_NAME_BYTES + 1];
    struct err e = ERR_INIT;
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_good(registry_check_name(good[i], &e), &e);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_err(registry_check_name(bad[i], &e), &e, ERR_BAD_INPUT, "name");
    memset(big, 'a', sizeof big);
    big[ADAPTER_NAME_BYTES] = 0;
    assert_err(registry_check_name(big, &e), &e, ERR_BAD_INPUT, "255");
    big[ADAPTER_NAME_BYTES - 1] = 0;
    assert_good(registry_check_name(big, &e), &e);
}

struct reader {
    struct registry *r;
    atomic_bool *is_over;
    atomic_uint_fast64_t n;
};

static bool all_have_read(struct reader *d)
{
    bool all = true;
    for (int i = 0; i < READERS; i++)
        all = all && atomic_load(&d[i].n) > 0;
    return all;
}

static void *read_on(void *ctx)
{
    struct reader *d = ctx;
    uint64_t last = 0;
    while (!atomic_load(d->is_over)) {
        struct registry_entry all[2];
        struct adapter *a = registry_get(d->r, "hot");
        if (a && adapter_version(a) < last)
            return NULL;
        last = a ? adapter_version(a) : last;
        atomic_fetch_add(&d->n, a && adapter_rank(a) == 4);
        adapter_unref(a);
        if (registry_list(d->r, all, 2) && strcmp(all[0].name, "hot") != 0)
            return NULL;
    }
    return ctx;
}

/* Faults: a version freed under a reader, one that comes back after its successor. */
static void readers_beside_loads(void **state)
{
    struct golden g;
    struct err e = ERR_INIT;
    atomic_bool is_over = false;
    struct reader d[READERS];
    pthread_t t[READERS];
    (void)state;
    golden_init_short(&g, "llama_plain", K_F32);
    struct registry *r = registry_for(&g, 2, 1 << 30);
    for (int i = 0; i < READERS; i++) {
        d[i].r = r;
        d[i].is_over = &is_over;
        atomic_init(&d[i].n, 0);
        assert_int_equal(pthread_create(&t[i], NULL, read_on, &d[i]), 0);
    }
    for (int i = 0; i < SWITCHES || !all_have_read(d); i++) {
        load(r, "hot", i % 2 ? "lora" : "lora_final", NULL);
        if (i % 7 == 6)
            assert_good(registry_drop(r, "hot", NULL, &e), &e);
    }
    atomic_store(&is_over, true);
    for (int i = 0; i < READERS; i++) {
        void *good;
        pthread_join(t[i], &good);
        assert_ptr_equal(good, &d[i]);
    }
    load(r, "hot", "lora", NULL);
    struct adapter *a = registry_get(r, "hot");
    assert_int_equal(registry_bytes(r), adapter_bytes(a));
    adapter_unref(a);
    registry_free(r);
    golden_release(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_means_the_newest),
        cmocka_unit_test(limits_hold),
        cmocka_unit_test(the_oldest_makes_place),
        cmocka_unit_test(bytes_make_room_too),
        cmocka_unit_test(want_of_room_bars_no_name),
        cmocka_unit_test(names_are_plain),
        cmocka_unit_test(want_of_descriptors_bars_no_name),
        cmocka_unit_test(what_is_not_served_here_is_not_altered),
        cmocka_unit_test(readers_beside_loads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
