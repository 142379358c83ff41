/* SPDX-License-Identifier: Apache-2.0
 *
 * Mixtures of experts. Counts are made here and read here: grids follow from the number of routed
 * rows alone. The products are plain, a thread for an output, not on the tensor cores: a chain in
 * the order of the inputs, so a row has the same bits alone as among thousands.
 */
#include "kernels/cuda/rows.cuh"
#include "kernels/cuda/weight.cuh"

/* ---- who goes where ------------------------------------------------------------------------- */

static __device__ bool is_among(const int32_t *list, int64_t n, int64_t j)
{
    for (int64_t i = 0; i < n; i++)
        if (list[i] == j)
            return true;
    return false;
}

static __device__ int32_t largest_left(const float *x, int64_t n_x, const int32_t *picked,
                                       int64_t n)
{
    int32_t best = -1;
    for (int64_t j = 0; j < n_x; j++)
        if (!is_among(picked, n, j) && (best < 0 || x[j] > x[best]))
            best = (int32_t)j;
    return best;
}

static __device__ double exp_sum(const float *x, int64_t n, float *max)
{
    double sum = 0;
    *max = -INFINITY;
    for (int64_t j = 0; j < n; j++)
        *max = x[j] > *max ? x[j] : *max;
    for (int64_t j = 0; j < n; j++)
        sum += exp((double)x[j] - (double)*max);
    return sum;
}

/* A thread for a row. */
static __device__ int64_t thread_row(void)
{
    return (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x;
}

template <typename A> static int launch_threads(void (*kernel)(A), int64_t m, void *s, const A &a)
{
    return launch(kernel, dim3((unsigned)ceil_div(m, ROW_THREADS)), dim3(ROW_THREADS), 0, s, a);
}

/* Of a row's logits: their largest, and the sum of all exp(x - largest). */
struct row_of {
    const float *x;
    double all;
    float max;
};

static __device__ double score_of(const struct k_route &a, const struct row_of &r, int64_t j)
{
    double x = (double)r.x[j];
    return a.is_sigmoid ? 1 / (1 + exp(-x)) : exp(x - (double)r.max) / r.all;
}

/* What an expert is picked by: a number in the order of score + bias. */
static __device__ float choice_of(const struct k_route &a, const struct row_of &r, int64_t j)
{
    if (!a.bias && a.n_group < 2)
        return r.x[j];
    return (float)score_of(a, r, j) + (a.bias ? a.bias[j] : 0);
}

static __device__ float group_score(const struct k_route &a, const struct row_of &r, int64_t group)
{
    float best = -INFINITY, next = -INFINITY;
    int64_t n = a.n / a.n_group;
    for (int64_t j = group * n; j < (group + 1) * n; j++) {
        float choice = choice_of(a, r, j), low = choice > best ? best : choice;
        best = choice > best ? choice : best;
        next = low > next ? low : next;
    }
    return a.group_best == 2 && n > 1 ? best + next : best;
}

/* The groups that experts are picked from: open[0 .. top_group). */
static __device__ void open_groups(const struct k_route &a, const struct row_of &r, int32_t *open)
{
    float score[K_ROUTE_GROUPS];
    for (int32_t g = 0; g < a.n_group; g++)
        score[g] = group_score(a, r, g);
    for (int32_t i = 0; i < a.top_group; i++)
        open[i] = largest_left(score, a.n_group, open, i);
}

/* The best that is not among the n picked ones; all of a closed group are worse than any. */
static __device__ int32_t best_left(const struct k_route &a, const struct row_of &r,
                                    const int32_t *open, const int32_t *picked, int64_t n)
{
    int64_t each = a.n_group > 1 ? a.n / a.n_group : a.n;
    int32_t best = -1;
    float most = 0;
    for (int64_t j = 0; j < a.n; j++) {
        bool is_open = a.n_group < 2 || is_among(open, a.top_group, j / each);
        if (is_among(picked, n, j))
            continue;
        float choice = is_open ? choice_of(a, r, j) : -INFINITY;
        if (best < 0 || choice > most) {
            best = (int32_t)j;
            most = choice;
        }
    }
    return best;
}

static __global__ void route_kernel(struct k_route a)
{
    int64_t i = thread_row();
    if (i >= a.m)
        return;
    struct row_of r = {a.x + i * a.ld_x, 0, 0};
    int32_t *expert = a.map.expert + i * a.top, open[K_ROUTE_GROUPS];
    float *weight = a.map.weight + i * a.top;
    double sum = 0;
    r.all = exp_sum(r.x, a.n, &r.max);
    if (a.n_group > 1)
        open_groups(a, r, open);
    for (int64_t j = 0; j < a.top; j++) {
        expert[j] = best_left(a, r, open, expert, j);
        weight[j] = (float)score_of(a, r, expert[j]);
        sum += (double)weight[j];
    }
    for (int64_t j = 0; j < a.top && a.normalises; j++)
        weight[j] = (float)((double)weight[j] / (a.is_sigmoid ? sum + 1e-20 : sum));
    for (int64_t j = 0; j < a.top; j++)
        weight[j] *= a.scale;
    for (int64_t j = 0; j < a.top && a.each; j++) {
        a.map.share[i * a.top + j] = weight[j];
        weight[j] *= a.each[expert[j]];
    }
}

int route_cuda(const void *args, void *stream)
{
    const struct k_route *a = (const struct k_route *)args;
    return launch_threads(route_kernel, a->m, stream, *a);
}

/* One block; a thread has each ROW_THREADS-th expert, and looks through all pairs for its own. */
static __global__ void route_sort_kernel(struct k_route a)
{
    int64_t n_pair = a.m * a.top;
    for (int64_t e = threadIdx.x; e < a.n; e += ROW_THREADS) {
        int32_t n = 0;
        for (int64_t i = 0; i < n_pair; i++)
            n += a.map.expert[i] == e;
        a.map.start[e + 1] = n;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        a.map.start[0] = 0;
        for (int64_t e = 0; e < a.n; e++)
            a.map.start[e + 1] += a.map.start[e];
    }
    __syncthreads();
    for (int64_t e = threadIdx.x; e < a.n; e += ROW_THREADS) {
        int32_t at = a.map.start[e];
        for (int64_t i = 0; i < n_pair; i++) {
            if (a.map.expert[i] != e)
                continue;
            a.map.place[i] = at;
            a.map.from[at++] = (int32_t)i;
        }
    }
}

int route_sort_cuda(const void *args, void *stream)
{
    const struct k_route *a = (const struct k_route *)args;
    return launch(route_sort_kernel, dim3(a->m > 0), dim3(ROW_THREADS), 0, stream, *a);
}

static __global__ void route_bwd_kernel(struct k_route_bwd a)
{
    const struct k_route &f = a.fwd;
    int64_t i = thread_row();
    if (i >= a.m)
        return;
    const float *x = f.x + i * f.ld_x, *dw = a.dweight + i * f.top, *w = f.map.weight + i * f.top;
    const float *share = f.each ? f.map.share + i * f.top : w;
    const int32_t *expert = f.map.expert + i * f.top;
    float *dx = a.dx + i * a.ld_dx, max;
    double all = exp_sum(x, f.n, &max), dot = 0;
    bool is_apart = f.normalises || f.is_sigmoid;
    for (int64_t j = 0; j < f.top; j++)
        dot += (double)w[j] * (double)dw[j];
    for (int64_t j = 0; j < f.n; j++) {
        double p = is_apart ? 0 : exp((double)x[j] - (double)max) / all;
        dx[j] = (a.add ? dx[j] : 0) - (float)(p * dot);
    }
    for (int64_t j = 0; j < f.top; j++) {
        double slope = f.is_sigmoid ? 1 / (1 + exp((double)x[expert[j]])) : 1;
        double mean = f.normalises ? dot / (double)f.scale : 0;
        dx[expert[j]] += (float)(slope * ((double)w[j] * (double)dw[j] - (double)share[j] * mean));
    }
}

int route_bwd_cuda(const void *args, void *stream)
{
    const struct k_route_bwd *a = (const struct k_route_bwd *)args;
    return launch_threads(route_bwd_kernel, a->m, stream, *a);
}

static __device__ double pairs_of(const struct k_route_balance &a, int64_t e)
{
    double n = 0;
    for (int64_t l = 0; l < a.n_layer; l++) {
        const int32_t *start = a.start + l * (a.n + 1);
        n += start[e + 1] - start[e];
    }
    return n;
}

static __global__ void route_balance_kernel(struct k_route_balance a)
{
    int64_t i = thread_row();
    if (i >= a.m)
        return;
    const float *x = a.x + i * a.ld_x;
    float *dx = a.dx + i * a.ld_dx, max;
    double all = exp_sum(x, a.n, &max), dot = 0;
    for (int64_t j = 0; j < a.n; j++)
        dot += exp((double)x[j] - (double)max) / all * pairs_of(a, j);
    for (int64_t j = 0; j < a.n; j++)
        dx[j] +=
            (float)((double)a.by * exp((double)x[j] - (double)max) / all * (pairs_of(a, j) - dot));
}

int route_balance_cuda(const void *args, void *stream)
{
    const struct k_route_balance *a = (const struct k_route_balance *)args;
    return launch_threads(route_balance_kernel, a->m, stream, *a);
}

/* ---- products ------------------------------------------------------------------------------- */

static __device__ int64_t row_from(const int32_t *from, int64_t top, int64_t i)
{
    return from ? from[i] / top : i;
}

static __global__ void experts_pack_kernel(struct k_experts_pack a)
{
    int64_t stored = cuda_k_stored(a.type, a.k);
    for (int64_t i = each_row(); i < a.m; i += each_rows()) {
        const float *x = a.x + row_from(a.from, a.top, i) * a.ld_x;
        for (int64_t j = each_col(); j < each_end(stored); j += EACH_X) {
            float v = j < a.k ? x[j] : 0.0f;
            if (a.type == K_F32)
                ((float *)a.rows)[i * stored + j] = v;
            else
                ((k_bf16 *)a.rows)[i * stored + j] = (k_bf16)bf16_bits(v);
        }
    }
}

int experts_pack_cuda(const void *args, void *stream)
{
    const struct k_experts_pack *a = (const struct k_experts_pack *)args;
    return launch_each(experts_pack_kernel, a->m, cuda_k_stored(a->type, a->k), stream, *a);
}

/* The expert whose routed row i is. */
static __device__ int64_t expert_of(const int32_t *start, int64_t n_expert, int64_t i)
{
    int64_t lo = 0, hi = n_expert - 1; /* the last whose first row is not behind i */
    while (lo < hi) {
        int64_t mid = (lo + hi + 1) / 2;
        if (start[mid] <= i)
            lo = mid;
        else
            hi = mid - 1;
    }
    return lo;
}

static __device__ struct k_weight weight_of(const struct k_stack &s, int64_t expert)
{
    struct k_weight w = s.w;
    if (s.saved) {
        w.data = s.saved[expert].data;
        w.scale = s.saved[expert].scale;
        return w;
    }
    w.data = (char *)w.data + expert * s.data_bytes;
    w.scale = w.scale ? (char *)w.scale + expert * s.scale_bytes : NULL;
    return w;
}

static __device__ float row_number(const void *rows, bool is_f32, int64_t at)
{
    return is_f32 ? ((const float *)rows)[at] : bf16_get(((const k_bf16 *)rows)[at]);
}

static __device__ float scale_of(const struct k_weight &w, int64_t o, int64_t i)
{
    return has_wide_groups(w.type) ? code_scale<K_INT8>(w, o, i)
           : w.type == K_INT8G     ? code_scale<K_INT8G>(w, o, i)
                                   : code_scale<K_INT4>(w, o, i);
}

/* A chain over a group of codes, then its scale; without groups one chain. */
static __global__ void experts_kernel(struct k_experts a)
{
    bool is_f32 = cuda_has_plain_rows(a.stack.w.type), is_coded = a.stack.w.scale && !is_f32;
    for (int64_t i = each_row(); i < a.m; i += each_rows()) {
        struct k_weight w = weight_of(a.stack, expert_of(a.stack.start, a.stack.n_expert, i));
        if (!w.data)
            continue;
        int64_t stored = cuda_k_stored(w.type, w.k), step = is_coded ? code_group(w.type) : w.k;
        for (int64_t o = each_col(); o < each_end(w.n); o += EACH_X) {
            float sum = 0;
            for (int64_t lo = 0; lo < w.k; lo += step) {
                float part = 0;
                for (int64_t j = lo; j < least(w.k, lo + step); j++)
                    part = fmaf(is_coded ? weight_stored(w, stored, o, j)
                                         : weight_get(w, stored, o, j),
                                row_number(a.rows, is_f32, i * stored + j), part);
                sum = is_coded ? fmaf(scale_of(w, o, lo), part, sum) : part;
            }
            a.y[i * a.ld_y + o] = sum;
        }
    }
}

int experts_cuda(const void *args, void *stream)
{
    const struct k_experts *a = (const struct k_experts *)args;
    return launch_each(experts_kernel, a->m, a->stack.w.n, stream, *a);
}

static __global__ void experts_dx_kernel(struct k_experts a)
{
    bool is_f32 = cuda_has_plain_rows(a.stack.w.type), is_coded = a.stack.w.scale && !is_f32;
    for (int64_t i = each_row(); i < a.m; i += each_rows()) {
        struct k_weight w = weight_of(a.stack, expert_of(a.stack.start, a.stack.n_expert, i));
        if (!w.data)
            continue;
        int64_t stored = cuda_k_stored(w.type, w.k), wide = cuda_k_stored(w.type, w.n);
        for (int64_t j = each_col(); j < each_end(w.k); j += EACH_X) {
            float sum = 0, *y = a.y + i * a.ld_y + j;
            for (int64_t o = 0; o < w.n; o++) {
                float v = weight_get(w, stored, o, j);
                sum = fmaf(is_coded ? bf16_round(v) : v, row_number(a.rows, is_f32, i * wide + o),
                           sum);
            }
            *y = a.add ? *y + sum : sum;
        }
    }
}

int experts_dx_cuda(const void *args, void *stream)
{
    const struct k_experts *a = (const struct k_experts *)args;
    return launch_each(experts_dx_kernel, a->m, a->stack.w.k, stream, *a);
}

static __global__ void experts_dw_kernel(struct k_experts_dw a)
{
    int64_t lo = a.start[a.expert], hi = a.start[a.expert + 1];
    for (int64_t o = each_row(); o < a.n && lo < hi; o += each_rows()) {
        for (int64_t j = each_col(); j < each_end(a.k); j += EACH_X) {
            float sum = 0;
            for (int64_t i = lo; i < hi; i++)
                sum = fmaf(a.dy[row_from(a.from_dy, a.top, i) * a.ld_dy + o],
                           a.x[row_from(a.from_x, a.top, i) * a.ld_x + j], sum);
            a.dw[o * a.k + j] += sum;
        }
    }
}

int experts_dw_cuda(const void *args, void *stream)
{
    const struct k_experts_dw *a = (const struct k_experts_dw *)args;
    return launch_each(experts_dw_kernel, a->n, a->k, stream, *a);
}

/* ---- a row's experts together --------------------------------------------------------------- */

static __global__ void experts_sum_kernel(struct k_experts_sum a)
{
    for (int64_t i = each_row(); i < a.m; i += each_rows()) {
        for (int64_t c = each_col(); c < each_end(a.d); c += EACH_X) {
            float sum = 0, *y = a.y + i * a.ld_y + c;
            for (int64_t j = i * a.top; j < (i + 1) * a.top; j++)
                sum = fmaf(a.weight ? a.weight[j] : 1.0f, a.x[a.place[j] * a.ld_x + c], sum);
            *y = a.add ? *y + sum : sum;
        }
    }
}

int experts_sum_cuda(const void *args, void *stream)
{
    const struct k_experts_sum *a = (const struct k_experts_sum *)args;
    return launch_each(experts_sum_kernel, a->m, a->d, stream, *a);
}

static __global__ void experts_weigh_kernel(struct k_experts_weigh a)
{
    int64_t i = blockIdx.x;
    float *h = a.h + i * a.d, *dh = a.dh + i * a.d, w = a.weight[a.from[i]];
    double dot = 0;
    for (int64_t j = threadIdx.x; j < a.d; j += ROW_THREADS) {
        dot += (double)h[j] * (double)dh[j];
        h[j] *= w;
        dh[j] *= w;
    }
    dot = block_sum(dot, (double *)shared_memory());
    if (threadIdx.x == 0)
        a.dweight[a.from[i]] = (float)dot;
}

int experts_weigh_cuda(const void *args, void *stream)
{
    const struct k_experts_weigh *a = (const struct k_experts_weigh *)args;
    return launch_rows(experts_weigh_kernel, a->m, stream, *a);
}

/* ---- adapters ------------------------------------------------------------------------------- */

static __global__ void experts_rows_kernel(struct k_experts_rows a)
{
    if (a.n_used && *a.n_used == 0)
        return;
    for (int64_t i = each_row(); i < a.m; i += each_rows()) {
        const float *x = a.x + row_from(a.from, a.top, i) * a.ld_x;
        float w = a.weight ? a.weight[a.from[i]] : 1.0f;
        for (int64_t j = each_col(); j < each_end(a.d); j += EACH_X)
            a.y[i * a.d + j] = w * x[j];
    }
}

int experts_rows_cuda(const void *args, void *stream)
{
    const struct k_experts_rows *a = (const struct k_experts_rows *)args;
    return launch_each(experts_rows_kernel, a->m, a->d, stream, *a);
}

static __device__ void group_of(const struct k_experts_groups &a, const struct k_lora_group &g,
                                int64_t expert, struct k_lora_group *to)
{
    int64_t half_a = expert * g.rank * a.k, half_b = expert * g.rank * a.n;
    int64_t panels = expert * g.rank * ceil_div(a.n, K_NR) * K_NR;
    *to = g;
    to->stored = NULL;
    to->stored_bytes = 0;
    to->a = g.a ? g.a + half_a : NULL;
    to->b = g.b ? g.b + half_b : NULL;
    to->b_panels = g.b_panels ? g.b_panels + panels : NULL;
    to->a_bf16 = g.a_bf16 ? g.a_bf16 + half_a : NULL;
    to->b_panels_bf16 = g.b_panels_bf16 ? g.b_panels_bf16 + panels : NULL;
    to->da = g.da ? g.da + half_a : NULL;
    to->db = g.db ? g.db + half_b : NULL;
}

/* The first of an expert's routed rows from `lo` on that is row `row` or one behind it. */
static __device__ int64_t first_from(const struct k_experts_groups &a, int64_t lo, int64_t hi,
                                     int64_t row)
{
    while (lo < hi) {
        int64_t mid = (lo + hi) / 2;
        if (a.from[mid] / a.top < row)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* One thread of a warp: the groups of an expert stand behind those of the one before, of any
 * number. */
static __global__ void experts_groups_kernel(struct k_experts_groups a)
{
    int32_t n = 0;
    if (threadIdx.x > 0)
        return;
    for (int64_t e = 0; e < a.n_expert; e++) {
        int64_t at = a.start[e], end = a.start[e + 1];
        for (int64_t i = 0; i < a.n_group && at < end; i++) {
            const struct k_lora_group &g = a.group[i];
            int64_t lo = first_from(a, at, end, g.row_lo);
            at = first_from(a, lo, end, g.row_hi);
            if (lo == at || g.rank == 0 || !(g.a || g.a_bf16))
                continue;
            group_of(a, g, e, &a.to[n]);
            a.to[n].row_lo = lo;
            a.to[n++].row_hi = at;
        }
    }
    *a.n_used = n;
}

int experts_groups_cuda(const void *args, void *stream)
{
    const struct k_experts_groups *a = (const struct k_experts_groups *)args;
    return launch(experts_groups_kernel, dim3(1), dim3(FULL_WARP), 0, stream, *a);
}

/* ---- biases --------------------------------------------------------------------------------- */

static __global__ void experts_bias_kernel(struct k_experts_bias a)
{
    for (int64_t i = each_row(); i < a.m; i += each_rows()) {
        const float *bias = a.bias + expert_of(a.start, a.n_expert, i) * a.ld_bias;
        for (int64_t j = each_col(); j < each_end(a.d); j += EACH_X)
            a.y[i * a.ld_y + j] += bias[j];
    }
}

int experts_bias_cuda(const void *args, void *stream)
{
    const struct k_experts_bias *a = (const struct k_experts_bias *)args;
    return launch_each(experts_bias_kernel, a->m, a->d, stream, *a);
}

static __global__ void experts_bias_dot_kernel(struct k_experts_bias a)
{
    int64_t i = blockIdx.x;
    const float *bias = a.bias + expert_of(a.start, a.n_expert, i) * a.ld_bias;
    const float *dy = a.dy + a.from[i] / a.top * a.ld_dy;
    double dot = 0;
    for (int64_t j = threadIdx.x; j < a.d; j += ROW_THREADS)
        dot += (double)dy[j] * (double)bias[j];
    dot = block_sum(dot, (double *)shared_memory());
    if (threadIdx.x == 0)
        a.dweight[a.from[i]] += (float)dot;
}

int experts_bias_dot_cuda(const void *args, void *stream)
{
    const struct k_experts_bias *a = (const struct k_experts_bias *)args;
    return launch_rows(experts_bias_dot_kernel, a->m, stream, *a);
}

static __global__ void experts_bias_dw_kernel(struct k_experts_bias_dw a)
{
    int64_t lo = a.start[a.expert], hi = a.start[a.expert + 1], j = cols_at();
    double sum = 0;
    for (int64_t i = lo + cols_lane(); i < hi && j < a.n; i += COLS_Y)
        sum += (a.from ? (double)a.weight[a.from[i]] : 1.0) *
               (double)a.dy[row_from(a.from, a.top, i) * a.ld_dy + j];
    sum = cols_sum(sum);
    if (cols_lane() == 0 && j < a.n && lo < hi)
        a.dbias[j] += (float)sum;
}

int experts_bias_dw_cuda(const void *args, void *stream)
{
    const struct k_experts_bias_dw *a = (const struct k_experts_bias_dw *)args;
    return launch_cols(experts_bias_dw_kernel, a->n, 1, stream, *a);
}
