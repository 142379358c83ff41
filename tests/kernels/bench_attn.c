/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention at the heads of real models, bf16 cells, of decode int8 too: decode over 4096 keys (and
 * one long sequence, which no cache holds), prompts, the gradient of a row of training. A
 * sequence's cells stand in scattered runs, as a pool would leave them: of 8 where texts are short,
 * of 64 where they are long (tests/engine/kv/test_table.c shows what a pool does).
 */
#include <math.h>
#include <stdio.h>

#include "kernels/attention.h"
#include "tests/kernels/bench.h"

struct heads {
    int32_t n_head, n_kv_head, d;
};

static const struct heads heads[] = {{9, 3, 64}, {14, 2, 64}, {32, 8, 64}, {32, 8, 128}};
enum { N_HEADS = sizeof heads / sizeof *heads };

enum { LONG = 4096, RUN_SHORT = 8, RUN_LONG = 64 };

static int64_t run_of(int64_t kv_len)
{
    return kv_len < LONG ? RUN_SHORT : RUN_LONG;
}

/* A permutation of runs of cells; a run divides the cells of a cache. */
static int64_t run_place(int64_t i, int64_t n)
{
    return n % 7919 ? i * 7919 % n : i; /* 7919 is prime */
}

/* n_seq sequences of kv_len keys each, whose last n_row are the rows of the call. */
static struct k_ragged batch_of(struct bench *b, int64_t n_seq, int64_t n_row, int64_t kv_len)
{
    int64_t run = run_of(kv_len), stride = (kv_len / K_CELL + run - 1) / run * run;
    int64_t n_tok = n_seq * n_row, n_place = n_seq * stride;
    int32_t *start = bench_alloc(b, (size_t)(2 * n_seq + 1 + 2 * n_tok + n_place) * sizeof *start);
    int32_t *len = start + n_seq + 1, *seq_of = len + n_seq, *pos = seq_of + n_tok;
    int32_t *cell = pos + n_tok;
    for (int64_t i = 0; i < n_seq * n_row; i++) {
        seq_of[i] = (int32_t)(i / n_row);
        pos[i] = (int32_t)(kv_len - n_row + i % n_row);
    }
    for (int64_t s = 0; s <= n_seq; s++)
        start[s] = (int32_t)(s * n_row);
    for (int64_t s = 0; s < n_seq; s++)
        len[s] = (int32_t)kv_len;
    for (int64_t i = 0; i < n_place; i++)
        cell[i] = (int32_t)(run_place(i / run, n_place / run) * run + i % run);
    return (struct k_ragged){n_seq, n_tok, start, len, seq_of, pos, cell, stride};
}

static struct k_attn attn_of(struct bench *b, const struct heads *h, int64_t n_seq, int64_t n_row,
                             int64_t kv_len, enum k_type type)
{
    struct k_attn a = {.n_head = h->n_head, .causal = true, .scale = 1 / sqrtf((float)h->d)};
    a.batch = batch_of(b, n_seq, n_row, kv_len);
    a.cache = (struct k_kv_cache){.type = type, .n_kv_head = h->n_kv_head, .d_head = h->d};
    a.cache.n_cell = n_seq * a.batch.cell_stride;
    size_t bytes =
        (size_t)(n_seq * a.batch.cell_stride * h->n_kv_head) * k_kv_cell_bytes(type, h->d);
    a.cache.k = bench_alloc(b, bytes);
    a.cache.v = bench_alloc(b, bytes);
    for (size_t i = 0; i < bytes / 2; i++) { /* numbers from 0.5 to 2 of either sign */
        uint32_t r = (uint32_t)i * 2654435761u;
        ((k_bf16 *)a.cache.k)[i] = (k_bf16)((r >> 16 & 0x80ffu) | 0x3f00u);
        ((k_bf16 *)a.cache.v)[i] = (k_bf16)((r >> 15 & 0x80ffu) | 0x3f00u);
    }
    a.ld_q = a.ld_y = h->n_head * h->d;
    a.q = bench_floats(b, a.batch.n_tok * a.ld_q);
    a.y = bench_floats(b, a.batch.n_tok * a.ld_y);
    a.lse = bench_floats(b, a.batch.n_tok * h->n_head);
    return a;
}

static void shape_name(char *to, size_t n, const struct heads *h, int64_t n_seq, int64_t kv_len,
                       enum k_type type)
{
    snprintf(to, n, "%d/%dx%d,%dx%d%s", h->n_head, h->n_kv_head, h->d, (int)n_seq, (int)kv_len,
             type == K_INT8 ? ",int8" : "");
}

static void forward(struct bench *b, const struct heads *h, int64_t n_seq, int64_t n_row,
                    int64_t kv_len, enum k_type type)
{
    char shape[48];
    if (!bench_wants_rows(b, n_seq * n_row))
        return;
    struct k_attn a = attn_of(b, h, n_seq, n_row, kv_len, type);
    shape_name(shape, sizeof shape, h, n_seq, kv_len, type);
    bench_run(b, &(struct bench_case){K_attn, shape, n_seq * n_row, &a, LIMIT_BF16, 0});
    if (n_row == 1 && n_seq == 1) {
        struct k_attn_part p = {.fwd = a, .n_chunk = (kv_len + K_ATTN_CHUNK - 1) / K_ATTN_CHUNK};
        p.part = bench_floats(b, h->n_head * p.n_chunk * (h->d + 2));
        bench_run(b, &(struct bench_case){K_attn_part, shape, 1, &p, LIMIT_BF16, 0});
        bench_run(b, &(struct bench_case){K_attn_merge, shape, 1, &p, LIMIT_F32, 0});
    }
}

static void backward(struct bench *b, const struct heads *h, int64_t n_seq, int64_t len)
{
    char shape[48];
    if (!bench_wants_rows(b, n_seq * len))
        return;
    struct k_attn_bwd a = {.fwd = attn_of(b, h, n_seq, len, len, K_BF16)};
    int64_t ld = h->n_head * h->d, ld_kv = h->n_kv_head * h->d, n_tok = n_seq * len;
    bench_prepare(b, K_attn, &a.fwd);
    a.dy = bench_floats(b, n_tok * ld);
    a.dq = bench_floats(b, n_tok * ld);
    a.dk = bench_floats(b, n_tok * ld_kv);
    a.dv = bench_floats(b, n_tok * ld_kv);
    a.ld_dy = a.ld_dq = ld;
    a.ld_dk = a.ld_dv = ld_kv;
    shape_name(shape, sizeof shape, h, n_seq, len, K_BF16);
    a.part = bench_floats(b, (int64_t)attn_part_floats(n_tok, h->n_head, h->d));
    bench_run(b, &(struct bench_case){K_attn_bwd_kv, shape, n_tok, &a, LIMIT_BF16, 0});
    bench_run(b, &(struct bench_case){K_attn_bwd_q, shape, n_tok, &a, LIMIT_BF16, 0});
}

void bench_attn_decode(struct bench *b)
{
    static const int64_t seqs[] = {1, 8, 32};
    if (!bench_wants(b, K_attn) && !bench_wants(b, K_attn_part))
        return;
    for (int s = 0; s < 3; s++)
        forward(b, &heads[0], seqs[s], 1, 4096, K_BF16);
    for (int s = 0; s < 3; s++)
        forward(b, &heads[3], seqs[s], 1, 4096, K_BF16);
    forward(b, &heads[1], 32, 1, 4096, K_BF16);
    for (int i = 0; i < N_HEADS; i++)
        forward(b, &heads[i], 8, 1, 4096, K_INT8);
}

void bench_attn_decode_short(struct bench *b)
{
    static const struct heads alike = {6, 6, 48};
    if (!bench_wants(b, K_attn))
        return;
    forward(b, &heads[0], 256, 1, 250, K_BF16);
    forward(b, &alike, 256, 1, 100, K_BF16);
    forward(b, &heads[1], 256, 1, 250, K_BF16);
}

void bench_attn_decode_long(struct bench *b)
{
    if (!bench_wants(b, K_attn) && !bench_wants(b, K_attn_part))
        return;
    forward(b, &heads[0], 1, 1, 131072, K_BF16);
    forward(b, &heads[3], 1, 1, 32768, K_BF16);
}

void bench_attn_prompt(struct bench *b)
{
    if (!bench_wants(b, K_attn))
        return;
    for (int i = 0; i < N_HEADS; i++) {
        forward(b, &heads[i], 1, 512, 512, K_BF16);
        forward(b, &heads[i], 1, 2048, 2048, K_BF16);
    }
}

void bench_attn_bwd(struct bench *b)
{
    if (!bench_wants(b, K_attn_bwd_q) && !bench_wants(b, K_attn_bwd_kv))
        return;
    for (int i = 0; i < N_HEADS; i++)
        backward(b, &heads[i], 1, 512);
}
