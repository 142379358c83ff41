/* SPDX-License-Identifier: Apache-2.0
 *
 * A token of a row by its draw, and what goes with it. A block has a row.
 *
 * Weights are integers, parts of the largest's 2^40, so their sums are the same in any order and
 * may be made by atomics. A cut, and the draw, is the lowest rank up to which the row's entries
 * come to so and so much; it is found by the digits of ranks, the highest first, and the sums of
 * each value of a digit. Before that a pass over the row sorts its entries into bins by their
 * distance from the largest: mostly those in the bins that a cut can reach are few, and are
 * gathered in shared memory, where the search goes on. Either way is the same token.
 *
 * Without a cut the draw is in the order of ids: the warps share out a run of the row, and the
 * part that is hit is shared out again.
 */
#include "kernels/cuda/best.cuh"
#include "kernels/cuda/rank.cuh"
#include "kernels/cuda/rows.cuh"

typedef unsigned long long amount;

enum { LIST_MAX = 4096, DIGITS = 256, DIGIT_BITS = 8, RANK_BITS = 64, WARPS = ROW_THREADS / 32 };

static_assert((int)DIGITS == (int)ROW_THREADS, "a thread clears a digit");

/* What the threads of a block share. */
struct sample_shared {
    uint64_t rank[LIST_MAX];
    amount sum[DIGITS], warp[WARPS];
    unsigned count[DIGITS];
    unsigned n_list;
    uint64_t prefix; /* of the digits so far */
    amount need;
    int bin; /* the last that a cut can reach */
};

struct sample_row {
    const float *x;
    int64_t n;
    struct best best;
    struct k_sample_how how;
    bool is_listed; /* what a cut can leave stands in s->rank */
    struct sample_shared *s;
};

/* ---- entries and their weights ---- */

static __device__ __forceinline__ bool is_scaled(const struct sample_row &r)
{
    return r.how.scale < 1 || r.how.scale > 1;
}

static __device__ __forceinline__ float top_of(const struct sample_row &r)
{
    return is_scaled(r) ? 0.0f : r.best.max;
}

static __device__ __forceinline__ float value_at(const struct sample_row &r, int64_t j)
{
    float x = r.x[j];
    if (!is_scaled(r))
        return x;
    return x == r.best.max ? 0.0f : (x - r.best.max) * r.how.scale;
}

static __device__ __forceinline__ float weight_of(const struct sample_row &r, float v)
{
    return v == top_of(r) ? 1.0f : expf(v - top_of(r));
}

static __device__ __forceinline__ amount amount_of(const struct sample_row &r, float v)
{
    return is_entry(v) ? (amount)(weight_of(r, v) * 0x1p40f) : 0;
}

/* u of a sum, and one more: the draw is where it is reached. */
static __device__ __forceinline__ amount drawn(double u, amount sum)
{
    amount need = (amount)(u * (double)sum) + 1;
    return need < sum ? need : sum;
}

static __device__ __forceinline__ amount warp_sum(amount x)
{
    for (int i = 16; i > 0; i /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, i);
    return x;
}

/* Of all threads, for all of them. */
static __device__ amount block_amount(amount x, struct sample_shared *s)
{
    x = warp_sum(x);
    if (lane_id() == 0)
        s->warp[warp_id()] = x;
    __syncthreads();
    amount sum = 0;
    for (int i = 0; i < WARPS; i++)
        sum += s->warp[i];
    __syncthreads();
    return sum;
}

/* ---- the order of ids ---- */

/* Ids [lo, hi) shared out to the warps: the part in which `need` is reached, and what is left of it
 * there. In the first round `need` follows from the sum. */
static __device__ void part_find(const struct sample_row &r, bool is_first, int64_t *lo,
                                 int64_t *hi, amount *need)
{
    int64_t step = ceil_div(*hi - *lo, WARPS), from = least(*lo + warp_id() * step, *hi);
    int64_t to = least(from + step, *hi);
    amount sum = 0, all = 0;
    for (int64_t j = from + lane_id(); j < to; j += FULL_WARP)
        sum += amount_of(r, value_at(r, j));
    sum = warp_sum(sum);
    if (lane_id() == 0)
        r.s->warp[warp_id()] = sum;
    __syncthreads();
    for (int i = 0; i < WARPS; i++)
        all += r.s->warp[i];
    if (is_first)
        *need = drawn(r.how.u, all);
    int w = 0;
    for (; w < WARPS - 1 && *need > r.s->warp[w]; w++)
        *need -= r.s->warp[w];
    __syncthreads();
    *hi = least(*lo + (w + 1) * step, *hi);
    *lo = least(*lo + w * step, *hi);
}

static __device__ int32_t draw_of_all(const struct sample_row &r)
{
    int64_t lo = 0, hi = r.n;
    amount need = 0, sum = 0;
    bool is_first = true;
    do {
        part_find(r, is_first, &lo, &hi, &need);
        is_first = false;
    } while (hi - lo > FULL_WARP);
    for (; lo < hi - 1; lo++) {
        sum += amount_of(r, value_at(r, lo));
        if (sum >= need)
            break;
    }
    return (int32_t)lo;
}

/* ---- the order of ranks ---- */

/* Entry number i of what is searched; false: it is none. */
static __device__ __forceinline__ bool entry_at(const struct sample_row &r, int64_t i,
                                                uint64_t *rank)
{
    if (r.is_listed) {
        *rank = r.s->rank[i];
        return true;
    }
    float v = value_at(r, i);
    *rank = rank_of(v, (uint32_t)i);
    return is_entry(v);
}

static __device__ __forceinline__ int64_t entry_count(const struct sample_row &r)
{
    return r.is_listed ? (int64_t)r.s->n_list : r.n;
}

enum what { COUNTED, WEIGHED, WEIGHED_ENOUGH }; /* enough: for min-p */

static __device__ __forceinline__ amount worth(const struct sample_row &r, uint64_t rank,
                                               enum what what)
{
    float v = rank_value(rank);
    if (what == COUNTED)
        return 1;
    bool is_out = what == WEIGHED_ENOUGH && weight_of(r, v) < r.how.min_p &&
                  (uint32_t)rank != (uint32_t)r.best.id;
    return is_out ? 0 : amount_of(r, v);
}

static __device__ amount worth_upto(const struct sample_row &r, uint64_t last, enum what what)
{
    amount sum = 0;
    uint64_t rank;
    for (int64_t i = threadIdx.x; i < entry_count(r); i += ROW_THREADS) {
        if (entry_at(r, i, &rank) && rank <= last)
            sum += worth(r, rank, what);
    }
    return block_amount(sum, r.s);
}

/* Thread 0: the digit in which it is reached. */
static __device__ void digit_choose(struct sample_shared *s, int shift)
{
    int d = 0;
    for (; d < DIGITS - 1 && s->sum[d] < s->need; d++)
        s->need -= s->sum[d];
    s->prefix |= (uint64_t)d << shift;
}

/* The lowest rank up to which those up to `last` are worth `need`; the highest number where they
 * are not. */
static __device__ uint64_t reach(const struct sample_row &r, uint64_t last, enum what what,
                                 amount need)
{
    struct sample_shared *s = r.s;
    uint64_t rank;
    if (threadIdx.x == 0) {
        s->prefix = 0;
        s->need = need;
    }
    for (int shift = RANK_BITS - DIGIT_BITS; shift >= 0; shift -= DIGIT_BITS) {
        s->sum[threadIdx.x] = 0;
        __syncthreads();
        uint64_t prefix = s->prefix;
        for (int64_t i = threadIdx.x; i < entry_count(r); i += ROW_THREADS) {
            if (entry_at(r, i, &rank) && rank <= last && (rank ^ prefix) >> shift < DIGITS)
                atomicAdd(&s->sum[rank >> shift & (DIGITS - 1)], worth(r, rank, what));
        }
        __syncthreads();
        if (threadIdx.x == 0)
            digit_choose(s, shift);
        __syncthreads();
    }
    uint64_t found = s->prefix;
    __syncthreads(); /* the next search begins with another */
    return found;
}

/* ---- few of many ---- */

/* Eighths of a power of e below the largest. */
static __device__ __forceinline__ int bin_of(const struct sample_row &r, float v)
{
    float far = (top_of(r) - v) * 8;
    return far < DIGITS - 1 ? (int)far : DIGITS - 1;
}

/* Thread 0: the last bin that any cut can reach, and how many entries there are up to it. Top-p's
 * share is of all that top-k leaves. */
static __device__ void bin_choose(const struct sample_row &r, amount all)
{
    struct sample_shared *s = r.s;
    unsigned n = 0;
    amount sum = 0, need = (amount)ceil((double)r.how.top_p * (double)all);
    bool is_shared = r.how.top_k > 0 && r.how.top_p < 1;
    int bin = 0;
    for (;; bin++) {
        n += s->count[bin];
        sum += s->sum[bin];
        bool is_end = r.how.top_k > 0 && n >= (unsigned)r.how.top_k;
        if (!is_shared) {
            is_end |= r.how.top_p < 1 && sum >= need;
            is_end |= expf(-(float)(bin + 1) / 8) < 0.99f * r.how.min_p;
        }
        if (is_end || bin == DIGITS - 1)
            break;
    }
    s->bin = bin;
    s->n_list = n;
}

/* The row by bins; what all of it weighs. */
static __device__ amount bins_count(const struct sample_row &r)
{
    struct sample_shared *s = r.s;
    s->count[threadIdx.x] = 0;
    s->sum[threadIdx.x] = 0;
    __syncthreads();
    for (int64_t j = threadIdx.x; j < r.n; j += ROW_THREADS) {
        float v = value_at(r, j);
        if (!is_entry(v))
            continue;
        atomicAdd(&s->count[bin_of(r, v)], 1u);
        atomicAdd(&s->sum[bin_of(r, v)], amount_of(r, v));
    }
    __syncthreads();
    return block_amount(s->sum[threadIdx.x], s);
}

static __device__ void list_gather(const struct sample_row &r)
{
    struct sample_shared *s = r.s;
    int bin = s->bin;
    if (threadIdx.x == 0)
        s->n_list = 0;
    __syncthreads();
    for (int64_t j = threadIdx.x; j < r.n; j += ROW_THREADS) {
        float v = value_at(r, j);
        if (is_entry(v) && bin_of(r, v) <= bin)
            s->rank[atomicAdd(&s->n_list, 1u)] = rank_of(v, (uint32_t)j);
    }
    __syncthreads();
}

static __device__ int32_t draw_of_cut(struct sample_row &r)
{
    const struct k_sample_how &how = r.how;
    uint64_t last = ~0ull;
    amount all = bins_count(r);
    if (threadIdx.x == 0)
        bin_choose(r, all);
    __syncthreads();
    if (r.s->n_list <= LIST_MAX) {
        list_gather(r);
        r.is_listed = true;
    }
    if (how.top_k > 0)
        last = reach(r, last, COUNTED, (amount)how.top_k);
    if (how.top_p < 1) {
        amount sum = last == ~0ull ? all : worth_upto(r, last, WEIGHED);
        amount need = (amount)ceil((double)how.top_p * (double)sum);
        last = reach(r, last, WEIGHED, need > 0 ? need : 1);
    }
    amount left = worth_upto(r, last, WEIGHED_ENOUGH);
    return (int32_t)(uint32_t)reach(r, last, WEIGHED_ENOUGH, drawn(how.u, left));
}

static __global__ void sample_kernel(struct k_sample a)
{
    struct sample_shared *s = (struct sample_shared *)shared_memory();
    int64_t row = blockIdx.x;
    struct sample_row r = {a.logits + row * a.ld, a.n, {0, 0}, a.how[row], false, s};
    if (a.best && !r.how.is_edited)
        r.best = {a.best[row].max, a.best[row].id};
    else
        r.best = row_best(r.x, r.n, (float *)s->warp);
    int32_t id = r.best.id;
    bool is_cut = r.how.top_k > 0 || r.how.top_p < 1 || r.how.min_p > 0;
    if (id >= 0 && r.how.scale > 0)
        id = is_cut ? draw_of_cut(r) : draw_of_all(r);
    if (threadIdx.x == 0)
        a.id[row] = id;
}

int sample_cuda(const void *args, void *stream)
{
    const struct k_sample *a = (const struct k_sample *)args;
    return launch(sample_kernel, dim3((unsigned)a->m), dim3(ROW_THREADS),
                  sizeof(struct sample_shared), stream, *a);
}

/* ---- edits ---- */

static __device__ __forceinline__ float clamped(double x)
{
    return (float)fmin(fmax(x, -3.4028234663852886e38), 3.4028234663852886e38);
}

static __device__ __forceinline__ float penalised(const struct k_edit_row &h, float logit,
                                                  float n_answer)
{
    double x = (double)logit;
    x = x > 0 ? x / h.repetition : x * h.repetition;
    x -= h.frequency * (double)n_answer;
    return clamped(x - (n_answer > 0 ? h.presence : 0));
}

/* Each kind of change sees what those before it left. */
static __global__ void logit_edit_kernel(struct k_logit_edit a)
{
    struct k_edit_row h = a.how[blockIdx.x];
    const struct k_edit *seen = a.edit + h.at, *bias = seen + h.n_seen, *ban = bias + h.n_bias;
    float *x = a.logits + h.row * a.ld;
    for (int i = (int)threadIdx.x; i < h.n_seen; i += ROW_THREADS)
        x[seen[i].id] = penalised(h, x[seen[i].id], seen[i].by);
    __syncthreads();
    for (int i = (int)threadIdx.x; i < h.n_bias; i += ROW_THREADS)
        x[bias[i].id] = clamped((double)x[bias[i].id] + (double)bias[i].by);
    __syncthreads();
    for (int i = (int)threadIdx.x; i < h.n_ban; i += ROW_THREADS) {
        if (ban[i].id >= 0 && ban[i].id < a.n)
            x[ban[i].id] = -INFINITY;
    }
}

int logit_edit_cuda(const void *args, void *stream)
{
    const struct k_logit_edit *a = (const struct k_logit_edit *)args;
    return launch_rows(logit_edit_kernel, a->m, stream, *a);
}

/* ---- what goes with them ---- */

static __global__ void pick_kernel(struct k_pick a)
{
    for (int64_t i = each_row(); i < a.m; i += each_rows()) {
        for (int64_t j = each_col(); j < each_end(a.n_id); j += EACH_X) {
            int64_t id = a.id[i * a.n_id + j];
            a.y[i * a.n_id + j] = id >= 0 && id < a.n ? a.x[i * a.ld + id] : 0.0f;
        }
    }
}

int pick_cuda(const void *args, void *stream)
{
    const struct k_pick *a = (const struct k_pick *)args;
    return launch_each(pick_kernel, a->m, a->n_id, stream, *a);
}

static __global__ void token_feed_kernel(struct k_token_feed a)
{
    for (int64_t i = each_col(); i < each_end(a.n); i += EACH_X) {
        if (each_row() == 0 && a.from[i] >= 0) {
            int32_t id = a.id[a.from[i]];
            a.token[i] = id > 0 ? id : 0;
        }
    }
}

int token_feed_cuda(const void *args, void *stream)
{
    const struct k_token_feed *a = (const struct k_token_feed *)args;
    return launch_each(token_feed_kernel, 1, a->n, stream, *a);
}
