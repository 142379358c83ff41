/* SPDX-License-Identifier: Apache-2.0
 *
 * A pass of Tinker's API as messages of protocol buffers: what is read of it, and what is refused.
 */
#include "api/tinker.h"

#include <math.h>
#include <string.h>

#include "api/wire.h"
#include "tests/lib/own_arena.h"
#include "tests/lib/test.h"

enum { ROOM = 1 << 16, FLOAT32 = 1, INT64 = 2 };

static const int32_t ids[] = {7, 8, 9};
static const int64_t labels[] = {8, 9, INT32_MAX}, whole[] = {3, 0, -2};
static const float parts[] = {0.5f, 0, -2};

static void begin(struct buf *b)
{
    buf_init(b, ROOM);
}

/* A row's tokens, as a chunk of text of n of the ids from the first. */
static void put_chunk(struct buf *row, size_t first, size_t n)
{
    struct buf text, chunk, input;
    begin(&text);
    begin(&chunk);
    begin(&input);
    wire_put_bytes(&text, 1, ids + first, n * sizeof *ids);
    wire_put_buf(&chunk, 1, &text);
    buf_add(&input, chunk.data, chunk.len);
    buf_release(&chunk);
    wire_put_buf(row, 1, &input);
}

/* One of the inputs, of three numbers. */
static void put_input(struct buf *row, const char *key, uint64_t type, const void *p, size_t bytes,
                      int n_dim)
{
    struct buf tensor, entry;
    begin(&tensor);
    begin(&entry);
    wire_put_bytes(&tensor, 1, p, bytes);
    wire_put_int(&tensor, 3, type);
    for (int i = 0; i < n_dim; i++)
        wire_put_int(&tensor, 4, 3);
    wire_put_text(&entry, 1, key);
    wire_put_buf(&entry, 2, &tensor);
    wire_put_buf(row, 2, &entry);
}

static void put_labels(struct buf *row)
{
    put_input(row, "target_tokens", INT64, labels, sizeof labels, 1);
}

static void begin_row(struct buf *row)
{
    begin(row);
    put_chunk(row, 0, 2);
    put_chunk(row, 2, 1);
}

static int read_one(struct buf *row, struct tinker_pass *p, struct api_error *e)
{
    struct buf body;
    begin(&body);
    wire_put_text(&body, 4, "importance_sampling");
    wire_put_buf(&body, 3, row);
    *e = (struct api_error){0};
    int rc = tinker_pass_read(body.data, body.len, &own_arena, p, e);
    buf_release(&body);
    return rc;
}

/* Faults: chunks that overwrite one another, numbers of one type read as of the other. */
static void numbers_come_in_both_types(void **state)
{
    struct tinker_pass p;
    struct api_error e;
    struct buf row;
    (void)state;
    begin_row(&row);
    put_labels(&row);
    put_input(&row, "logprobs", INT64, whole, sizeof whole, 1);
    put_input(&row, "advantages", FLOAT32, parts, sizeof parts, 1);
    assert_int_equal(read_one(&row, &p, &e), 0);
    assert_string_equal(p.loss, "importance_sampling");
    assert_true(p.n_row == 1 && !p.is_forward_only && p.row->n == 3);
    assert_true(isnan(p.low) && isnan(p.high) && isnan(p.beta));
    assert_memory_equal(p.row->id, ids, sizeof ids);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(p.row->label[i], labels[i]);
        assert_true(p.row->sampled[i] == (float)whole[i] && p.row->counts[i] == parts[i]);
    }
}

static void assert_refused(struct buf *row, const char *code, const char *words)
{
    struct tinker_pass p;
    struct api_error e;
    assert_int_not_equal(read_one(row, &p, &e), 0);
    assert_int_equal(e.status, 400);
    assert_string_equal(e.code, code);
    if (!strstr(e.message, words))
        fail_msg("\"%s\" is not in \"%s\"", words, e.message);
}

/* Faults: what does not fit is taken, or refused with words that name another thing. */
static void rows_that_do_not_fit_are_refused(void **state)
{
    static const float odd[] = {1, INFINITY, 1};
    static const int64_t far[] = {1, 1 + (int64_t)INT32_MAX, 1}, below[] = {0, -1, 0};
    static const struct {
        const char *key;
        uint64_t type;
        const void *p;
        size_t bytes;
        int n_dim;
        const char *code, *words;
    } bad[] = {
        {"logprobs", FLOAT32, odd, sizeof odd, 1, "invalid_value", "number 1 of 'logprobs'"},
        {"logprobs", FLOAT32, parts, 8, 1, "invalid_value", "3 tokens and 2 'logprobs'"},
        {"weights", FLOAT32, parts, 4, 1, "invalid_value", "3 tokens and 1 'weights'"},
        {"advantages", FLOAT32, parts, 4, 1, "invalid_value", "3 tokens and 1 'advantages'"},
        {"logprobs", FLOAT32, parts, 7, 1, "invalid_message", "Row 0"},
        {"logprobs", INT64, whole, 12, 1, "invalid_message", "Row 0"},
        {"logprobs", 3, parts, sizeof parts, 1, "invalid_message", "Row 0"},
        {"logprobs", FLOAT32, parts, sizeof parts, 2, "unsupported_shape", "one dimension"},
        {"others", FLOAT32, parts, sizeof parts, 1, "unknown_field", "'others'"},
        {"target_tokens", INT64, far, sizeof far, 1, "invalid_value", "of type int64"},
        {"target_tokens", INT64, below, sizeof below, 1, "invalid_value", "of type int64"},
        {"target_tokens", FLOAT32, parts, sizeof parts, 1, "invalid_value", "of type int64"},
    };
    struct buf row;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        begin_row(&row);
        put_labels(&row);
        put_input(&row, bad[i].key, bad[i].type, bad[i].p, bad[i].bytes, bad[i].n_dim);
        assert_refused(&row, bad[i].code, bad[i].words);
    }
    begin_row(&row);
    assert_refused(&row, "missing_field", "'target_tokens'");
    begin(&row);
    put_labels(&row);
    assert_refused(&row, "missing_field", "tokens");
    begin_row(&row);
    put_labels(&row);
    put_input(&row, "weights", FLOAT32, parts, sizeof parts, 1);
    put_input(&row, "advantages", FLOAT32, parts, sizeof parts, 1);
    assert_refused(&row, "invalid_value", "'weights' and 'advantages'");
}

static void put_config(struct buf *body, const char *key, double x)
{
    struct buf entry;
    begin(&entry);
    wire_put_text(&entry, 1, key);
    wire_put_double(&entry, 2, x);
    wire_put_buf(body, 5, &entry);
}

/* Faults: a number of the loss that is another's, or none at all; a pass that is more than read. */
static void a_loss_has_its_numbers(void **state)
{
    struct tinker_pass p;
    struct api_error e = {0};
    struct buf body, row;
    (void)state;
    begin(&body);
    begin_row(&row);
    put_labels(&row);
    wire_put_buf(&body, 3, &row);
    wire_put_int(&body, 6, 1);
    put_config(&body, "clip_low_threshold", 0.75);
    put_config(&body, "clip_high_threshold", 1.5);
    put_config(&body, "beta", 0);
    assert_int_equal(tinker_pass_read(body.data, body.len, &own_arena, &p, &e), 0);
    assert_true(p.low == 0.75 && p.high == 1.5 && p.beta == 0 && p.is_forward_only);
    put_config(&body, "beta", -1);
    assert_int_not_equal(tinker_pass_read(body.data, body.len, &own_arena, &p, &e), 0);
    assert_string_equal(e.param, "loss_fn_config");
    assert_int_not_equal(tinker_pass_read(body.data, 0, &own_arena, &p, &e), 0);
    assert_string_equal(e.param, "data");
    assert_int_not_equal(tinker_pass_read(body.data, 1, &own_arena, &p, &e), 0);
    assert_string_equal(e.code, "invalid_message");
    buf_release(&body);
}

#define OWN(f) cmocka_unit_test_setup_teardown(f, own_arena_new, own_arena_free)

int main(void)
{
    const struct CMUnitTest tests[] = {
        OWN(numbers_come_in_both_types),
        OWN(rows_that_do_not_fit_are_refused),
        OWN(a_loss_has_its_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
