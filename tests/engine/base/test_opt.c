/* SPDX-License-Identifier: Apache-2.0
 *
 * Options: precedence, forms, refusals, and the page of --help.
 */
#include "tests/lib/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/aside.h"
#include "engine/base/opt.h"

struct values {
    const char *host, *device, *config;
    int64_t port, memory;
    double share;
    bool is_verbose, has_warmup;
    struct opt_list adapter;
};

#define AT(field) offsetof(struct values, field)

static const struct opt_row rows[] = {
    {"Network", "host", 0, OPT_TEXT, "127.0.0.1", 0, 0, "ADDRESS", "address to listen on",
     AT(host)},
    {NULL, "port", 'p', OPT_INT, "8080", 1, 65535, "N", "port to listen on", AT(port)},
    {"Engine", "device", 0, OPT_CHOICE, "auto", 0, 0, "auto|cpu|cuda", "where to compute",
     AT(device)},
    {NULL, "kv-memory", 0, OPT_SIZE, NULL, 1 << 20, 1ll << 40, NULL, "memory for keys and values",
     AT(memory)},
    {NULL, "train-share", 0, OPT_DOUBLE, "0.2", 0, 1, "P",
     "how much of the time training may take while requests are waiting for their tokens",
     AT(share)},
    {NULL, "warmup", 0, OPT_BOOL, "true", 0, 0, NULL, "run once before the first request",
     AT(has_warmup)},
    {NULL, "verbose", 'v', OPT_BOOL, "false", 0, 0, NULL, "say more", AT(is_verbose)},
    {NULL, "adapter", 0, OPT_LIST, NULL, 0, 0, "NAME=DIR", "an adapter to load", AT(adapter)},
    {NULL, "config", 0, OPT_CONFIG, NULL, 0, 0, "FILE", "file of options", AT(config)},
};

static const struct opt_cmd cmd = {.name = "serve",
                                   .args = "[MODEL]",
                                   .about = "Serves a model over HTTP.",
                                   .max_arg = 1,
                                   .row = rows,
                                   .n_row = sizeof rows / sizeof *rows};

static char *dir, path[512];

static int setup(void **state)
{
    (void)state;
    dir = test_dir_new();
    snprintf(path, sizeof path, "%s/tandem.conf", dir);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    test_dir_free(dir);
    return 0;
}

#define PARSE(o, v, e, ...)                                                                        \
    parse((o), (v), (e), (const char *const[]){__VA_ARGS__},                                       \
          (int)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)))

static int parse(struct opt *o, struct values *v, struct err *e, const char *const *argv, int argc)
{
    *v = (struct values){0};
    return opt_init(o, &cmd, v, argc, argv, e);
}

/* Fault: a layer that overrides one above it, or a list that mixes layers. */
static void precedence(void **state)
{
    (void)state;
    struct opt o;
    struct values v;
    struct err e = ERR_INIT;
    static const char text[] = "port = 1\nhost = file\nkv-memory = 2M\nadapter = a=1\n"
                               "adapter = b=2\nwarmup = no\n";
    assert_int_equal(aside_put(path, text, sizeof text - 1, NULL), 0);
    setenv("TANDEM_PORT", "2", 1);
    setenv("TANDEM_KV_MEMORY", "3M", 1);
    assert_good(PARSE(&o, &v, &e, "--config", path, "--port", "3"), &e);
    assert_int_equal(v.port, 3);
    assert_int_equal(v.memory, 3 << 20);
    assert_string_equal(v.host, "file");
    assert_string_equal(v.device, "auto");
    assert_false(v.has_warmup);
    assert_int_equal(v.adapter.n, 2);
    assert_string_equal(v.adapter.at[1], "b=2");
    assert_int_equal(o.source[0], OPT_FILE);
    assert_int_equal(o.source[1], OPT_FLAG);
    assert_int_equal(o.source[2], OPT_DEFAULT);
    assert_int_equal(o.source[3], OPT_ENV);
    opt_release(&o);

    setenv("TANDEM_CONFIG", path, 1);
    setenv("TANDEM_ADAPTER", "c=3,,d=4,", 1);
    assert_good(PARSE(&o, &v, &e, "--warmup"), &e);
    assert_int_equal(v.port, 2);
    assert_true(v.has_warmup);
    assert_int_equal(v.adapter.n, 2);
    assert_string_equal(v.adapter.at[0], "c=3");
    assert_string_equal(v.adapter.at[1], "d=4");
    opt_release(&o);
    assert_good(PARSE(&o, &v, &e, "--adapter=e=5", "--adapter", "f,g=6"), &e);
    assert_int_equal(v.adapter.n, 2);
    assert_string_equal(v.adapter.at[0], "e=5");
    assert_string_equal(v.adapter.at[1], "f,g=6");
    opt_release(&o);
    unsetenv("TANDEM_PORT");
    unsetenv("TANDEM_KV_MEMORY");
    unsetenv("TANDEM_CONFIG");
    unsetenv("TANDEM_ADAPTER");
}

/* Fault: a service called tandem, whose link takes the option's name, keeps a server from starting.
 */
static void service_links_are_ignored(void **state)
{
    (void)state;
    struct opt o;
    struct values v;
    struct err e = ERR_INIT;
    setenv("TANDEM_PORT", "tcp://10.96.0.17:8080", 1);
    assert_good(PARSE(&o, &v, &e, "--port", "7"), &e);
    assert_int_equal(v.port, 7);
    opt_release(&o);
    assert_good(PARSE(&o, &v, &e, "m"), &e);
    assert_int_equal(o.source[1], OPT_DEFAULT);
    opt_release(&o);
    unsetenv("TANDEM_PORT");
}

/* Fault: a form of flag not understood, or an argument taken for a flag's value. */
static void forms(void **state)
{
    (void)state;
    struct opt o;
    struct values v;
    struct err e = ERR_INIT;
    assert_good(PARSE(&o, &v, &e, "-p", "5", "-v", "model", "--no-warmup", "--train-share=0.5"),
                &e);
    assert_int_equal(v.port, 5);
    assert_true(v.is_verbose && !v.has_warmup && v.share == 0.5);
    assert_int_equal(o.n_arg, 1);
    assert_string_equal(o.arg[0], "model");
    opt_release(&o);
    assert_good(PARSE(&o, &v, &e, "-p7", "--verbose=false", "--host=", "--", "--port"), &e);
    assert_int_equal(v.port, 7);
    assert_string_equal(v.host, "");
    assert_string_equal(o.arg[0], "--port");
    opt_release(&o);
    assert_good(PARSE(&o, &v, &e, "--host", "-x", "-"), &e);
    assert_string_equal(v.host, "-x");
    assert_string_equal(o.arg[0], "-");
    opt_release(&o);
    assert_good(PARSE(&o, &v, &e, "--port", "rubbish", "--help"), &e);
    assert_true(o.wants_help);
    opt_release(&o);
}

static void refused(const char *const *argv, int argc, const char *words)
{
    struct opt o;
    struct values v;
    struct err e = ERR_INIT;
    assert_err(parse(&o, &v, &e, argv, argc), &e, ERR_BAD_INPUT, words);
    assert_null(strchr(e.msg, '\n'));
    opt_release(&o);
}

#define REFUSED(words, ...)                                                                        \
    refused((const char *const[]){__VA_ARGS__},                                                    \
            (int)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)), (words))

/* Fault: a wrong option runs the program all the same, or the line does not help. */
static void refusals(void **state)
{
    (void)state;
    REFUSED("--prot: no such option; did you mean --port?", "--prot", "1");
    REFUSED("--kv_memory: no such option; did you mean --kv-memory?", "--kv_memory=1");
    REFUSED("--zzzzzzz: no such option; see tandem serve --help", "--zzzzzzz");
    REFUSED("--no-port: no such option", "--no-port");
    REFUSED("-x: no such option", "-x");
    REFUSED("--port: 70000 is not from 1 to 65535", "--port", "70000");
    REFUSED("-p: \"80a\" is not a whole number", "-p", "80a");
    REFUSED("--port needs a value", "--port");
    REFUSED("--port needs a value", "--port", "--host");
    REFUSED("--host=--x", "--host", "--x");
    REFUSED("--kv-memory: 1K is not from 1M to 1T", "--kv-memory", "1K");
    REFUSED("--train-share: 2 is not from 0 to 1", "--train-share=2");
    REFUSED("--device: \"gpu\" is none of auto|cpu|cuda", "--device=gpu");
    REFUSED("--device: \"\" is none of", "--device=");
    REFUSED("--device: \"auto|cpu\" is none of", "--device=auto|cpu");
    REFUSED("--verbose: \"maybe\" is neither", "--verbose=maybe");
    REFUSED("-v takes no value", "-vv");
    REFUSED("unexpected argument \"b\"", "a", "b");
    setenv("TANDEM_PORT", "x", 1);
    REFUSED("TANDEM_PORT: \"x\" is not a whole number", "m");
    unsetenv("TANDEM_PORT");
    static const char text[] = "# ok\nhots = 1\n", more[] = "port = 0\n", again[] = "config = x\n";
    aside_put(path, text, sizeof text - 1, NULL);
    REFUSED("tandem.conf:2: hots: no such option; did you mean host?", "--config", path);
    aside_put(path, more, sizeof more - 1, NULL);
    REFUSED("tandem.conf:1: port: 0 is not from 1 to 65535", "--config", path);
    aside_put(path, again, sizeof again - 1, NULL);
    REFUSED("tandem.conf:1: config: a file cannot name another", "--config", path);
}

/* Fault: a missing argument or file is not told. */
static void missing_things(void **state)
{
    (void)state;
    struct opt o;
    struct values v;
    struct err e = ERR_INIT;
    struct opt_cmd run = cmd;
    run.name = "run";
    run.args = "MODEL";
    run.min_arg = 1;
    assert_err(opt_init(&o, &run, &v, 0, NULL, &e), &e, ERR_BAD_INPUT,
               "MODEL is missing; see tandem run --help");
    opt_release(&o);
    assert_err(PARSE(&o, &v, &e, "--config", "/nonexistent"), &e, ERR_NOT_FOUND, "/nonexistent");
    opt_release(&o);
}

/* Fault: a page that speaks of a configuration file which the command does not take. */
static void help_of_files(void **state)
{
    (void)state;
    struct opt_cmd without = cmd;
    struct buf b;
    buf_init(&b, 1 << 16);
    opt_help(&cmd, OPT_PAGE_COLUMNS, &b);
    assert_non_null(strstr(b.data, "variable, which overrides the configuration file.\n"));
    buf_clear(&b);
    without.n_row--; /* --config is the last */
    opt_help(&without, OPT_PAGE_COLUMNS, &b);
    assert_non_null(strstr(b.data, "A flag overrides its variable.\n"));
    buf_release(&b);
}

/* Faults: a line wider than the page, an option or its variable left out, columns that do not
 * align. */
static void help_page(void **state)
{
    (void)state;
    struct buf b;
    char env[OPT_ENV_BYTES];
    buf_init(&b, 1 << 16);
    opt_help(&cmd, OPT_PAGE_COLUMNS, &b);
    assert_int_equal(buf_check(&b, "help", NULL), 0);
    for (size_t i = 0; i < cmd.n_row; i++) {
        assert_non_null(strstr(b.data, rows[i].name));
        assert_non_null(strstr(b.data, opt_env(&rows[i], env)));
    }
    assert_string_equal(opt_env(&rows[3], env), "TANDEM_KV_MEMORY");
    for (const char *line = b.data; *line; line += strcspn(line, "\n") + 1)
        assert_in_range(strcspn(line, "\n"), 0, 80);
    assert_non_null(strstr(b.data, "Usage: tandem serve [MODEL] [OPTION]...\n"));
    assert_non_null(strstr(b.data, "\nNetwork:\n      --host ADDRESS          address to"));
    assert_non_null(strstr(b.data, "  -p, --port N                port to listen on "
                                   "[TANDEM_PORT; default 8080]\n"));
    assert_non_null(strstr(b.data, "--[no-]warmup"));
    buf_clear(&b);
    opt_help(&cmd, 60, &b);
    for (const char *line = b.data; *line; line += strcspn(line, "\n") + 1)
        assert_in_range(strcspn(line, "\n"), 0, 60);
    buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest test[] = {
        cmocka_unit_test(precedence),     cmocka_unit_test(service_links_are_ignored),
        cmocka_unit_test(forms),          cmocka_unit_test(refusals),
        cmocka_unit_test(missing_things), cmocka_unit_test(help_page),
        cmocka_unit_test(help_of_files),
    };
    return cmocka_run_group_tests(test, setup, teardown);
}
