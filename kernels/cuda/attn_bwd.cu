/* SPDX-License-Identifier: Apache-2.0
 *
 * The gradient of attention over cells of bf16, on the tensor cores. Weights are made again from
 * the saved log-sum-exp: p = exp(score - lse), ds = p (dy v - D), D = dy y, each rounded to bf16
 * for the products.
 *
 * dq: a block has 64 pairs and walks over tiles of keys, as the forward does. dk, dv: a block has
 * 64 keys of this call and walks over tiles of 32 pairs of their sequence that see them; a warp has
 * 16 of the keys, so its scores stand transposed, and become operands where they are. Heads wider
 * than 128 are summed in two blocks, each with half of the columns.
 */
#include "kernels/cuda/attn.cuh"
#include "kernels/cuda/rows.cuh"

enum { BWD_WARPS = 4, BWD_THREADS = BWD_WARPS * FULL_WARP, BWD_PAIRS = 64, KV_PAIRS = 32 };

/* What the products of a pair and a key come to: p and ds. */
static __device__ __forceinline__ void gradient_of(const struct k_attn &a, bool is_seen, float dot,
                                                   float dp, float lse, float delta, float *p,
                                                   float *ds)
{
    float score = score_of(a, dot), slope = 1;
    if (a.softcap > 0)
        slope = 1 - (score / a.softcap) * (score / a.softcap);
    *p = is_seen ? exp_of(score - lse) : 0;
    *ds = is_seen ? *p * (dp - delta) * slope : 0;
}

/* Log-sum-exp and D of n pairs from `pair` on, into shared memory: [n] and [n]; a warp takes pairs
 * by turns. */
static __device__ void pairs_stat(const struct k_attn_bwd &a, const struct attn_tile &t, int pair,
                                  int n, float *stat)
{
    const struct k_attn &f = a.fwd;
    int d = f.cache.d_head;
    for (int e = warp_id(); e < n; e += BWD_WARPS) {
        int at = pair + e, head = t.head * t.group + at % t.group;
        int64_t tok = t.tok + at / t.group;
        float sum = 0;
        for (int i = lane_id(); at < t.n_pair && i < d; i += FULL_WARP)
            sum = fmaf(a.dy[tok * a.ld_dy + (int64_t)head * d + i],
                       f.y[tok * f.ld_y + (int64_t)head * d + i], sum);
        sum = warp_sum(sum);
        if (lane_id() == 0) {
            stat[e] = at < t.n_pair ? f.lse[tok * f.n_head + head] : 0;
            stat[n + e] = sum;
        }
    }
}

/* acc[ROWS / 8] += rows `row` to row + 15 of `left`, times rows 0 to ROWS - 1 of `right`. */
template <int D, int ROWS>
static __device__ __forceinline__ void rows_product(const unsigned char *left, int row,
                                                    const unsigned char *right, int d,
                                                    float acc[ROWS / 8][4])
{
    int d16 = (d + 15) / 16;
#pragma unroll
    for (int i = 0; i < D / 16; i++) {
        uint32_t la[4], rb[4];
        if (i >= d16)
            break;
        operand_a<D>(left, row, i, la);
#pragma unroll
        for (int j = 0; j < ROWS / 8; j += 2) {
            operand_b<D>(right, j * 8, i, rb);
            mma_bf16(acc[j], la, rb);
            mma_bf16(acc[j + 1], la, rb + 2);
        }
    }
}

/* sum[COLS / 8] += w[16, ROWS] times columns `col` to col + COLS - 1 of a tile of ROWS rows. */
template <int D, int ROWS, int COLS>
static __device__ __forceinline__ void columns_add(const float w[ROWS / 8][4],
                                                   const unsigned char *tile, int col, int d,
                                                   float sum[COLS / 8][4])
{
#pragma unroll
    for (int j = 0; j < ROWS / 8; j += 2) {
        uint32_t wa[4] = {bf16_pair(w[j][0], w[j][1]), bf16_pair(w[j][2], w[j][3]),
                          bf16_pair(w[j + 1][0], w[j + 1][1]), bf16_pair(w[j + 1][2], w[j + 1][3])};
#pragma unroll
        for (int n = 0; n < COLS / 8; n += 2) {
            uint32_t xb[4];
            if (col + n * 8 >= d)
                break;
            operand_turned<D>(tile, j * 8, col / 8 + n, xb);
            mma_bf16(sum[n], wa, xb);
            mma_bf16(sum[n + 1], wa, xb + 2);
        }
    }
}

/* ---- dq ---- */

template <int D> struct bwd_q_block {
    static constexpr int ROWS_BYTES = BWD_PAIRS * D * 2;
    static constexpr int TILE_BYTES = ATTN_KEYS * D * 2;
    static constexpr int SHARED_BYTES = 2 * ROWS_BYTES + 2 * TILE_BYTES + 2 * BWD_PAIRS * 4;
};

struct lane_pairs {
    struct span seen[2];
    float lse[2], delta[2];
};

static __device__ struct lane_pairs lane_pairs_of(const struct k_attn &a, const struct attn_tile &t,
                                                  const float *stat)
{
    struct lane_pairs p;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        int at = warp_id() * ATTN_PAIRS + lane_id() / 4 + h * 8, pair = t.pair + at;
        p.seen[h] = {0, 0};
        if (pair < t.n_pair)
            p.seen[h] = keys_seen(a, t.kv_len, t.first + pair / t.group);
        p.lse[h] = stat[at];
        p.delta[h] = stat[BWD_PAIRS + at];
    }
    return p;
}

/* ds of the warp's pairs and 64 keys from `key` on. */
template <int D>
static __device__ __forceinline__ void
bwd_q_scores(const struct k_attn &a, const struct lane_pairs &p, int key, const unsigned char *q,
             const unsigned char *dy, const unsigned char *k, const unsigned char *v,
             float ds[ATTN_KEYS / 8][4])
{
    float s[ATTN_KEYS / 8][4] = {}, unused;
    int row = warp_id() * ATTN_PAIRS, d = a.cache.d_head;
    rows_product<D, ATTN_KEYS>(q, row, k, d, s);
    rows_product<D, ATTN_KEYS>(dy, row, v, d, ds);
#pragma unroll
    for (int e = 0; e < ATTN_KEYS / 2; e++) {
        int at = key + e / 4 * 8 + 2 * (lane_id() % 4) + e % 2, h = e % 4 / 2;
        gradient_of(a, at >= p.seen[h].lo && at < p.seen[h].hi, s[e / 4][e % 4], ds[e / 4][e % 4],
                    p.lse[h], p.delta[h], &unused, &ds[e / 4][e % 4]);
    }
}

template <int D>
static __global__ void __launch_bounds__(BWD_THREADS) attn_bwd_q_kernel(struct k_attn_bwd a)
{
    typedef bwd_q_block<D> B;
    const struct k_attn &f = a.fwd;
    struct attn_tile t;
    if (!attn_tile_find(f, (int)blockIdx.x, BWD_PAIRS, &t))
        return;
    t.head = (int)blockIdx.y;
    unsigned char *q = (unsigned char *)shared_memory(), *dy = q + B::ROWS_BYTES;
    unsigned char *k = dy + B::ROWS_BYTES, *v = k + B::TILE_BYTES;
    float *stat = (float *)(v + B::TILE_BYTES), sum[D / 8][4] = {};
    int d = f.cache.d_head, last = (int)least(t.pair + BWD_PAIRS, t.n_pair) - 1;
    struct span seen = {keys_seen(f, t.kv_len, t.first + t.pair / t.group).lo,
                        keys_seen(f, t.kv_len, t.first + last / t.group).hi};
    pairs_load<D>(f, t, f.q, f.ld_q, t.pair, BWD_PAIRS, q);
    pairs_load<D>(f, t, a.dy, a.ld_dy, t.pair, BWD_PAIRS, dy);
    pairs_stat(a, t, t.pair, BWD_PAIRS, stat);
    __syncthreads();
    struct lane_pairs p = lane_pairs_of(f, t, stat);
    for (int key = seen.lo / ATTN_KEYS * ATTN_KEYS; key < seen.hi; key += ATTN_KEYS) {
        float ds[ATTN_KEYS / 8][4] = {};
        keys_load<D>(f, t, key, seen, k, v);
        copy_commit();
        copy_wait<0>();
        __syncthreads();
        bwd_q_scores<D>(f, p, key, q, dy, k, v, ds);
        columns_add<D, ATTN_KEYS, D>(ds, k, 0, d, sum);
        __syncthreads();
    }
#pragma unroll
    for (int e = 0; e < D / 2; e++) {
        int pair = t.pair + warp_id() * ATTN_PAIRS + lane_id() / 4 + e % 4 / 2 * 8;
        int col = e / 4 * 8 + 2 * (lane_id() % 4) + e % 2;
        if (pair < t.n_pair && col < d)
            a.dq[(int64_t)(t.tok + pair / t.group) * a.ld_dq +
                 (int64_t)(t.head * t.group + pair % t.group) * d + col] =
                sum[e / 4][e % 4] * f.scale;
    }
}

template <int D> static int bwd_q_launch(const struct k_attn_bwd *a, void *stream)
{
    return launch(
        attn_bwd_q_kernel<D>,
        dim3((unsigned)attn_tile_count(&a->fwd, BWD_PAIRS), (unsigned)a->fwd.cache.n_kv_head),
        dim3(BWD_THREADS), bwd_q_block<D>::SHARED_BYTES, stream, *a);
}

int attn_bwd_q_cuda(const void *args, void *stream)
{
    const struct k_attn_bwd *a = (const struct k_attn_bwd *)args;
    int32_t d = a->fwd.cache.d_head;
    if (attn_is_plain(&a->fwd))
        return attn_bwd_q_plain(a, stream);
    return d <= 64    ? bwd_q_launch<64>(a, stream)
           : d <= 128 ? bwd_q_launch<128>(a, stream)
                      : bwd_q_launch<TILE_HEAD_MAX>(a, stream);
}

/* ---- dk, dv ---- */

template <int D> struct bwd_kv_block {
    static constexpr int COLS = D > 128 ? 128 : D; /* that a block sums */
    static constexpr int TILE_BYTES = ATTN_KEYS * D * 2;
    static constexpr int ROWS_BYTES = KV_PAIRS * D * 2;
    static constexpr int SHARED_BYTES = 2 * TILE_BYTES + 2 * ROWS_BYTES + 2 * KV_PAIRS * 4;
};

/* Tiles of 64 keys of a sequence that hold keys of this call. */
static __device__ __forceinline__ int key_tiles(const struct k_ragged &b, int seq)
{
    int first = first_pos(b, seq), n = row_count(b, seq);
    return n > 0 ? (b.kv_len[seq] + ATTN_KEYS - 1) / ATTN_KEYS - first / ATTN_KEYS : 0;
}

/* What a block has: keys [lo, hi) of the tile that begins at `key`, by position. */
struct kv_tile {
    struct attn_tile t;
    int key;
    struct span keys;
};

static __device__ bool kv_tile_find(const struct k_attn &a, int index, struct kv_tile *kv)
{
    const struct k_ragged &b = a.batch;
    int seq, at, n;
    if (!cut_find((int)b.n_seq, index, [&](int s) { return key_tiles(b, s); }, &seq, &at, &n))
        return false;
    int group = a.n_head / a.cache.n_kv_head, first = first_pos(b, seq), n_row = row_count(b, seq);
    kv->t = {seq, 0, 0, n_row * group, group, b.q_start[seq], first, b.kv_len[seq]};
    kv->key = (first / ATTN_KEYS + at) * ATTN_KEYS;
    kv->keys = {(int)most(kv->key, first), (int)least(kv->key + ATTN_KEYS, kv->t.kv_len)};
    return true;
}

/* p and ds of the warp's 16 keys and 32 pairs from `pair` on. */
template <int D>
static __device__ __forceinline__ void
bwd_kv_scores(const struct k_attn &a, const struct kv_tile &kv, int pair, const unsigned char *k,
              const unsigned char *v, const unsigned char *q, const unsigned char *dy,
              const float *stat, float p[KV_PAIRS / 8][4], float ds[KV_PAIRS / 8][4])
{
    int row = warp_id() * 16, d = a.cache.d_head;
    rows_product<D, KV_PAIRS>(k, row, q, d, p);
    rows_product<D, KV_PAIRS>(v, row, dy, d, ds);
#pragma unroll
    for (int e = 0; e < KV_PAIRS / 2; e++) {
        int key = kv.key + row + lane_id() / 4 + e % 4 / 2 * 8;
        int col = e / 4 * 8 + 2 * (lane_id() % 4) + e % 2, at = pair + col;
        struct span seen = {0, 0};
        if (at < kv.t.n_pair)
            seen = keys_seen(a, kv.t.kv_len, kv.t.first + at / kv.t.group);
        gradient_of(a, key >= seen.lo && key < seen.hi, p[e / 4][e % 4], ds[e / 4][e % 4],
                    stat[col], stat[KV_PAIRS + col], &p[e / 4][e % 4], &ds[e / 4][e % 4]);
    }
}

template <int D>
static __device__ __forceinline__ void bwd_kv_store(const struct k_attn_bwd &a,
                                                    const struct kv_tile &kv, int col0,
                                                    const float dk[bwd_kv_block<D>::COLS / 8][4],
                                                    const float dv[bwd_kv_block<D>::COLS / 8][4])
{
    int d = a.fwd.cache.d_head;
#pragma unroll
    for (int e = 0; e < bwd_kv_block<D>::COLS / 2; e++) {
        int key = kv.key + warp_id() * 16 + lane_id() / 4 + e % 4 / 2 * 8;
        int col = col0 + e / 4 * 8 + 2 * (lane_id() % 4) + e % 2;
        if (key < kv.keys.lo || key >= kv.keys.hi || col >= d)
            continue;
        int64_t tok = kv.t.tok + (key - kv.t.first), at = (int64_t)kv.t.head * d + col;
        a.dk[tok * a.ld_dk + at] = dk[e / 4][e % 4] * a.fwd.scale;
        a.dv[tok * a.ld_dv + at] = dv[e / 4][e % 4];
    }
}

template <int D>
static __global__ void __launch_bounds__(BWD_THREADS) attn_bwd_kv_kernel(struct k_attn_bwd a)
{
    typedef bwd_kv_block<D> B;
    const struct k_attn &f = a.fwd;
    struct kv_tile kv;
    if (!kv_tile_find(f, (int)blockIdx.x, &kv))
        return;
    kv.t.head = (int)blockIdx.y;
    int d = f.cache.d_head, col0 = (int)blockIdx.z * B::COLS;
    unsigned char *k = (unsigned char *)shared_memory(), *v = k + B::TILE_BYTES;
    unsigned char *q = v + B::TILE_BYTES, *dy = q + B::ROWS_BYTES;
    float *stat = (float *)(dy + B::ROWS_BYTES);
    float dk[B::COLS / 8][4] = {}, dv[B::COLS / 8][4] = {};
    keys_load<D>(f, kv.t, kv.key, kv.keys, k, v);
    copy_commit();
    copy_wait<0>();
    int n_row = kv.t.n_pair / kv.t.group;
    struct span rows = {rows_seeing(f, n_row, kv.t.first, kv.keys.lo).lo,
                        rows_seeing(f, n_row, kv.t.first, kv.keys.hi - 1).hi};
    int pair = rows.lo * kv.t.group / KV_PAIRS * KV_PAIRS;
    for (; pair < rows.hi * kv.t.group; pair += KV_PAIRS) {
        float p[KV_PAIRS / 8][4] = {}, ds[KV_PAIRS / 8][4] = {};
        pairs_load<D>(f, kv.t, f.q, f.ld_q, pair, KV_PAIRS, q);
        pairs_load<D>(f, kv.t, a.dy, a.ld_dy, pair, KV_PAIRS, dy);
        pairs_stat(a, kv.t, pair, KV_PAIRS, stat);
        __syncthreads();
        bwd_kv_scores<D>(f, kv, pair, k, v, q, dy, stat, p, ds);
        columns_add<D, KV_PAIRS, B::COLS>(p, dy, col0, d, dv);
        columns_add<D, KV_PAIRS, B::COLS>(ds, q, col0, d, dk);
        __syncthreads();
    }
    bwd_kv_store<D>(a, kv, col0, dk, dv);
}

/* Tiles of keys of a call, at most: a sequence's keys may begin and end within one. */
template <int D> static int bwd_kv_launch(const struct k_attn_bwd *a, void *stream)
{
    const struct k_attn *f = &a->fwd;
    int64_t tiles = f->batch.n_tok > 0 ? f->batch.n_tok / ATTN_KEYS + 2 * f->batch.n_seq : 0;
    int halves = f->cache.d_head > bwd_kv_block<D>::COLS ? 2 : 1;
    return launch(attn_bwd_kv_kernel<D>,
                  dim3((unsigned)tiles, (unsigned)f->cache.n_kv_head, (unsigned)halves),
                  dim3(BWD_THREADS), bwd_kv_block<D>::SHARED_BYTES, stream, *a);
}

int attn_bwd_kv_cuda(const void *args, void *stream)
{
    const struct k_attn_bwd *a = (const struct k_attn_bwd *)args;
    int32_t d = a->fwd.cache.d_head;
    if (attn_is_plain(&a->fwd))
        return attn_bwd_kv_plain(a, stream);
    return d <= 64    ? bwd_kv_launch<64>(a, stream)
           : d <= 128 ? bwd_kv_launch<128>(a, stream)
                      : bwd_kv_launch<TILE_HEAD_MAX>(a, stream);
}
