/* SPDX-License-Identifier: Apache-2.0
 *
 * What the attention kernels share: who sees whom, how a ragged call is cut, tiles of cells in
 * shared memory, parts and their fold. kernels/attention.h defines the sum of a row.
 *
 * A pair is a row with one of the query heads that share a K/V head; pairs of a sequence are
 * numbered row by row. A block has a tile of pairs, 16 for each warp, and walks over tiles of 64
 * keys by their place in the sequence, four to a chunk. What a pair does not see is no step of its
 * sum, exactly: its score is -infinity, its weight 0, the maximum stays, and exp2(0) is 1. So its
 * bits are those that it has alone.
 *
 * How many tiles the sequences have is with the GPU: a grid has as many blocks as there can be,
 * each finds its tile, and those that find none end.
 */
#ifndef KERNELS_CUDA_ATTN_CUH
#define KERNELS_CUDA_ATTN_CUH

#include "kernels/cell_codes.h"
#include "kernels/cuda/cuda.cuh"

enum {
    ATTN_KEYS = 64,  /* of a tile */
    ATTN_PAIRS = 16, /* of a warp */
    ATTN_CHUNK_TILES = K_ATTN_CHUNK / ATTN_KEYS,
    TILE_HEAD_MAX = 256, /* of tiles; wider heads are done plainly */
    HEAD_MAX = 512
};

struct span {
    int lo, hi; /* [lo, hi) */
};

static __device__ __forceinline__ int row_count(const struct k_ragged &b, int seq)
{
    return b.q_start[seq + 1] - b.q_start[seq];
}

/* Position of a sequence's first row of this call. */
static __device__ __forceinline__ int first_pos(const struct k_ragged &b, int seq)
{
    return b.kv_len[seq] - row_count(b, seq);
}

/* Keys that the row at position `pos` sees, of a sequence of kv_len keys. */
static __device__ __forceinline__ struct span keys_seen(const struct k_attn &a, int kv_len, int pos)
{
    struct span s = {0, a.causal ? pos + 1 : kv_len};
    if (a.window > 0) {
        s.lo = (int)most(0, (int64_t)pos - a.window + 1);
        s.hi = (int)least(s.hi, (int64_t)pos + a.window);
    }
    s.hi = s.hi > s.lo ? s.hi : s.lo;
    return s;
}

/* Rows of the call, counted from the sequence's first, that see the key at position `pos`. */
static __device__ __forceinline__ struct span rows_seeing(const struct k_attn &a, int n_row,
                                                          int first, int pos)
{
    int row = pos - first;
    struct span s = {a.causal && row > 0 ? row : 0, n_row};
    if (a.window > 0) {
        s.lo = (int)most(s.lo, (int64_t)row - a.window + 1);
        s.hi = (int)least(s.hi, (int64_t)row + a.window);
    }
    s.hi = s.hi > s.lo ? s.hi : s.lo;
    return s;
}

/* Score by the product of q and k, and what the exponential is taken of. */
static __device__ __forceinline__ float score_of(const struct k_attn &a, float dot)
{
    float s = dot * a.scale;
    return a.softcap > 0 ? a.softcap * tanhf(s / a.softcap) : s;
}

static __device__ __forceinline__ float exp_of(float x)
{
    return exp2f(x * 1.44269504f);
}

/* ---- cuts ---- */

/* Which of the things that sequences have `count(seq)` of, one sequence after another, is number
 * `index`: false where there are fewer. All lanes of a warp ask together. */
template <typename Count>
static __device__ __forceinline__ bool cut_find(int n_seq, int index, Count count, int *seq,
                                                int *at, int *n)
{
    int base = 0, lane = lane_id();
    for (int s = 0; s < n_seq; s += FULL_WARP) {
        int mine = s + lane < n_seq ? count(s + lane) : 0, sum = mine;
        for (int d = 1; d < FULL_WARP; d *= 2) {
            int below = __shfl_sync(0xffffffffu, sum, (lane - d) & 31);
            sum += lane >= d ? below : 0;
        }
        unsigned past = __ballot_sync(0xffffffffu, index < base + sum);
        if (past) {
            int first = __ffs((int)past) - 1;
            *seq = s + first;
            *n = __shfl_sync(0xffffffffu, mine, first);
            *at = index - base - (__shfl_sync(0xffffffffu, sum, first) - *n);
            return true;
        }
        base += __shfl_sync(0xffffffffu, sum, FULL_WARP - 1);
    }
    return false;
}

/* A block's tile of pairs, of one sequence and K/V head. */
struct attn_tile {
    int seq, head;    /* of K and V */
    int pair, n_pair; /* the first, and how many the sequence has */
    int group;        /* query heads of a K/V head */
    int tok;          /* of the sequence's row 0 */
    int first, kv_len;
};

/* Number `index` of tiles of `size` pairs; of a sequence, from the last to the first: the last see
 * most, and what is left for the end should be small. */
static __device__ __forceinline__ bool attn_tile_find(const struct k_attn &a, int index, int size,
                                                      struct attn_tile *t)
{
    int group = a.n_head / a.cache.n_kv_head, at, n;
    const struct k_ragged &b = a.batch;
    if (!cut_find((int)b.n_seq, index,
                  [&](int s) { return (row_count(b, s) * group + size - 1) / size; }, &t->seq, &at,
                  &n))
        return false;
    t->group = group;
    t->pair = (n - 1 - at) * size;
    t->n_pair = row_count(b, t->seq) * group;
    t->tok = b.q_start[t->seq];
    t->first = first_pos(b, t->seq);
    t->kv_len = b.kv_len[t->seq];
    return true;
}

/* Tiles of a call, at most. */
static inline int64_t attn_tile_count(const struct k_attn *a, int size)
{
    int64_t group = a->n_head / a->cache.n_kv_head;
    return a->batch.n_tok > 0 ? a->batch.n_tok * group / size + a->batch.n_seq : 0;
}

/* ---- tiles in shared memory: rows of D numbers of bf16, pieces of 8 spread over the banks ---- */

template <int D> static __device__ __forceinline__ int piece_at(int row, int c)
{
    return row * D * 2 + (c ^ row % 8) * 16;
}

/* Which cell of a cache key `key` is in. */
static __device__ __forceinline__ int64_t key_cell(const struct k_ragged &b,
                                                   const struct k_kv_cache &c, int seq, int head,
                                                   int key)
{
    return head * c.n_cell + b.cell[seq * b.cell_stride + key / K_CELL];
}

/* Elements from a cache's start to the row of key `key`; not of cells of codes. */
static __device__ __forceinline__ int64_t key_at(const struct k_ragged &b,
                                                 const struct k_kv_cache &c, int seq, int head,
                                                 int key)
{
    return key_cell(b, c, seq, head, key) * K_CELL * c.d_head + cuda_kv_at(c.d_head, key, 0);
}

/* A key or value of a cell of codes. */
struct coded_row {
    const int8_t *code;
    float scale;
    __device__ __forceinline__ float operator[](int i) const
    {
        return bf16_round(scale * (float)code[i]);
    }
};

static __device__ __forceinline__ struct coded_row
coded_key(const struct k_kv_cache &c, const void *cache, int64_t cell, int key)
{
    const char *at = (const char *)cache + cell * cuda_cell_bytes(K_INT8, c.d_head);
    const float *scale = (const float *)(at + cell_scales_at(c.d_head));
    return {(const int8_t *)at + cuda_kv_at(c.d_head, key, 0), scale[key % K_CELL]};
}

/* 8 numbers of a key from number i on, of which `left` are there; left is even. */
static __device__ __forceinline__ uint4 piece_of_codes(const struct k_kv_cache &c,
                                                       const void *cache, int64_t cell, int key,
                                                       int i, int left)
{
    uint32_t pair[4] = {0, 0, 0, 0};
    uint2 eight = make_uint2(0, 0);
    if (left <= 0)
        return make_uint4(0, 0, 0, 0);
    struct coded_row r = coded_key(c, cache, cell, key);
    bool is_whole = c.d_head % 8 == 0; /* then all pieces are, and stand at multiples of 8 */
    if (is_whole)
        eight = *(const uint2 *)(r.code + i);
#pragma unroll
    for (int j = 0; j < 4; j++) {
        uint32_t two = (j < 2 ? eight.x : eight.y) >> j % 2 * 16;
        if (is_whole)
            pair[j] = bf16_pair(r.scale * (float)(int8_t)(two & 0xffu),
                                r.scale * (float)(int8_t)(two >> 8 & 0xffu));
        else if (2 * j < left)
            pair[j] = bf16_pair(r[i + 2 * j], r[i + 2 * j + 1]);
    }
    return make_uint4(pair[0], pair[1], pair[2], pair[3]);
}

/* 8 numbers of a row of which `left` are there and the rest zeros; left is even. */
static __device__ __forceinline__ uint4 piece_get(const k_bf16 *from, int left)
{
    const uint32_t *pair = (const uint32_t *)from;
    return make_uint4(left > 0 ? pair[0] : 0, left > 2 ? pair[1] : 0, left > 4 ? pair[2] : 0,
                      left > 6 ? pair[3] : 0);
}

/* Asks for a tile of keys from `key` on, of K and of V; zeros for those outside `seen` and for
 * columns past d. A thread has one piece of a row, of every so many rows. */
template <int D>
static __device__ __forceinline__ void keys_load(const struct k_attn &a, const struct attn_tile &t,
                                                 int key, struct span seen, unsigned char *k,
                                                 unsigned char *v)
{
    int d = a.cache.d_head, step = (int)blockDim.x / (D / 8);
    int first = (int)threadIdx.x / (D / 8), c = (int)threadIdx.x % (D / 8) * 8;
    for (int cell = 0; cell < ATTN_KEYS; cell += K_CELL) {
        int at = key + cell; /* of the cell's first key; a cell that no one sees has no place */
        bool is_here = at < seen.hi && at + K_CELL > seen.lo && c < d;
        if (a.cache.type == K_INT8) {
            int64_t place = is_here ? key_cell(a.batch, a.cache, t.seq, t.head, at) : 0;
            for (int row = first; row < K_CELL; row += step) {
                int to = piece_at<D>(cell + row, c / 8);
                int left = is_here && at + row >= seen.lo && at + row < seen.hi ? d - c : 0;
                *(uint4 *)(k + to) = piece_of_codes(a.cache, a.cache.k, place, row, c, left);
                *(uint4 *)(v + to) = piece_of_codes(a.cache, a.cache.v, place, row, c, left);
            }
            continue;
        }
        int64_t from = is_here ? key_at(a.batch, a.cache, t.seq, t.head, at) + c : 0;
        const k_bf16 *k_from = (const k_bf16 *)a.cache.k + from;
        const k_bf16 *v_from = (const k_bf16 *)a.cache.v + from;
        for (int row = first; row < K_CELL; row += step) {
            int to = piece_at<D>(cell + row, c / 8);
            bool is_seen = is_here && at + row >= seen.lo && at + row < seen.hi;
            int64_t by = is_seen ? (int64_t)row * d : 0;
            if (d % 8 == 0) {
                copy_async_16(k + to, k_from + by, is_seen ? 16 : 0);
                copy_async_16(v + to, v_from + by, is_seen ? 16 : 0);
            } else {
                *(uint4 *)(k + to) = piece_get(k_from + by, is_seen ? d - c : 0);
                *(uint4 *)(v + to) = piece_get(v_from + by, is_seen ? d - c : 0);
            }
        }
    }
}

/* 8 numbers of f32, rounded, of which `left` are there. */
static __device__ __forceinline__ uint4 piece_round(const float *x, int left)
{
    float4 lo = make_float4(0, 0, 0, 0), hi = lo;
    if (left >= 8 && (uintptr_t)x % 16 == 0) {
        lo = *(const float4 *)x;
        hi = *(const float4 *)(x + 4);
    } else {
        lo.x = left > 0 ? x[0] : 0, lo.y = left > 1 ? x[1] : 0;
        lo.z = left > 2 ? x[2] : 0, lo.w = left > 3 ? x[3] : 0;
        hi.x = left > 4 ? x[4] : 0, hi.y = left > 5 ? x[5] : 0;
        hi.z = left > 6 ? x[6] : 0, hi.w = left > 7 ? x[7] : 0;
    }
    return make_uint4(bf16_pair(lo.x, lo.y), bf16_pair(lo.z, lo.w), bf16_pair(hi.x, hi.y),
                      bf16_pair(hi.z, hi.w));
}

/* Rows of an array like q, [n_tok, n_head, d], for pairs [pair, pair + n) of the tile's sequence.
 */
template <int D>
static __device__ __forceinline__ void pairs_load(const struct k_attn &a, const struct attn_tile &t,
                                                  const float *x, int64_t ld, int pair, int n,
                                                  unsigned char *to)
{
    int d = a.cache.d_head;
    for (int e = (int)threadIdx.x; e < n * (D / 8); e += (int)blockDim.x) {
        int row = e / (D / 8), c = e % (D / 8) * 8, at = pair + row;
        int64_t tok = t.tok + at / t.group, head = t.head * t.group + at % t.group;
        *(uint4 *)(to + piece_at<D>(row, c / 8)) =
            piece_round(x + tok * ld + head * d + c, at < t.n_pair ? d - c : 0);
    }
}

/* Operands out of a tile of rows. a: 16 rows from `row`, columns 16k on. b: 16 rows from `row` as
 * two instructions' columns. turned: 16 rows from `row` to be summed over, columns 8n to 8n + 15 as
 * two instructions' columns. Rows begin at multiples of 8 and n is even, so that a lane's place is
 * one number, in which k or n changes bits that it alone has. */
template <int D>
static __device__ __forceinline__ void operand_a(const unsigned char *tile, int row, int k,
                                                 uint32_t d[4])
{
    int mine = piece_at<D>(lane_id() % 16, lane_id() / 16);
    ldmatrix_x4(d, tile + row * D * 2 + (mine ^ k * 32));
}

template <int D>
static __device__ __forceinline__ void operand_b(const unsigned char *tile, int row, int k,
                                                 uint32_t d[4])
{
    int mine = piece_at<D>(lane_id() % 8 + lane_id() / 16 * 8, lane_id() / 8 % 2);
    ldmatrix_x4(d, tile + row * D * 2 + (mine ^ k * 32));
}

template <int D>
static __device__ __forceinline__ void operand_turned(const unsigned char *tile, int row, int n,
                                                      uint32_t d[4])
{
    int mine = piece_at<D>(lane_id() % 16, lane_id() / 16);
    ldmatrix_x4_trans(d, tile + row * D * 2 + (mine ^ n * 16));
}

/* ---- parts ---- */

/* How a part of (m, l, o) joins a sum of (M, L, O): O' = O keep + o take. A part of nothing leaves
 * the sum as it is. */
struct fold {
    float m, keep, take;
};

static __device__ __forceinline__ struct fold fold_of(float sum_m, float m, float l)
{
    if (l == 0)
        return {sum_m, 1, 0};
    float most_m = fmaxf(sum_m, m);
    return {most_m, exp_of(sum_m - most_m), exp_of(m - most_m)};
}

static __device__ __forceinline__ float fold_in(struct fold f, float sum, float part)
{
    return fmaf(part, f.take, sum * f.keep);
}

/* y of a folded sum: a product with the weight zero is as good as none, and there is one NaN. */
static __device__ __forceinline__ float sum_finish(float o, float l)
{
    float y = l == 0 ? 0 : o / l + 0.0f;
    return y == y ? y : __uint_as_float(0x7fffffffu);
}

/* Does one who sees `seen` see a key of the chunk? */
static __device__ __forceinline__ bool has_part(struct span seen, int chunk)
{
    return seen.lo < seen.hi && seen.lo < (chunk + 1) * K_ATTN_CHUNK &&
           seen.hi > chunk * K_ATTN_CHUNK;
}

static __device__ __forceinline__ float *part_at(const struct k_attn_part &a, int64_t tok, int head,
                                                 int chunk)
{
    return a.part + ((tok * a.fwd.n_head + head) * a.n_chunk + chunk) * (a.fwd.cache.d_head + 2);
}

/* ---- attn_plain.cu: the same over cells of f32, or for wide heads, a pair at a time ---- */

static inline bool attn_is_plain(const struct k_attn *a)
{
    return a->cache.type == K_F32 || a->cache.d_head > TILE_HEAD_MAX;
}

int attn_plain(const struct k_attn *a, void *stream);
int attn_part_plain(const struct k_attn_part *a, void *stream);
int attn_bwd_q_plain(const struct k_attn_bwd *a, void *stream);
int attn_bwd_kv_plain(const struct k_attn_bwd *a, void *stream);

#endif
