/* SPDX-License-Identifier: Apache-2.0
 *
 * Units and costs of attention. A unit of attn and attn_bwd_q is a tile of rows of one sequence
 * with the query heads that share a K/V head; of attn_part the same over one chunk of keys; of
 * attn_bwd_kv K_ATTN_KEYS keys, or a run of keys where there are parts, of one K/V head; of
 * kv_write, rope_kv and attn_merge a row.
 *
 * Costs: K and V are read once per sequence. A pair is a row's head and a key that it sees; a
 * product over d costs 2 d flops per pair.
 */
#include "kernels/attention.h"
#include "kernels/variants.h"

/* Sum over positions [lo, hi) of min(position + 1, most). */
static double seen_causal(double lo, double hi, double most)
{
    double knee = most < lo ? lo : most > hi ? hi : most;
    return (knee - lo) * (lo + 1 + knee) / 2 + (hi - knee) * most;
}

static double pair_count(const struct k_attn *a)
{
    double n = 0;
    for (int64_t s = 0; s < a->batch.n_seq; s++) {
        double n_row = (double)attn_row_count(&a->batch, s), kv_len = a->batch.kv_len[s];
        double most = a->window > 0 ? a->window : kv_len;
        if (a->causal)
            n += seen_causal(kv_len - n_row, kv_len, most);
        else
            n += n_row * (2 * most - 1 < kv_len ? 2 * most - 1 : kv_len);
    }
    return n * a->n_head;
}

/* Bytes of the K and V that the rows see, each once. */
static double kv_bytes(const struct k_attn *a)
{
    double n_key = 0;
    for (int64_t s = 0; s < a->batch.n_seq; s++) {
        int64_t n_row = attn_row_count(&a->batch, s);
        if (n_row > 0)
            n_key += (double)(a->batch.kv_len[s] - attn_seen(a, s, 0).lo);
    }
    return 2 * n_key * a->cache.n_kv_head *
           (double)(k_kv_cell_bytes(a->cache.type, a->cache.d_head) / K_CELL);
}

/* Bytes of an array like q. */
static double rows_bytes(const struct k_attn *a)
{
    return 4.0 * (double)a->batch.n_tok * a->n_head * a->cache.d_head;
}

static struct k_shape shape_of(const struct k_attn *a, enum k_attn_cut cut, double n_product,
                               double n_array)
{
    return (struct k_shape){.n_unit = attn_unit_count(a, cut),
                            .bytes = kv_bytes(a) + n_array * rows_bytes(a),
                            .flops = 2 * n_product * a->cache.d_head * pair_count(a)};
}

struct k_shape attn_shape(const void *args)
{
    return shape_of(args, K_CUT_ROWS, 2, 2);
}

static double part_bytes(const struct k_attn_part *a)
{
    double n_part = 0;
    for (int64_t s = 0; s < a->fwd.batch.n_seq; s++)
        n_part += (double)attn_row_count(&a->fwd.batch, s) * a->fwd.batch.kv_len[s] / K_ATTN_CHUNK;
    return n_part * a->fwd.n_head * (a->fwd.cache.d_head + 2.0) * sizeof *a->part;
}

struct k_shape attn_part_shape(const void *args)
{
    const struct k_attn_part *a = args;
    struct k_shape s = shape_of(&a->fwd, K_CUT_ROWS_CHUNKS, 2, 1);
    s.bytes += part_bytes(a);
    return s;
}

struct k_shape attn_merge_shape(const void *args)
{
    const struct k_attn_part *a = args;
    double bytes = part_bytes(a);
    return (struct k_shape){
        .n_unit = a->fwd.batch.n_tok, .bytes = bytes + rows_bytes(&a->fwd), .flops = bytes / 2};
}

struct k_shape attn_sink_shape(const void *args)
{
    const struct k_attn_sink *a = args;
    double n = (double)a->m * a->n_head;
    return (struct k_shape){
        .n_unit = a->m, .bytes = 8 * n * (a->d_head + 1.0), .flops = n * (a->d_head + 30.0)};
}

struct k_shape attn_sink_dw_shape(const void *args)
{
    const struct k_attn_sink *a = args;
    double n = (double)a->m * a->n_head;
    return (struct k_shape){.n_unit = a->m > 0 ? a->n_head : 0,
                            .bytes = 4 * n * (2.0 * a->d_head + 1),
                            .flops = n * (2.0 * a->d_head + 14)};
}

struct k_shape attn_bwd_q_shape(const void *args)
{
    const struct k_attn_bwd *a = args;
    return shape_of(&a->fwd, K_CUT_ROWS, 3, 4);
}

struct k_shape attn_bwd_kv_shape(const void *args)
{
    const struct k_attn_bwd *a = args;
    struct k_shape s = shape_of(&a->fwd, a->part ? K_CUT_KEY_RUNS : K_CUT_KEYS, 4, 3);
    s.bytes += 2 * rows_bytes(&a->fwd) * a->fwd.cache.n_kv_head / a->fwd.n_head;
    return s;
}

/* A key touches every other line of its K cell, so the cell comes as a whole. */
struct k_shape kv_write_shape(const void *args)
{
    const struct k_kv_write *a = args;
    double n = 2.0 * (double)a->batch.n_tok * a->cache.n_kv_head * a->cache.d_head;
    double cells = (double)a->batch.n_seq + (double)a->batch.n_tok / K_CELL;
    cells = cells < (double)a->batch.n_tok ? cells : (double)a->batch.n_tok;
    return (struct k_shape){.n_unit = a->batch.n_tok,
                            .bytes = n * (double)(4 + k_type_bytes(a->cache.type)) +
                                     cells * a->cache.n_kv_head *
                                         (double)k_kv_cell_bytes(a->cache.type, a->cache.d_head)};
}

struct k_shape rope_kv_shape(const void *args)
{
    const struct k_rope_kv *a = args;
    struct k_shape s = kv_write_shape(&a->kv);
    double n = (double)a->kv.batch.n_tok * a->kv.cache.d_head;
    double n_turned = n * (a->n_head + a->kv.cache.n_kv_head);
    s.bytes += 8 * n * a->n_head;
    s.flops += (a->q_weight ? 7 : 3) * n_turned;
    return s;
}
