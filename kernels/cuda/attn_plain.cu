/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention over cells of f32, forward and backward, for models of f32, and over cells of bf16
 * or codes whose heads are too wide for the tiles of attn.cu: plain, and not fast. A warp has one
 * pair, or one key: lanes have keys (rows) while scores are made and columns while they are summed,
 * and what one side makes the other finds in shared memory. Only what is seen is read.
 */
#include "kernels/cuda/attn.cuh"
#include "kernels/cuda/rows.cuh"

enum { PLAIN_WARPS = 4, PLAIN_COLS = HEAD_MAX / FULL_WARP };

static __device__ __forceinline__ float number(float x)
{
    return x;
}

static __device__ __forceinline__ float number(k_bf16 x)
{
    return bf16_get(x);
}

/* As what multiplies numbers of cells of T. */
template <typename T> static __device__ __forceinline__ float beside(float x)
{
    return sizeof(T) == sizeof(float) ? x : bf16_round(x);
}

/* What the numbers of a key are read from. */
template <typename T> struct key_row {
    typedef const T *type;
    static __device__ __forceinline__ type get(const struct k_attn &a, const void *cache, int seq,
                                               int head, int key)
    {
        return (const T *)cache + key_at(a.batch, a.cache, seq, head, key);
    }
};

template <> struct key_row<int8_t> {
    typedef struct coded_row type;
    static __device__ __forceinline__ type get(const struct k_attn &a, const void *cache, int seq,
                                               int head, int key)
    {
        return coded_key(a.cache, cache, key_cell(a.batch, a.cache, seq, head, key), key);
    }
};

template <typename T>
static __device__ __forceinline__ typename key_row<T>::type
key_of(const struct k_attn &a, const void *cache, int seq, int head, int key)
{
    return key_row<T>::get(a, cache, seq, head, key);
}

template <typename T, typename Row>
static __device__ __forceinline__ float dot_of(const float *a, const Row &b, int d)
{
    float sum = 0;
    for (int i = 0; i < d; i++)
        sum = fmaf(beside<T>(a[i]), number(b[i]), sum);
    return sum;
}

/* A row and head of the call: what the warp has. */
struct plain_pair {
    int64_t tok;
    int head, kv_head, seq, d;
    struct span seen;
};

/* Pair number `at` of the call; false: there is none. */
static __device__ bool pair_find(const struct k_attn &a, int64_t at, struct plain_pair *p)
{
    const struct k_ragged &b = a.batch;
    p->tok = at / a.n_head;
    p->head = (int)(at % a.n_head);
    if (p->tok >= b.n_tok)
        return false;
    p->kv_head = p->head / (a.n_head / a.cache.n_kv_head);
    p->seq = b.seq_of[p->tok];
    p->d = a.cache.d_head;
    p->seen =
        keys_seen(a, b.kv_len[p->seq], first_pos(b, p->seq) + (int)(p->tok - b.q_start[p->seq]));
    return true;
}

/* The kernel for cells of a type. */
#define KERNEL_OF(kernel, type)                                                                    \
    ((type) == K_F32 ? kernel<float> : (type) == K_BF16 ? kernel<k_bf16> : kernel<int8_t>)

static dim3 pair_grid(const struct k_attn *a, int64_t n_z)
{
    return dim3((unsigned)ceil_div(a->batch.n_tok * a->n_head, PLAIN_WARPS), 1, (unsigned)n_z);
}

/* ---- forward ---- */

struct plain_sum {
    float o[PLAIN_COLS], m, l;
};

/* The part of chunk c; `p` has room for its weights. */
template <typename T>
static __device__ struct plain_sum part_of_chunk(const struct k_attn &a,
                                                 const struct plain_pair &pair, int c, float *p)
{
    struct plain_sum s = {{}, -INFINITY, 0};
    int lo = (int)most(pair.seen.lo, (int64_t)c * K_ATTN_CHUNK), d = pair.d;
    int hi = (int)least(pair.seen.hi, ((int64_t)c + 1) * K_ATTN_CHUNK);
    const float *q = a.q + pair.tok * a.ld_q + (int64_t)pair.head * d;
    for (int j = lo + lane_id(); j < hi; j += FULL_WARP) {
        typename key_row<T>::type k = key_of<T>(a, a.cache.k, pair.seq, pair.kv_head, j);
        p[j - lo] = score_of(a, dot_of<T>(q, k, d));
        s.m = fmaxf(s.m, p[j - lo]);
    }
    s.m = warp_max(s.m);
    for (int j = lo + lane_id(); j < hi; j += FULL_WARP) {
        p[j - lo] = expf(p[j - lo] - s.m);
        s.l += p[j - lo];
        p[j - lo] = beside<T>(p[j - lo]);
    }
    s.l = warp_sum(s.l); /* and all weights are there */
    for (int j = lo; j < hi; j++) {
        typename key_row<T>::type v = key_of<T>(a, a.cache.v, pair.seq, pair.kv_head, j);
        for (int i = 0; i < PLAIN_COLS && lane_id() + i * FULL_WARP < d; i++)
            s.o[i] = fmaf(p[j - lo], number(v[lane_id() + i * FULL_WARP]), s.o[i]);
    }
    __syncwarp();
    return s;
}

template <typename T> static __global__ void attn_plain_kernel(struct k_attn a)
{
    float *p = (float *)shared_memory() + warp_id() * K_ATTN_CHUNK;
    struct plain_pair pair;
    if (!pair_find(a, (int64_t)blockIdx.x * PLAIN_WARPS + warp_id(), &pair))
        return;
    struct plain_sum total = {{}, -INFINITY, 0};
    for (int c = pair.seen.lo / K_ATTN_CHUNK; has_part(pair.seen, c); c++) {
        struct plain_sum s = part_of_chunk<T>(a, pair, c, p);
        struct fold f = fold_of(total.m, s.m, s.l);
        for (int i = 0; i < PLAIN_COLS; i++)
            total.o[i] = fold_in(f, total.o[i], s.o[i]);
        total.m = f.m;
        total.l = fold_in(f, total.l, s.l);
    }
    float *y = a.y + pair.tok * a.ld_y + (int64_t)pair.head * pair.d;
    for (int i = 0; i < PLAIN_COLS && lane_id() + i * FULL_WARP < pair.d; i++)
        y[lane_id() + i * FULL_WARP] = sum_finish(total.o[i], total.l);
    if (a.lse && lane_id() == 0)
        a.lse[pair.tok * a.n_head + pair.head] = total.m + logf(total.l);
}

int attn_plain(const struct k_attn *a, void *stream)
{
    return launch(KERNEL_OF(attn_plain_kernel, a->cache.type), pair_grid(a, 1),
                  dim3(PLAIN_WARPS * FULL_WARP), PLAIN_WARPS * K_ATTN_CHUNK * sizeof(float), stream,
                  *a);
}

template <typename T> static __global__ void attn_part_plain_kernel(struct k_attn_part a)
{
    float *p = (float *)shared_memory() + warp_id() * K_ATTN_CHUNK;
    int c = (int)blockIdx.z;
    struct plain_pair pair;
    if (!pair_find(a.fwd, (int64_t)blockIdx.x * PLAIN_WARPS + warp_id(), &pair) ||
        !has_part(pair.seen, c))
        return;
    struct plain_sum s = part_of_chunk<T>(a.fwd, pair, c, p);
    float *part = part_at(a, pair.tok, pair.head, c);
    for (int i = 0; i < PLAIN_COLS && lane_id() + i * FULL_WARP < pair.d; i++)
        part[lane_id() + i * FULL_WARP] = s.o[i];
    if (lane_id() == 0) {
        part[pair.d] = s.m;
        part[pair.d + 1] = s.l;
    }
}

int attn_part_plain(const struct k_attn_part *a, void *stream)
{
    return launch(KERNEL_OF(attn_part_plain_kernel, a->fwd.cache.type),
                  pair_grid(&a->fwd, a->n_chunk), dim3(PLAIN_WARPS * FULL_WARP),
                  PLAIN_WARPS * K_ATTN_CHUNK * sizeof(float), stream, *a);
}

/* ---- backward ---- */

/* p and ds of a pair and a key that it sees. */
template <typename T>
static __device__ __forceinline__ void
pair_gradient(const struct k_attn &a, const float *q, const float *dy,
              const typename key_row<T>::type &k, const typename key_row<T>::type &v, float lse,
              float delta, int d, float *p, float *ds)
{
    float score = score_of(a, dot_of<T>(q, k, d));
    *p = expf(score - lse);
    *ds = *p * (dot_of<T>(dy, v, d) - delta);
    if (a.softcap > 0) {
        float t = score / a.softcap;
        *ds *= 1 - t * t;
    }
    *p = beside<T>(*p);
    *ds = beside<T>(*ds);
}

template <typename T> static __global__ void attn_bwd_q_plain_kernel(struct k_attn_bwd a)
{
    const struct k_attn &f = a.fwd;
    float *ds = (float *)shared_memory() + warp_id() * FULL_WARP, sum[PLAIN_COLS] = {}, unused;
    struct plain_pair pair;
    if (!pair_find(f, (int64_t)blockIdx.x * PLAIN_WARPS + warp_id(), &pair))
        return;
    int d = pair.d;
    const float *q = f.q + pair.tok * f.ld_q + (int64_t)pair.head * d;
    const float *dy = a.dy + pair.tok * a.ld_dy + (int64_t)pair.head * d;
    float lse = f.lse[pair.tok * f.n_head + pair.head];
    float delta = dot_of<float>(dy, f.y + pair.tok * f.ld_y + (int64_t)pair.head * d, d);
    for (int lo = pair.seen.lo; lo < pair.seen.hi; lo += FULL_WARP) {
        int j = lo + lane_id(), n = (int)least(FULL_WARP, pair.seen.hi - lo);
        if (j < pair.seen.hi)
            pair_gradient<T>(f, q, dy, key_of<T>(f, f.cache.k, pair.seq, pair.kv_head, j),
                             key_of<T>(f, f.cache.v, pair.seq, pair.kv_head, j), lse, delta, d,
                             &unused, &ds[lane_id()]);
        __syncwarp();
        for (int e = 0; e < n; e++) {
            typename key_row<T>::type k = key_of<T>(f, f.cache.k, pair.seq, pair.kv_head, lo + e);
            for (int i = 0; i < PLAIN_COLS && lane_id() + i * FULL_WARP < d; i++)
                sum[i] = fmaf(ds[e], number(k[lane_id() + i * FULL_WARP]), sum[i]);
        }
        __syncwarp();
    }
    for (int i = 0; i < PLAIN_COLS && lane_id() + i * FULL_WARP < d; i++)
        a.dq[pair.tok * a.ld_dq + (int64_t)pair.head * d + lane_id() + i * FULL_WARP] =
            sum[i] * f.scale;
}

int attn_bwd_q_plain(const struct k_attn_bwd *a, void *stream)
{
    return launch(KERNEL_OF(attn_bwd_q_plain_kernel, a->fwd.cache.type), pair_grid(&a->fwd, 1),
                  dim3(PLAIN_WARPS * FULL_WARP), PLAIN_WARPS * FULL_WARP * sizeof(float), stream,
                  *a);
}

/* Gradients of one key. */
struct key_sum {
    float k[PLAIN_COLS], v[PLAIN_COLS];
};

/* Rows [lo, lo + n), at most a warp of them, with one query head. p and ds have room for each. */
template <typename T>
static __device__ void rows_add(const struct k_attn_bwd &a, const typename key_row<T>::type &k,
                                const typename key_row<T>::type &v, int head, int64_t lo, int n,
                                float *p, float *ds, struct key_sum *s)
{
    const struct k_attn &f = a.fwd;
    int d = f.cache.d_head;
    int64_t at = (int64_t)head * d, tok = lo + lane_id();
    if (lane_id() < n) {
        const float *dy = a.dy + tok * a.ld_dy + at;
        pair_gradient<T>(f, f.q + tok * f.ld_q + at, dy, k, v, f.lse[tok * f.n_head + head],
                         dot_of<float>(dy, f.y + tok * f.ld_y + at, d), d, &p[lane_id()],
                         &ds[lane_id()]);
    }
    __syncwarp();
    for (int e = 0; e < n; e++) {
        for (int i = 0; i < PLAIN_COLS && lane_id() + i * FULL_WARP < d; i++) {
            int64_t col = at + lane_id() + i * FULL_WARP;
            s->v[i] = fmaf(p[e], beside<T>(a.dy[(lo + e) * a.ld_dy + col]), s->v[i]);
            s->k[i] = fmaf(ds[e], beside<T>(f.q[(lo + e) * f.ld_q + col]), s->k[i]);
        }
    }
    __syncwarp();
}

/* A warp for each row of the call, as a key, and K/V head. */
template <typename T> static __global__ void attn_bwd_kv_plain_kernel(struct k_attn_bwd a)
{
    const struct k_attn &f = a.fwd;
    const struct k_ragged &b = f.batch;
    float *p = (float *)shared_memory() + warp_id() * 2 * FULL_WARP, *ds = p + FULL_WARP;
    int64_t at = (int64_t)blockIdx.x * PLAIN_WARPS + warp_id(), tok = at / f.cache.n_kv_head;
    int kv_head = (int)(at % f.cache.n_kv_head), group = f.n_head / f.cache.n_kv_head;
    if (tok >= b.n_tok)
        return;
    int seq = b.seq_of[tok], d = f.cache.d_head, first = first_pos(b, seq);
    int key = first + (int)(tok - b.q_start[seq]);
    struct span rows = rows_seeing(f, row_count(b, seq), first, key);
    typename key_row<T>::type k = key_of<T>(f, f.cache.k, seq, kv_head, key);
    typename key_row<T>::type v = key_of<T>(f, f.cache.v, seq, kv_head, key);
    struct key_sum s = {};
    for (int head = kv_head * group; head < (kv_head + 1) * group; head++) {
        for (int row = rows.lo; row < rows.hi; row += FULL_WARP)
            rows_add<T>(a, k, v, head, b.q_start[seq] + row, (int)least(FULL_WARP, rows.hi - row),
                        p, ds, &s);
    }
    for (int i = 0; i < PLAIN_COLS && lane_id() + i * FULL_WARP < d; i++) {
        int64_t col = (int64_t)kv_head * d + lane_id() + i * FULL_WARP;
        a.dk[tok * a.ld_dk + col] = s.k[i] * f.scale;
        a.dv[tok * a.ld_dv + col] = s.v[i];
    }
}

int attn_bwd_kv_plain(const struct k_attn_bwd *a, void *stream)
{
    const struct k_attn *f = &a->fwd;
    return launch(KERNEL_OF(attn_bwd_kv_plain_kernel, f->cache.type),
                  dim3((unsigned)ceil_div(f->batch.n_tok * f->cache.n_kv_head, PLAIN_WARPS)),
                  dim3(PLAIN_WARPS * FULL_WARP), PLAIN_WARPS * 2 * FULL_WARP * sizeof(float),
                  stream, *a);
}
