/* SPDX-License-Identifier: Apache-2.0
 *
 * Cuts a ragged attention call into units, and says who sees whom.
 */
#include "kernels/attention.h"

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static const unsigned char scale_bytes[K_TYPE_COUNT] = {
#define CELL(name, ID, scale) [K_##ID] = (scale),
#include "kernels/cell.def"
#undef CELL
};

const char k_cell_choices[] = "auto"
#define CELL(name, ...) "|" #name
#include "kernels/cell.def"
#undef CELL
    ;

size_t k_kv_cell_bytes(enum k_type type, int32_t d_head)
{
    return (size_t)K_CELL * ((size_t)d_head * k_type_bytes(type) + scale_bytes[type]);
}

/* Rows in a tile: a whole number of positions, each with all heads of the group. */
static int64_t tile_rows(const struct k_attn *a)
{
    return max64(1, K_ATTN_TILE / (a->n_head / a->cache.n_kv_head));
}

static int64_t tile_count(const struct k_attn *a, int64_t seq)
{
    return ceil_div(attn_row_count(&a->batch, seq), tile_rows(a));
}

int64_t attn_key_run(int64_t kv_len)
{
    return max64(1, ceil_div(ceil_div(kv_len, K_ATTN_KEYS), K_ATTN_PARTS)) * K_ATTN_KEYS;
}

size_t attn_part_floats(int64_t n_tok, int32_t n_head, int32_t d_head)
{
    int64_t n_part = min64(K_ATTN_PARTS, ceil_div(n_tok, K_ATTN_KEYS));
    return (size_t)(n_part * n_tok) * (size_t)n_head * (size_t)d_head;
}

/* Keys of a unit that is cut by keys. */
static int64_t unit_keys(const struct k_attn *a, enum k_attn_cut cut, int64_t seq)
{
    return cut == K_CUT_KEYS ? K_ATTN_KEYS : attn_key_run(a->batch.kv_len[seq]);
}

static bool cuts_keys(enum k_attn_cut cut)
{
    return cut == K_CUT_KEYS || cut == K_CUT_KEY_RUNS;
}

/* The first run of keys that holds a key of this call. */
static int64_t key_tile_first(const struct k_attn *a, enum k_attn_cut cut, int64_t seq)
{
    return max64(0, attn_first_pos(&a->batch, seq)) / unit_keys(a, cut, seq);
}

static int64_t seq_chunks(const struct k_attn *a, int64_t seq)
{
    return ceil_div(a->batch.kv_len[seq], K_ATTN_CHUNK);
}

/* Units of one sequence for one head. */
static int64_t head_units(const struct k_attn *a, enum k_attn_cut cut, int64_t seq)
{
    if (attn_row_count(&a->batch, seq) <= 0)
        return 0;
    if (cuts_keys(cut))
        return max64(0, ceil_div(a->batch.kv_len[seq], unit_keys(a, cut, seq)) -
                            key_tile_first(a, cut, seq));
    return tile_count(a, seq) * (cut == K_CUT_ROWS_CHUNKS ? seq_chunks(a, seq) : 1);
}

int64_t attn_unit_count(const struct k_attn *a, enum k_attn_cut cut)
{
    int64_t n = 0;
    for (int64_t s = 0; s < a->batch.n_seq; s++)
        n += head_units(a, cut, s) * a->cache.n_kv_head;
    return n;
}

void attn_iter_init(struct k_attn_iter *it, const struct k_attn *a, enum k_attn_cut cut,
                    int64_t unit)
{
    *it = (struct k_attn_iter){.a = a, .cut = cut, .seq = -1};
    while (it->left <= unit && it->seq + 1 < a->batch.n_seq) {
        unit -= it->left;
        it->seq++;
        it->left = head_units(a, cut, it->seq) * a->cache.n_kv_head;
    }
    it->left -= unit;
}

/* The i-th tile of n: the earlier half from its last to its first, then the later half. */
static int64_t tile_in_order(int64_t n, int64_t i)
{
    int64_t half = n / 2;
    return i < half ? half - 1 - i : n - 1 - (i - half);
}

void attn_iter_next(struct k_attn_iter *it, struct k_attn_unit *u)
{
    const struct k_attn *a = it->a;
    while (it->left <= 0) {
        it->seq++;
        it->left = head_units(a, it->cut, it->seq) * a->cache.n_kv_head;
    }
    int64_t i = head_units(a, it->cut, it->seq) * a->cache.n_kv_head - it->left--;
    int64_t kv_len = a->batch.kv_len[it->seq], n_row = attn_row_count(&a->batch, it->seq);
    *u = (struct k_attn_unit){.seq = it->seq};
    if (cuts_keys(it->cut)) {
        u->head = i % a->cache.n_kv_head;
        i /= a->cache.n_kv_head;
        int64_t n = unit_keys(a, it->cut, it->seq);
        int64_t lo = (i + key_tile_first(a, it->cut, it->seq)) * n;
        u->key_lo = max64(lo, attn_first_pos(&a->batch, it->seq));
        u->key_hi = min64(lo + n, kv_len);
        u->row_hi = n_row;
        return;
    }
    u->key_hi = kv_len;
    if (it->cut == K_CUT_ROWS_CHUNKS) {
        int64_t n_chunk = seq_chunks(a, it->seq);
        u->key_lo = i % n_chunk * K_ATTN_CHUNK;
        u->key_hi = min64(u->key_lo + K_ATTN_CHUNK, kv_len);
        i /= n_chunk;
    }
    u->head = i % a->cache.n_kv_head;
    u->row_lo = tile_in_order(tile_count(a, it->seq), i / a->cache.n_kv_head) * tile_rows(a);
    u->row_hi = min64(u->row_lo + tile_rows(a), n_row);
}

struct k_span attn_seen(const struct k_attn *a, int64_t seq, int64_t row)
{
    int64_t pos = attn_first_pos(&a->batch, seq) + row;
    struct k_span s = {0, a->causal ? pos + 1 : a->batch.kv_len[seq]};
    if (a->window > 0) {
        s.lo = max64(0, pos - a->window + 1);
        s.hi = min64(s.hi, pos + a->window);
    }
    s.hi = max64(s.hi, s.lo);
    return s;
}

struct k_span attn_seen_by(const struct k_attn *a, int64_t seq, int64_t key)
{
    int64_t row = key - attn_first_pos(&a->batch, seq), n_row = attn_row_count(&a->batch, seq);
    struct k_span s = {a->causal ? max64(0, row) : 0, n_row};
    if (a->window > 0) {
        s.lo = max64(s.lo, row - a->window + 1);
        s.hi = min64(s.hi, row + a->window);
    }
    s.hi = max64(s.hi, s.lo);
    return s;
}
