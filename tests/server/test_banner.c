/* SPDX-License-Identifier: Apache-2.0
 *
 * Faults: a line to paste that asks another route than the model answers, or goes to no address
 * that can be asked, or without the key that is wanted; a model's name that ends a quotation in a
 * shell; a figure left out.
 */
#include "tests/lib/test.h"

#include <stdio.h>
#include <string.h>

#include "engine/engine.h"
#include "server/banner.h"

static const struct listen_at here = {.address = "127.0.0.1", .port = 8080, .is_loopback = true};

static struct engine_info a_model(const char *name)
{
    return (struct engine_info){.name = name,
                                .architecture = "llama",
                                .weights = "bf16",
                                .ctx = 2048,
                                .max_seqs = 64,
                                .max_waiting = 1000,
                                .generates = true,
                                .n_param = 2500000,
                                .kv_bytes = 3000000000,
                                .weight_bytes = 5000000,
                                .cell_tokens = 32,
                                .n_cell = 100,
                                .chat_template = "x"};
}

static void write(const struct banner *b, char text[4096])
{
    struct buf out;
    buf_init(&out, 4096);
    banner_write(b, &out);
    assert_false(out.failed);
    snprintf(text, 4096, "%s", out.data);
    buf_release(&out);
}

static void has(const char *text, const char *words)
{
    if (!strstr(text, words))
        fail_msg("%s\nis not in\n%s", words, text);
}

static void says_what_there_is(void **state)
{
    struct engine_info m = a_model("small");
    struct banner b = {.model = &m, .at = &here, .data_dir = "/srv/tandem", .threads = 2};
    char text[4096];
    (void)state;
    write(&b, text);
    has(text, "serves at http://127.0.0.1:8080\n");
    has(text, "small: llama, 2.5 million parameters, context 2048\n");
    has(text, "bf16");
    has(text, "5.0 MB weights, 3.0 GB keys and values: room for 3200 tokens\n");
    has(text, "64 sequences, 1000 more may wait; 2 threads\n");
    has(text, "keys     off");
    has(text, "on, in /srv/tandem\n");
    has(text, "curl http://127.0.0.1:8080/v1/chat/completions -H 'Content-Type: application/json'");
    has(text, "'{\"model\": \"small\", \"messages\": ");
    has(text, "curl http://127.0.0.1:8080/v1/files -F purpose=fine-tune");
    assert_null(strstr(text, "Bearer"));
    has(text, "\n  http://127.0.0.1:8080/   in a browser");
    has(text, "\n  tandem chat\n");
}

static void asks_what_is_answered(void **state)
{
    struct engine_info m = a_model("m");
    struct banner b = {.model = &m, .at = &here};
    char text[4096];
    (void)state;
    m.chat_template = NULL;
    write(&b, text);
    has(text, "/v1/completions");
    assert_null(strstr(text, "tandem chat"));
    has(text, "off: it wants --data-dir");
    assert_null(strstr(text, "/v1/files"));
    m.generates = false;
    write(&b, text);
    has(text, "/v1/embeddings");
    has(text, "\"input\"");
}

static void addresses(void **state)
{
    struct engine_info m = a_model("m");
    struct listen_at six = {.address = "::1", .port = 9}, all = {.address = "::", .port = 9};
    struct banner b = {.model = &m, .at = &six, .wants_key = true};
    char text[4096];
    (void)state;
    write(&b, text);
    has(text, "curl http://[::1]:9/v1/models -H \"Authorization: Bearer $TANDEM_API_KEY\"\n");
    has(text, "keys     on\n");
    has(text, "\n  tandem chat --url http://[::1]:9\n");
    all.is_wild = true;
    b.at = &all;
    write(&b, text);
    has(text, "curl http://localhost:9/v1/models");
}

static void hostile_names(void **state)
{
    struct engine_info m = a_model("x'; rm -rf ~; '");
    struct banner b = {.model = &m, .at = &here};
    char text[4096];
    (void)state;
    write(&b, text);
    has(text, "\"model\": \"NAME\"");
    assert_null(strstr(strstr(text, "To try"), "rm -rf"));
}

/* Faults: a part's memory shown as the whole's without a word. */
static void says_that_ranks_share_it(void **state)
{
    struct engine_info m = a_model("small");
    struct banner b = {.model = &m, .at = &here, .threads = 2};
    char text[4096];
    (void)state;
    write(&b, text);
    assert_null(strstr(text, "ranks"));
    m.n_rank = 2;
    write(&b, text);
    has(text, "ranks    2 share it");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(says_that_ranks_share_it), cmocka_unit_test(says_what_there_is),
        cmocka_unit_test(asks_what_is_answered), cmocka_unit_test(addresses),
        cmocka_unit_test(hostile_names)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
