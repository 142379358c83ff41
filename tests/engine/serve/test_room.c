/* SPDX-License-Identifier: Apache-2.0
 *
 * The sizes of an engine, on models without memory.
 */
#include "tests/lib/test.h"

#include "engine/device/driver.h"
#include "engine/serve/room.h"
#include "tests/lib/tiny.h"

enum { HOST = 1 << 30 };

static struct model *model(enum config_family f, int64_t ctx)
{
    struct config c = tiny_config(f);
    struct err e = ERR_INIT;
    c.max_pos = ctx;
    struct model *m = model_new(&c, &(struct model_options){.type = -1, .kv_type = -1}, NULL, &e);
    assert_good(m ? 0 : -1, &e);
    return m;
}

static struct room_memory memory_of(const struct model *m, size_t free_bytes)
{
    return (struct room_memory){.free_bytes = free_bytes,
                                .kv_token_bytes = model_kv_token_bytes(m),
                                .state_bytes = model_state_bytes(m),
                                .host_bytes = HOST};
}

static struct room choose(const struct model *m, const struct engine_options *o, size_t free_bytes)
{
    struct room r;
    struct err e = ERR_INIT;
    const struct room_memory memory = memory_of(m, free_bytes);
    assert_good(room_choose(&r, m, o, &memory, &e), &e);
    return r;
}

/* Faults: cells that nobody can fill, a context that the cells do not hold, steps that cannot take
 * a token of everybody. */
static void memory_bounds_the_cells(void **state)
{
    (void)state;
    struct model *m = model(FAMILY_LLAMA, 1000);
    int64_t cell = (int64_t)model_kv_token_bytes(m) * K_CELL;
    struct room r = choose(m, &(struct engine_options){0}, (size_t)1 << 40);
    assert_int_equal(r.n_cell, 32 * r.cap_seq);
    assert_int_equal(r.ctx, 1000);
    assert_true(r.cap_tok >= r.cap_seq && r.cap_out >= r.cap_seq);
    r = choose(m, &(struct engine_options){0}, (size_t)(2 * 50 * cell + 1));
    assert_int_equal(r.n_cell, 50);
    assert_int_equal(r.ctx, 1000);
    r = choose(m, &(struct engine_options){.kv_bytes = 5 * cell + 7}, 0);
    assert_int_equal(r.n_cell, 5);
    assert_int_equal(r.ctx, 5 * K_CELL);
    struct err e = ERR_INIT;
    struct room_memory memory = memory_of(m, 0);
    assert_err(room_choose(&r, m, &(struct engine_options){.kv_bytes = cell - 1}, &memory, &e), &e,
               ERR_TOO_LARGE, "--kv-memory");
    memory = memory_of(m, (size_t)cell);
    assert_err(room_choose(&r, m, &(struct engine_options){0}, &memory, &e), &e, ERR_NO_MEMORY,
               "--kv-memory");
    model_free(m);
}

/* Faults: options past any size that are multiplied unchecked. */
static void options_are_bounded(void **state)
{
    (void)state;
    struct model *m = model(FAMILY_LLAMA, 100);
    struct engine_options o = {.max_batch_tokens = INT64_MAX,
                               .max_seqs = INT64_MAX,
                               .max_waiting = INT64_MAX,
                               .kv_bytes = INT64_MAX,
                               .max_adapters = INT64_MAX,
                               .max_lora_rank = INT64_MAX};
    struct room r = choose(m, &o, HOST);
    assert_true(r.cap_seq <= 4096 && r.cap_tok <= 1 << 20 && r.max_waiting <= 1 << 20);
    assert_true(r.n_cell <= INT32_MAX && r.lora_rank <= 1024);
    o = (struct engine_options){.max_batch_tokens = 1, .max_seqs = 9};
    r = choose(m, &o, HOST);
    assert_int_equal(r.cap_seq, 9);
    assert_int_equal(r.cap_tok, 9);
    assert_int_equal(r.lora_rank, 0);
    model_free(m);
}

/* Faults: an encoder's longest text that no step can take. */
static void encoders_take_whole_texts(void **state)
{
    (void)state;
    struct model *m = model(FAMILY_BERT, 3000);
    struct room r = choose(m, &(struct engine_options){.max_batch_tokens = 64}, 0);
    assert_int_equal(r.ctx, 3000);
    assert_true(r.cap_tok >= 3000);
    assert_true(r.n_cell >= (3000 + K_CELL - 1) / K_CELL + r.cap_seq - 1);
    model_free(m);
}

/* Faults: states that leave no room for keys and values, or the other way round; more sequences at
 * once than there are states; snapshots that nobody will look for. */
static void states_are_a_share_of_the_memory(void **state)
{
    (void)state;
    struct model *m = model(FAMILY_QWEN3_5, 1000);
    int64_t cell = (int64_t)model_kv_token_bytes(m) * K_CELL, one = (int64_t)model_state_bytes(m);
    struct engine_options o = {.max_seqs = 8};
    assert_true(one > 0);
    struct room r = choose(m, &o, (size_t)1 << 40);
    assert_int_equal(r.cap_seq, 8);
    assert_int_equal(r.n_snapshot, 16);
    o.kv_bytes = 20 * one;
    r = choose(m, &o, 0);
    assert_int_equal(r.cap_seq, 5);
    assert_int_equal(r.n_snapshot, 5);
    assert_int_equal(r.n_cell, 10 * one / cell);
    o.no_prefix_cache = true;
    assert_int_equal(choose(m, &o, 0).n_snapshot, 0);
    struct err e = ERR_INIT;
    struct room_memory memory = memory_of(m, 0);
    assert_err(room_choose(&r, m, &(struct engine_options){.kv_bytes = one}, &memory, &e), &e,
               ERR_TOO_LARGE, "--kv-memory");
    model_free(m);
}

/* Faults: shares of a GPU's memory that are more than there is; a training that is kept room where
 * nobody can train, or on a CPU, whose pages are taken when they are touched. */
static void a_gpu_is_shared_out(void **state)
{
    static const struct device_driver driver = {.kind = DEVICE_CUDA};
    struct device gpu = {.driver = &driver};
    struct engine_options o = {.max_adapters = 4};
    (void)state;
    struct model *m = model(FAMILY_LLAMA, 1 << 20);
    size_t bytes = (size_t)64 << 20, token = model_kv_token_bytes(m);
    assert_int_equal(choose(m, &o, bytes).train_bytes, 0);
    m->device = &gpu;
    struct room r = choose(m, &o, bytes);
    size_t kv = (size_t)r.n_cell * K_CELL * token;
    assert_true(kv <= bytes / 2 && r.lora_bytes == bytes / 8);
    assert_int_equal(r.train_bytes, bytes - kv - bytes / 8 - bytes / 8);
    o.train_bytes = 12345;
    assert_int_equal(choose(m, &o, bytes).train_bytes, 12345);
    o.train_bytes = -1;
    assert_int_equal(choose(m, &o, bytes).train_bytes, 0);
    o = (struct engine_options){.kv_bytes = (int64_t)bytes};
    assert_int_equal(choose(m, &o, bytes).train_bytes, 0);
    m->device = NULL;
    model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_bounds_the_cells),
        cmocka_unit_test(options_are_bounded),
        cmocka_unit_test(encoders_take_whole_texts),
        cmocka_unit_test(states_are_a_share_of_the_memory),
        cmocka_unit_test(a_gpu_is_shared_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
