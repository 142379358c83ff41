/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention over cells of bf16, or of codes that become bf16 in shared memory, on the tensor cores,
 * whole rows (attn) or chunk by chunk for later (attn_part), and the fold of what was made apart
 * (attn_merge), for any type.
 *
 * A warp has 16 pairs: lane 4g + t has two of them, g and g + 8, and of their 64 scores of a tile
 * columns 8j + 2t and 8j + 2t + 1. Scores become weights in the registers where the product with V
 * wants them. The sum over chunks rests in shared memory, where each lane keeps its own numbers.
 *
 * V of a key that one pair sees and another does not may be no number: 0 times it must still be 0.
 * Where such a tile holds one, the product takes a zero in its place, and those who see the key add
 * what it gives them, one by one.
 */
#include "kernels/cuda/attn.cuh"

#include "kernels/cuda/rows.cuh"

enum { ATTN_WARPS = 4 }; /* of a block, at most; 2 for wide heads, which fill shared memory */

/* Of both rows. */
struct attn_args {
    struct k_attn_part k;
    int is_part; /* blockIdx.z is the chunk */
};

template <int D> struct attn_block {
    static constexpr int TILE_BYTES = ATTN_KEYS * D * 2;
    static constexpr int STAGES = D > 128 ? 1 : 2;
    static constexpr int RING_BYTES = STAGES * 2 * TILE_BYTES;
    /* of each warp: q, the sum of all chunks */
    static constexpr int Q_BYTES = ATTN_PAIRS * D * 2;
    static constexpr int SUM_BYTES = D / 2 * FULL_WARP * 4;
    static constexpr int WARP_BYTES = Q_BYTES + SUM_BYTES;
};

/* A lane's two pairs. */
struct attn_pairs {
    struct span seen[2]; /* empty where there is no pair */
    int64_t tok[2];
    int head[2]; /* -1: no pair */
};

template <int D> struct attn_sum {
    float o[D / 8][4]; /* [columns 8j + 2t, 8j + 2t + 1][pairs] */
    float m[2], l[2];  /* l: this lane's columns alone */
};

static __device__ struct attn_pairs pairs_of(const struct k_attn &a, const struct attn_tile &t)
{
    struct attn_pairs p;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        int pair = t.pair + warp_id() * ATTN_PAIRS + lane_id() / 4 + h * 8, row = pair / t.group;
        bool is_one = pair < t.n_pair;
        p.seen[h] = {0, 0};
        if (is_one)
            p.seen[h] = keys_seen(a, t.kv_len, t.first + row);
        p.tok[h] = t.tok + row;
        p.head[h] = is_one ? t.head * t.group + pair % t.group : -1;
    }
    return p;
}

template <int D> static __device__ __forceinline__ void sum_start(struct attn_sum<D> &s)
{
#pragma unroll
    for (int j = 0; j < D / 8; j++) {
        for (int h = 0; h < 4; h++)
            s.o[j][h] = 0;
    }
    s.m[0] = s.m[1] = -INFINITY;
    s.l[0] = s.l[1] = 0;
}

/* ---- a tile of keys ---- */

/* Scores of the warp's pairs, -infinity where a key is not seen. */
template <int D>
static __device__ __forceinline__ void scores_of(const struct k_attn &a, const struct attn_pairs &p,
                                                 const unsigned char *q, const unsigned char *k,
                                                 int key, float s[ATTN_KEYS / 8][4])
{
    int d16 = (a.cache.d_head + 15) / 16, t = lane_id() % 4;
#pragma unroll
    for (int i = 0; i < D / 16; i++) {
        uint32_t qa[4], kb[4];
        if (i >= d16)
            break;
        operand_a<D>(q, warp_id() * ATTN_PAIRS, i, qa);
#pragma unroll
        for (int j = 0; j < ATTN_KEYS / 8; j += 2) {
            operand_b<D>(k, j * 8, i, kb);
            mma_bf16(s[j], qa, kb);
            mma_bf16(s[j + 1], qa, kb + 2);
        }
    }
#pragma unroll
    for (int e = 0; e < ATTN_KEYS / 2; e++)
        s[e / 4][e % 4] *= a.scale;
    if (a.softcap > 0) { /* as score_of; asked once, for asked 32 times it costs registers */
#pragma unroll
        for (int e = 0; e < ATTN_KEYS / 2; e++)
            s[e / 4][e % 4] = a.softcap * tanhf(s[e / 4][e % 4] / a.softcap);
    }
#pragma unroll
    for (int e = 0; e < ATTN_KEYS / 2; e++) {
        int at = key + e / 4 * 8 + 2 * t + e % 2;
        const struct span &seen = p.seen[e % 4 / 2];
        s[e / 4][e % 4] = at >= seen.lo && at < seen.hi ? s[e / 4][e % 4] : -INFINITY;
    }
}

/* Scores become weights relative to the new maximum; what was summed so far follows it. */
template <int D>
static __device__ __forceinline__ void weights_of(struct attn_sum<D> &sum,
                                                  float s[ATTN_KEYS / 8][4])
{
    float keep[2], base[2];
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float m = sum.m[h];
#pragma unroll
        for (int j = 0; j < ATTN_KEYS / 8; j++)
            m = fmaxf(m, fmaxf(s[j][2 * h], s[j][2 * h + 1]));
        m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, 1));
        m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, 2));
        base[h] = m == -INFINITY ? 0 : m; /* nothing seen yet: the weights are 0 all the same */
        keep[h] = exp_of(sum.m[h] - base[h]);
        sum.m[h] = m;
        sum.l[h] *= keep[h];
    }
#pragma unroll
    for (int e = 0; e < ATTN_KEYS / 2; e++) {
        float p = exp_of(s[e / 4][e % 4] - base[e % 4 / 2]);
        s[e / 4][e % 4] = p;
        sum.l[e % 4 / 2] += p;
    }
#pragma unroll
    for (int e = 0; e < D / 2; e++)
        sum.o[e / 4][e % 4] *= keep[e % 4 / 2];
}

static __device__ __forceinline__ bool is_number(uint32_t bf16)
{
    return (bf16 & 0x7f80u) != 0x7f80u;
}

/* Both halves, zeros for what is no number. */
static __device__ __forceinline__ uint32_t numbers_only(uint32_t pair)
{
    return (is_number(pair) ? pair & 0xffffu : 0) | (is_number(pair >> 16) ? pair & ~0xffffu : 0);
}

template <int D>
static __device__ __forceinline__ void values_add(struct attn_sum<D> &sum, int d,
                                                  const float p[ATTN_KEYS / 8][4],
                                                  const unsigned char *v, bool is_spoiled)
{
#pragma unroll
    for (int j = 0; j < ATTN_KEYS / 8; j += 2) {
        uint32_t pa[4] = {bf16_pair(p[j][0], p[j][1]), bf16_pair(p[j][2], p[j][3]),
                          bf16_pair(p[j + 1][0], p[j + 1][1]), bf16_pair(p[j + 1][2], p[j + 1][3])};
#pragma unroll
        for (int n = 0; n < D / 8; n += 2) {
            uint32_t vb[4];
            if (n * 8 >= d)
                break;
            operand_turned<D>(v, j * 8, n, vb);
            for (int i = 0; is_spoiled && i < 4; i++)
                vb[i] = numbers_only(vb[i]);
            mma_bf16(sum.o[n], pa, vb);
            mma_bf16(sum.o[n + 1], pa, vb + 2);
        }
    }
}

/* What those who see them get of values that are no numbers. The warps' weights take the place of
 * the tile's keys, of which all scores are made. */
template <int D>
static __device__ void spoiled_add(struct attn_sum<D> &sum, const struct attn_pairs &pairs, int d,
                                   int key, const float p[ATTN_KEYS / 8][4], unsigned char *tile)
{
    int g = lane_id() / 4, t = lane_id() % 4;
    const unsigned char *v = tile + ATTN_KEYS * D * 2;
    uint16_t *mine = (uint16_t *)tile + warp_id() * ATTN_PAIRS * ATTN_KEYS;
    __syncthreads();
#pragma unroll
    for (int e = 0; e < ATTN_KEYS / 2; e++)
        mine[(g + e % 4 / 2 * 8) * ATTN_KEYS + e / 4 * 8 + 2 * t + e % 2] =
            (uint16_t)bf16_bits(p[e / 4][e % 4]);
    __syncwarp();
    for (int at = 0; at < ATTN_KEYS; at++) {
        float w[2];
#pragma unroll
        for (int h = 0; h < 2; h++) {
            bool is_seen = key + at >= pairs.seen[h].lo && key + at < pairs.seen[h].hi;
            w[h] = is_seen ? bf16_get(mine[(g + h * 8) * ATTN_KEYS + at]) : -1;
        }
#pragma unroll
        for (int n = 0; n < D / 8; n++) {
            uint32_t pair = *(const uint32_t *)(v + piece_at<D>(at, n) + t * 4);
            if (n * 8 >= d)
                break;
            for (int e = 0; e < 4; e++) {
                uint32_t x = e % 2 ? pair >> 16 : pair & 0xffffu;
                if (w[e / 2] >= 0 && !is_number(x))
                    sum.o[n][e] += w[e / 2] * bf16_get(x);
            }
        }
    }
}

/* Does a tile hold a value that is no number? The same answer for all of the block. */
template <int D> static __device__ bool is_spoiled_tile(const unsigned char *v)
{
    bool is_bad = false;
    for (int e = (int)threadIdx.x; e < ATTN_KEYS * D / 2; e += (int)blockDim.x) {
        uint32_t pair = ((const uint32_t *)v)[e];
        is_bad |= !is_number(pair) || !is_number(pair >> 16);
    }
    return __syncthreads_or(is_bad) != 0;
}

/* ---- sums of chunks ---- */

/* The lane's sum of all chunks: numbers by [number][thread], so that neighbours meet no bank
 * twice. */
struct attn_total {
    float *o;
    float m[2], l[2];
};

template <int D>
static __device__ __forceinline__ void total_add(struct attn_total &total, struct attn_sum<D> &s,
                                                 int d)
{
    struct fold f[2];
#pragma unroll
    for (int h = 0; h < 2; h++) {
        f[h] = fold_of(total.m[h], s.m[h], s.l[h]);
        total.m[h] = f[h].m;
        total.l[h] = fold_in(f[h], total.l[h], s.l[h]);
    }
#pragma unroll
    for (int e = 0; e < D / 2; e++) {
        float *o = total.o + e * (int)blockDim.x;
        if (e / 4 * 8 < d)
            *o = fold_in(f[e % 4 / 2], *o, s.o[e / 4][e % 4]);
    }
}

template <int D>
static __device__ __forceinline__ void part_store(const struct k_attn_part &a,
                                                  const struct attn_pairs &p, int chunk,
                                                  const struct attn_sum<D> &s)
{
    int d = a.fwd.cache.d_head, t = lane_id() % 4;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        if (p.head[h] < 0 || !has_part(p.seen[h], chunk))
            continue;
        float *part = part_at(a, p.tok[h], p.head[h], chunk);
#pragma unroll
        for (int e = 0; e < D / 4; e++) {
            int col = e / 2 * 8 + 2 * t + e % 2;
            if (col < d)
                part[col] = s.o[e / 2][h * 2 + e % 2];
        }
        if (t == 0) {
            part[d] = s.m[h];
            part[d + 1] = s.l[h];
        }
    }
}

template <int D>
static __device__ __forceinline__ void
total_store(const struct k_attn &a, const struct attn_pairs &p, const struct attn_total &total)
{
    int d = a.cache.d_head, t = lane_id() % 4;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        if (p.head[h] < 0)
            continue;
        float *y = a.y + p.tok[h] * a.ld_y + (int64_t)p.head[h] * d;
#pragma unroll
        for (int e = 0; e < D / 4; e++) {
            int col = e / 2 * 8 + 2 * t + e % 2;
            if (col < d)
                y[col] =
                    sum_finish(total.o[(e / 2 * 4 + h * 2 + e % 2) * (int)blockDim.x], total.l[h]);
        }
        if (a.lse && t == 0)
            a.lse[p.tok[h] * a.n_head + p.head[h]] = total.m[h] + logf(total.l[h]);
    }
}

/* l of the four lanes that share a pair. */
template <int D> static __device__ __forceinline__ void sum_close(struct attn_sum<D> &s)
{
#pragma unroll
    for (int h = 0; h < 2; h++) {
        s.l[h] += __shfl_xor_sync(0xffffffffu, s.l[h], 1);
        s.l[h] += __shfl_xor_sync(0xffffffffu, s.l[h], 2);
    }
}

/* ---- the block ---- */

/* Keys that any pair of the block sees, and those that all of its pairs see. */
struct attn_reach {
    struct span any, all;
};

static __device__ struct attn_reach reach_of(const struct k_attn &a, const struct attn_tile &t,
                                             int n)
{
    int last = (int)least(t.pair + n, t.n_pair) - 1;
    struct span lo = keys_seen(a, t.kv_len, t.first + t.pair / t.group);
    struct span hi = keys_seen(a, t.kv_len, t.first + last / t.group);
    return {{lo.lo, hi.hi}, {hi.lo, lo.hi}};
}

template <int D>
static __device__ __forceinline__ void tile_load(const struct k_attn &a, const struct attn_tile &t,
                                                 int tile, struct span seen, unsigned char *stage)
{
    if (tile * ATTN_KEYS < seen.hi) {
        keys_load<D>(a, t, tile * ATTN_KEYS, seen, stage, stage + ATTN_KEYS * D * 2);
    }
    copy_commit();
}

/* One tile of keys, which lies in the stage. */
template <int D>
static __device__ __forceinline__ void
tile_add(const struct k_attn &a, const struct attn_pairs &p, const struct attn_reach &reach,
         int tile, const unsigned char *q, unsigned char *stage, struct attn_sum<D> &sum)
{
    int key = tile * ATTN_KEYS, d = a.cache.d_head;
    const unsigned char *v = stage + ATTN_KEYS * D * 2;
    bool is_mixed = reach.all.lo > key || reach.all.hi < least(key + ATTN_KEYS, reach.any.hi);
    bool is_spoiled = is_mixed && is_spoiled_tile<D>(v);
    float s[ATTN_KEYS / 8][4] = {};
    scores_of<D>(a, p, q, stage, key, s);
    weights_of<D>(sum, s);
    values_add<D>(sum, d, s, v, is_spoiled);
    if (is_spoiled)
        spoiled_add<D>(sum, p, d, key, s, stage);
}

/* The keys that the block walks over: all that its pairs see, or those of its chunk. */
static __device__ __forceinline__ struct span walk_of(const struct attn_args &args,
                                                      const struct attn_reach &reach)
{
    struct span s = reach.any;
    if (args.is_part) {
        s.lo = (int)most(s.lo, (int64_t)blockIdx.z * K_ATTN_CHUNK);
        s.hi = (int)least(s.hi, ((int64_t)blockIdx.z + 1) * K_ATTN_CHUNK);
    }
    return s;
}

template <int D>
static __global__ void __launch_bounds__(ATTN_WARPS *FULL_WARP) attn_kernel(struct attn_args args)
{
    typedef attn_block<D> B;
    const struct k_attn &a = args.k.fwd;
    int n_warp = (int)blockDim.x / FULL_WARP, n_pair = n_warp * ATTN_PAIRS;
    struct attn_tile t;
    if (!attn_tile_find(a, (int)blockIdx.x, n_pair, &t))
        return;
    t.head = (int)blockIdx.y;
    struct attn_reach reach = reach_of(a, t, n_pair);
    struct span seen = walk_of(args, reach);
    if (args.is_part && seen.lo >= seen.hi)
        return;
    unsigned char *ring = (unsigned char *)shared_memory(), *q = ring + B::RING_BYTES;
    float *mine = (float *)(q + n_warp * B::Q_BYTES) + threadIdx.x;
    struct attn_total total = {mine, {-INFINITY, -INFINITY}, {0, 0}};
    struct attn_pairs pairs = pairs_of(a, t);
    struct attn_sum<D> sum;
    for (int e = 0; e < D / 2; e++)
        mine[e * (int)blockDim.x] = 0;
    pairs_load<D>(a, t, a.q, a.ld_q, t.pair, n_pair, q);
    int tile = seen.lo / ATTN_KEYS, end = (seen.hi + ATTN_KEYS - 1) / ATTN_KEYS;
    for (int s = 0; s < B::STAGES - 1; s++)
        tile_load<D>(a, t, tile + s, seen, ring + (tile + s) % B::STAGES * 2 * B::TILE_BYTES);
    sum_start<D>(sum);
    for (; tile < end; tile++) {
        int ahead = tile + B::STAGES - 1;
        tile_load<D>(a, t, ahead, seen, ring + ahead % B::STAGES * 2 * B::TILE_BYTES);
        copy_wait<B::STAGES - 1>();
        __syncthreads();
        tile_add<D>(a, pairs, reach, tile, q, ring + tile % B::STAGES * 2 * B::TILE_BYTES, sum);
        if ((tile + 1) % ATTN_CHUNK_TILES == 0 || tile + 1 == end) {
            sum_close<D>(sum);
            if (args.is_part)
                part_store<D>(args.k, pairs, (int)blockIdx.z, sum);
            else
                total_add<D>(total, sum, a.cache.d_head);
            sum_start<D>(sum);
        }
        __syncthreads(); /* before the stage is filled again */
    }
    copy_wait<0>();
    if (!args.is_part)
        total_store<D>(a, pairs, total);
}

/* ---- launching ---- */

/* Tiles of one warp where sequences have but few pairs: a decode step. */
template <int D> static int attn_launch(const struct attn_args &args, int64_t n_chunk, void *stream)
{
    const struct k_attn &a = args.k.fwd;
    int64_t pairs = a.batch.n_tok * (a.n_head / a.cache.n_kv_head);
    int n_warp = pairs <= 2 * ATTN_PAIRS * a.batch.n_seq ? 1 : D > 128 ? 2 : ATTN_WARPS;
    return launch(attn_kernel<D>,
                  dim3((unsigned)attn_tile_count(&a, n_warp * ATTN_PAIRS),
                       (unsigned)a.cache.n_kv_head, (unsigned)n_chunk),
                  dim3((unsigned)n_warp * FULL_WARP),
                  attn_block<D>::RING_BYTES + (size_t)n_warp * attn_block<D>::WARP_BYTES, stream,
                  args);
}

static int attn_bf16(const struct attn_args &args, int64_t n_chunk, void *stream)
{
    int32_t d = args.k.fwd.cache.d_head;
    return d <= 64    ? attn_launch<64>(args, n_chunk, stream)
           : d <= 128 ? attn_launch<128>(args, n_chunk, stream)
                      : attn_launch<TILE_HEAD_MAX>(args, n_chunk, stream);
}

int attn_cuda(const void *args, void *stream)
{
    struct attn_args a = {};
    a.k.fwd = *(const struct k_attn *)args;
    return attn_is_plain(&a.k.fwd) ? attn_plain(&a.k.fwd, stream) : attn_bf16(a, 1, stream);
}

int attn_part_cuda(const void *args, void *stream)
{
    struct attn_args a = {*(const struct k_attn_part *)args, 1};
    return attn_is_plain(&a.k.fwd) ? attn_part_plain(&a.k, stream)
                                   : attn_bf16(a, a.k.n_chunk, stream);
}

/* ---- merge: a warp for each row and head ---- */

enum { MERGE_WARPS = 4, MERGE_COLS = HEAD_MAX / FULL_WARP };

static __global__ void attn_merge_kernel(struct k_attn_part a)
{
    const struct k_attn &f = a.fwd;
    const struct k_ragged &b = f.batch;
    int64_t at = (int64_t)blockIdx.x * MERGE_WARPS + warp_id(), tok = at / f.n_head;
    int d = f.cache.d_head, head = (int)(at % f.n_head);
    if (tok >= b.n_tok)
        return;
    int seq = b.seq_of[tok], pos = first_pos(b, seq) + (int)(tok - b.q_start[seq]);
    struct span seen = keys_seen(f, b.kv_len[seq], pos);
    float o[MERGE_COLS] = {}, m = -INFINITY, l = 0;
    for (int c = seen.lo / K_ATTN_CHUNK; c * K_ATTN_CHUNK < seen.hi && seen.lo < seen.hi; c++) {
        const float *part = part_at(a, tok, head, c);
        struct fold fold = fold_of(m, part[d], part[d + 1]);
        for (int i = 0; i < MERGE_COLS && lane_id() + i * FULL_WARP < d; i++)
            o[i] = fold_in(fold, o[i], part[lane_id() + i * FULL_WARP]);
        m = fold.m;
        l = fold_in(fold, l, part[d + 1]);
    }
    for (int i = 0; i < MERGE_COLS && lane_id() + i * FULL_WARP < d; i++)
        f.y[tok * f.ld_y + (int64_t)head * d + lane_id() + i * FULL_WARP] = sum_finish(o[i], l);
    if (f.lse && lane_id() == 0)
        f.lse[tok * f.n_head + head] = m + logf(l);
}

int attn_merge_cuda(const void *args, void *stream)
{
    const struct k_attn_part *a = (const struct k_attn_part *)args;
    return launch(attn_merge_kernel,
                  dim3((unsigned)ceil_div(a->fwd.batch.n_tok * a->fwd.n_head, MERGE_WARPS)),
                  dim3(MERGE_WARPS * FULL_WARP), 0, stream, *a);
}
