/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of models' shapes, a line of JSON each: by the vendor's library with the algorithm that
 * is fastest for this number of rows (free), with the one that is fastest for the most rows and
 * taken for all (fixed), and by kernels/cuda (ours). keeps: whether fixed gives a row the bits that
 * it has among the most rows, as ours must; without that no text would be the same in company.
 */
#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <stdio.h>
#include <string.h>

#include "kernels/cuda/launch.h"

enum { M_MAX = 4096, ALGORITHMS = 8, ROUNDS = 10, THREADS = 256, ROOM = 64 << 20 };

static const struct shape {
    const char *name;
    int64_t n, k;
} shapes[] = {
    {"8B q,k,v", 6144, 4096},  {"8B out", 4096, 4096},    {"8B gate,up", 28672, 4096},
    {"8B down", 4096, 14336},  {"32B q,k,v", 7168, 5120}, {"32B gate,up", 55296, 5120},
    {"32B down", 5120, 27648},
};

static const int64_t rows[] = {1, 16, 64, 256, 1024, M_MAX};

/* One shape with all that its products read and write. */
struct bench {
    cudaStream_t stream;
    cudaEvent_t from, to;
    cublasLtHandle_t lt;
    cublasLtMatmulDesc_t op;
    struct shape shape;
    __nv_bfloat16 *w, *x16; /* row-major */
    float *x, *y, *y_all;
    void *packed, *blocks, *room;
};

static struct k_weight weight_of(const struct bench *b)
{
    return {K_BF16, b->shape.n, b->shape.k, b->packed, NULL};
}

/* Random numbers: constant ones draw less power, and run faster than a model's would. */
static __global__ void fill_kernel(float *x, __nv_bfloat16 *h, int64_t n)
{
    for (int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x; i < n;
         i += (int64_t)gridDim.x * THREADS) {
        uint32_t u = (uint32_t)i * 2654435761u + 12345u;
        u = (u ^ u >> 15) * 2246822519u;
        float v = (float)(int32_t)(u ^ u >> 13) * 0x1p-32f;
        h[i] = __float2bfloat16(v);
        if (x)
            x[i] = __bfloat162float(h[i]);
    }
}

/* ---- the library ---- */

struct plan {
    cublasLtMatrixLayout_t w, x, y;
    int64_t m;
};

static int plan_make(struct plan *p, const struct bench *b, int64_t m)
{
    const struct shape *s = &b->shape;
    p->m = m;
    return (int)cublasLtMatrixLayoutCreate(&p->w, CUDA_R_16BF, s->k, s->n, s->k) ||
           cublasLtMatrixLayoutCreate(&p->x, CUDA_R_16BF, s->k, m, s->k) ||
           cublasLtMatrixLayoutCreate(&p->y, CUDA_R_32F, s->n, m, s->n);
}

static void plan_drop(struct plan *p)
{
    cublasLtMatrixLayoutDestroy(p->w);
    cublasLtMatrixLayoutDestroy(p->x);
    cublasLtMatrixLayoutDestroy(p->y);
}

static int multiply(const struct bench *b, const struct plan *p, const cublasLtMatmulAlgo_t *algo,
                    float *y)
{
    const float one = 1, zero = 0;
    return (int)cublasLtMatmul(b->lt, b->op, &one, b->w, p->w, b->x16, p->x, &zero, y, p->y, y,
                               p->y, algo, b->room, ROOM, b->stream);
}

/* ---- ours ---- */

static int ours(const struct bench *b, int64_t m)
{
    struct k_linear a = {};
    a.rows = b->blocks;
    a.w = weight_of(b);
    a.y = b->y;
    a.ld_y = b->shape.n;
    a.m = m;
    a.panel_hi = b->shape.n / K_NR;
    return cuda_launch(K_linear_bf16, &a, sizeof a, b->stream);
}

static int pack_weight(const struct bench *b)
{
    struct k_weight_pack a = {};
    a.src = b->w;
    a.src_type = K_BF16;
    a.ld_src = b->shape.k;
    a.w = weight_of(b);
    a.n_src = b->shape.n;
    return cuda_launch(K_weight_pack, &a, sizeof a, b->stream);
}

static int pack_rows(const struct bench *b, int64_t m)
{
    struct k_rows_pack a = {};
    a.x = b->x;
    a.ld_x = a.k = b->shape.k;
    a.m = m;
    a.type = K_BF16;
    a.rows = b->blocks;
    return cuda_launch(K_rows_pack, &a, sizeof a, b->stream);
}

/* ---- time ---- */

/* TFLOP/s of one product, the mean of ROUNDS behind one to warm up; 0: it cannot. algo NULL: ours
 */
static double rate(const struct bench *b, const struct plan *p, const cublasLtMatmulAlgo_t *algo)
{
    float ms = 0;
    int rc = algo ? multiply(b, p, algo, b->y) : ours(b, p->m);
    cudaEventRecord(b->from, b->stream);
    for (int i = 0; i < ROUNDS && !rc; i++)
        rc = algo ? multiply(b, p, algo, b->y) : ours(b, p->m);
    if (rc || cudaEventRecord(b->to, b->stream) || cudaEventSynchronize(b->to) ||
        cudaEventElapsedTime(&ms, b->from, b->to) || ms <= 0)
        return 0;
    return 2.0 * (double)p->m * (double)b->shape.n * (double)b->shape.k * ROUNDS / ms / 1e9;
}

/* The fastest that the library has for these rows, and its rate. */
static double best_of(const struct bench *b, const struct plan *p, cublasLtMatmulAlgo_t *algo)
{
    cublasLtMatmulPreference_t wish;
    cublasLtMatmulHeuristicResult_t found[ALGORITHMS];
    size_t room = ROOM;
    int n = 0;
    double best = 0;
    if (cublasLtMatmulPreferenceCreate(&wish))
        return 0;
    cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &room,
                                         sizeof room);
    if (cublasLtMatmulAlgoGetHeuristic(b->lt, b->op, p->w, p->x, p->y, p->y, wish, ALGORITHMS,
                                       found, &n))
        n = 0;
    cublasLtMatmulPreferenceDestroy(wish);
    for (int i = 0; i < n; i++) {
        double r = rate(b, p, &found[i].algo);
        if (r > best) {
            best = r;
            *algo = found[i].algo;
        }
    }
    return best;
}

static __global__ void differ_kernel(const uint32_t *a, const uint32_t *b, int64_t n, int *differs)
{
    for (int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x; i < n;
         i += (int64_t)gridDim.x * THREADS) {
        if (a[i] != b[i])
            *differs = 1;
    }
}

/* Whether y's m rows are those of y_all, to the bit. */
static bool is_same(const struct bench *b, int64_t m)
{
    int *differs = (int *)b->room, said = 1;
    cudaMemsetAsync(differs, 0, sizeof *differs, b->stream);
    differ_kernel<<<1024, THREADS, 0, b->stream>>>(
        (const uint32_t *)b->y, (const uint32_t *)b->y_all, m * b->shape.n, differs);
    cudaMemcpyAsync(&said, differs, sizeof said, cudaMemcpyDeviceToHost, b->stream);
    return !cudaStreamSynchronize(b->stream) && !said;
}

/* ---- a shape ---- */

static int alloc(struct bench *b)
{
    size_t n = (size_t)b->shape.n, k = (size_t)b->shape.k;
    return (int)cudaMalloc((void **)&b->w, n * k * 2) || cudaMalloc(&b->packed, n * k * 2) ||
           cudaMalloc((void **)&b->x, M_MAX * k * 4) ||
           cudaMalloc((void **)&b->x16, M_MAX * k * 2) || cudaMalloc(&b->blocks, M_MAX * k * 2) ||
           cudaMalloc((void **)&b->y, M_MAX * n * 4) ||
           cudaMalloc((void **)&b->y_all, M_MAX * n * 4);
}

static void release(struct bench *b)
{
    void *all[] = {b->w, b->packed, b->x, b->x16, b->blocks, b->y, b->y_all};
    for (void *p : all)
        cudaFree(p);
}

static void one_count(const struct bench *b, int64_t m, const cublasLtMatmulAlgo_t *fixed)
{
    struct plan p;
    cublasLtMatmulAlgo_t algo;
    if (plan_make(&p, b, m) || pack_rows(b, m))
        return;
    double mine = rate(b, &p, NULL), free_rate = best_of(b, &p, &algo);
    double fixed_rate = rate(b, &p, fixed);
    bool keeps = fixed_rate > 0 && !multiply(b, &p, fixed, b->y) && is_same(b, m);
    printf("{\"shape\": \"%s\", \"n\": %lld, \"k\": %lld, \"rows\": %lld, \"free\": %.2f, "
           "\"fixed\": %.2f, \"keeps\": %s, \"ours\": %.2f}\n",
           b->shape.name, (long long)b->shape.n, (long long)b->shape.k, (long long)m, free_rate,
           fixed_rate, keeps ? "true" : "false", mine);
    fflush(stdout);
    plan_drop(&p);
}

static int measure(struct bench *b)
{
    struct plan most;
    cublasLtMatmulAlgo_t fixed;
    int rc = alloc(b) || plan_make(&most, b, M_MAX);
    if (rc)
        return rc;
    fill_kernel<<<1024, THREADS, 0, b->stream>>>(NULL, b->w, b->shape.n * b->shape.k);
    fill_kernel<<<1024, THREADS, 0, b->stream>>>(b->x, b->x16, M_MAX * b->shape.k);
    rc = pack_weight(b) || best_of(b, &most, &fixed) <= 0 || multiply(b, &most, &fixed, b->y_all);
    for (int64_t m : rows)
        if (!rc)
            one_count(b, m, &fixed);
    plan_drop(&most);
    return rc;
}

int main(void)
{
    struct bench b = {};
    cublasOperation_t turned = CUBLAS_OP_T;
    int rc =
        (int)cudaStreamCreate(&b.stream) || cudaEventCreate(&b.from) || cudaEventCreate(&b.to) ||
        cudaMalloc(&b.room, ROOM) || cublasLtCreate(&b.lt) ||
        cublasLtMatmulDescCreate(&b.op, CUBLAS_COMPUTE_32F, CUDA_R_32F) ||
        cublasLtMatmulDescSetAttribute(b.op, CUBLASLT_MATMUL_DESC_TRANSA, &turned, sizeof turned);
    for (const struct shape &s : shapes) {
        if (rc)
            break;
        b.shape = s;
        rc = measure(&b);
        release(&b);
    }
    if (rc)
        fprintf(stderr, "products: no GPU, no memory, or no answer of cuBLASLt: %s\n",
                cudaGetErrorString(cudaGetLastError()));
    return rc != 0;
}
