/* SPDX-License-Identifier: Apache-2.0
 *
 * The sampler's cut, a block for each row.
 *
 * Batches of the best that are left are found by the digits of their ranks (rank.cuh), the highest
 * first: a count of each value of a digit says where the last of the batch is. A batch is gathered
 * in shared memory, sorted and written out; and where no cut needs the whole row sorted, the first
 * batch is the last.
 */
#include "kernels/cuda/best.cuh"
#include "kernels/cuda/rank.cuh"
#include "kernels/cuda/rows.cuh"

static __global__ void argmax_kernel(struct k_argmax a)
{
    const float *x = a.x + (int64_t)blockIdx.x * a.ld;
    struct best b = row_best(x, a.n, (float *)shared_memory());
    bool is_finite = true;
    for (int64_t j = threadIdx.x; j < a.n; j += ROW_THREADS)
        is_finite &= fabsf(x[j]) <= 3.4028235e38f; /* false of a NaN */
    bool has_odd = __syncthreads_or(!is_finite) != 0;
    if (threadIdx.x == 0)
        a.best[blockIdx.x] = {b.max, b.id, !has_odd};
}

int argmax_cuda(const void *args, void *stream)
{
    const struct k_argmax *a = (const struct k_argmax *)args;
    return launch_rows(argmax_kernel, a->m, stream, *a);
}

/* ---- top_select ---- */

enum { BATCH = 4096, DIGITS = 256, DIGIT_BITS = 8, RANK_BITS = 64 };

/* What the threads of a block share. */
struct select_shared {
    uint64_t rank[BATCH];
    unsigned count[DIGITS];
    unsigned n;      /* of the batch */
    uint64_t prefix; /* of the digits so far */
    unsigned need;
    double sum;
    int left;
    double warp[ROW_THREADS / FULL_WARP];
};

struct select_row {
    const float *x;
    int64_t n;
    int32_t *id;
    float max;
    struct select_shared *s;
};

/* exp(x - max), where infinite maxima count one each */
static __device__ __forceinline__ double weight_of(float x, float max)
{
    return x == max ? 1.0 : exp((double)x - max);
}

/* Thread 0: the digit in which entry number s->need lies, and how many are before it there. False
 * when all up to the end of that digit are wanted. */
static __device__ bool digit_choose(struct select_shared *s, int shift)
{
    unsigned before = 0;
    int d = 0;
    while (before + s->count[d] < s->need)
        before += s->count[d++];
    s->prefix |= (uint64_t)d << shift;
    bool is_all = before + s->count[d] == s->need;
    s->need -= before;
    return !is_all;
}

/* The rank of the last of the `need` best that are not below `from`. */
static __device__ uint64_t batch_last(const struct select_row &r, uint64_t from, unsigned need)
{
    struct select_shared *s = r.s;
    if (threadIdx.x == 0) {
        s->prefix = 0;
        s->need = need;
    }
    int shift = RANK_BITS - DIGIT_BITS;
    for (;; shift -= DIGIT_BITS) {
        s->count[threadIdx.x] = 0;
        __syncthreads();
        uint64_t prefix = s->prefix;
        for (int64_t j = threadIdx.x; j < r.n; j += ROW_THREADS) {
            uint64_t rank = rank_of(r.x[j], (uint32_t)j);
            bool is_in = is_entry(r.x[j]) && rank >= from;
            /* the digits above: none at first, where a shift by all bits would be undefined */
            if (is_in && (rank ^ prefix) >> shift < DIGITS)
                atomicAdd(&s->count[rank >> shift & (DIGITS - 1)], 1u);
        }
        __syncthreads();
        bool goes_on = threadIdx.x == 0 && digit_choose(s, shift);
        if (!__syncthreads_or(goes_on) || shift == 0)
            break;
    }
    return s->prefix | ((1ull << shift) - 1);
}

/* Those from `from` to `last` into shared memory, padded to a power of two, which is returned. */
static __device__ int batch_gather(const struct select_row &r, uint64_t from, uint64_t last)
{
    struct select_shared *s = r.s;
    if (threadIdx.x == 0)
        s->n = 0;
    __syncthreads();
    for (int64_t j = threadIdx.x; j < r.n; j += ROW_THREADS) {
        uint64_t rank = rank_of(r.x[j], (uint32_t)j);
        if (is_entry(r.x[j]) && rank >= from && rank <= last)
            s->rank[atomicAdd(&s->n, 1u)] = rank;
    }
    __syncthreads();
    int n = (int)s->n, size = 1;
    while (size < n)
        size *= 2;
    for (int i = n + (int)threadIdx.x; i < size; i += ROW_THREADS)
        s->rank[i] = ~0ull;
    __syncthreads();
    return size;
}

/* Sorts by exchanges, in rounds that halve the distance. */
static __device__ void batch_sort(uint64_t *rank, int size)
{
    for (int run = 2; run <= size; run *= 2) {
        for (int far = run / 2; far > 0; far /= 2) {
            for (int i = (int)threadIdx.x; i < size / 2; i += ROW_THREADS) {
                int lo = i / far * far * 2 + i % far, hi = lo + far;
                uint64_t a = rank[lo], b = rank[hi];
                bool is_rising = (lo & run) == 0;
                if ((a > b) == is_rising) {
                    rank[lo] = b;
                    rank[hi] = a;
                }
            }
            __syncthreads();
        }
    }
}

/* Thread 0 goes on from *left entries and their sum to n, or to where a cut is. True: there. */
static __device__ bool cut_at(const struct select_row &r, int n, double target, float min_p,
                              int *left, double *sum)
{
    for (; *left < n; (*left)++) {
        double w = weight_of(r.x[r.id[*left]], r.max);
        if (*left > 0 && (*sum >= target || w < min_p))
            return true;
        *sum += w;
    }
    return false;
}

/* The first n entries of the sorted row into id, or fewer if `is_cut_early` and a cut comes first:
 * then how many and their sum stand in s. */
static __device__ void entries_sort(const struct select_row &r, int n, bool is_cut_early,
                                    double target, float min_p)
{
    struct select_shared *s = r.s;
    uint64_t from = 0;
    bool is_done = false;
    for (int done = 0; done < n && !is_done;) {
        int take = n - done < BATCH ? n - done : BATCH;
        if (is_cut_early && done == 0 && take > 512)
            take = 512; /* mostly enough */
        uint64_t last = batch_last(r, from, (unsigned)take);
        batch_sort(s->rank, batch_gather(r, from, last));
        for (int i = (int)threadIdx.x; i < take; i += ROW_THREADS)
            r.id[done + i] = (int32_t)(uint32_t)s->rank[i];
        done += take;
        from = last + 1;
        __syncthreads();
        bool is_end =
            is_cut_early && threadIdx.x == 0 && cut_at(r, done, target, min_p, &s->left, &s->sum);
        is_done = __syncthreads_or(is_end) != 0;
    }
}

static __device__ double row_total(const struct select_row &r)
{
    double sum = 0;
    for (int64_t j = threadIdx.x; j < r.n; j += ROW_THREADS) {
        if (is_entry(r.x[j]))
            sum += r.x[j] == r.max ? 1.0f : expf(r.x[j] - r.max);
    }
    return block_sum(sum, r.s->warp);
}

/* What of the row is entered, at most n_max. */
static __device__ int entry_count(const struct select_row &r, int64_t n_max)
{
    double n = 0;
    for (int64_t j = threadIdx.x; j < r.n; j += ROW_THREADS)
        n += is_entry(r.x[j]);
    return (int)least((int64_t)block_sum(n, r.s->warp), n_max);
}

static __device__ void cuts_make(const struct k_top_select &a, int64_t row,
                                 const struct select_row &r, int n)
{
    struct select_shared *s = r.s;
    int top_k = a.top_k[row];
    float top_p = a.top_p[row], min_p = a.min_p[row];
    bool is_cut = top_k > 0 && top_k <= n, has_p = top_p < 1;
    double target = has_p && !is_cut ? top_p * row_total(r) : INFINITY;
    n = is_cut ? top_k : n;
    bool is_early = !is_cut && (has_p || min_p > 0);
    entries_sort(r, n, is_early, target, min_p);
    if (threadIdx.x == 0 && !is_early) {
        if (has_p) {
            int all = 0;
            double total = 0;
            cut_at(r, n, INFINITY, 0, &all, &total);
            target = top_p * total;
        }
        cut_at(r, n, target, min_p, &s->left, &s->sum);
    }
    __syncthreads();
}

static __global__ void top_select_kernel(struct k_top_select a)
{
    struct select_shared *s = (struct select_shared *)shared_memory();
    int64_t row = blockIdx.x;
    struct select_row r = {a.logits + row * a.ld, a.n, a.id + row * a.n_max, 0, s};
    float *prob = a.prob + row * a.n_max;
    r.max = row_best(r.x, r.n, (float *)s->warp).max;
    int n = entry_count(r, a.n_max);
    if (threadIdx.x == 0) {
        s->left = n > 0 ? 0 : 1;
        s->sum = 0;
        if (n == 0)
            r.id[0] = 0;
    }
    __syncthreads();
    if (n > 0)
        cuts_make(a, row, r, n);
    int left = s->left;
    for (int i = (int)threadIdx.x; i < left; i += ROW_THREADS)
        prob[i] = left == 1 ? 1.0f : (float)(weight_of(r.x[r.id[i]], r.max) / s->sum);
    if (threadIdx.x == 0)
        a.n_left[row] = left;
}

int top_select_cuda(const void *args, void *stream)
{
    const struct k_top_select *a = (const struct k_top_select *)args;
    return launch(top_select_kernel, dim3((unsigned)a->m), dim3(ROW_THREADS),
                  sizeof(struct select_shared), stream, *a);
}
