/* SPDX-License-Identifier: Apache-2.0
 *
 * What a GPU can do at most, measured: reading memory, copying it, a large product in bf16 by the
 * vendor's library. One line of JSON; what is measured beside it is a share of these.
 */
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <stdio.h>

enum { ROUNDS = 20, SIDE = 8192, BLOCKS = 132 * 16, THREADS = 512 };

static const size_t bytes = (size_t)2 << 30;

static int fail(const char *what, int rc)
{
    fprintf(stderr, "limits: %s: %d\n", what, rc);
    return 1;
}

static __global__ void read_kernel(const uint4 *x, size_t n, unsigned *out)
{
    unsigned sum = 0;
    for (size_t i = blockIdx.x * (size_t)THREADS + threadIdx.x; i < n;
         i += (size_t)BLOCKS * THREADS) {
        uint4 v = x[i];
        sum ^= v.x ^ v.y ^ v.z ^ v.w;
    }
    if (sum == 0x12345678u) /* of nobody, but the compiler does not know */
        *out = sum;
}

/* Numbers like those of weights: small, of both signs. Constant ones would draw less power. */
static __global__ void fill_kernel(__nv_bfloat16 *x, size_t n)
{
    for (size_t i = blockIdx.x * (size_t)THREADS + threadIdx.x; i < n;
         i += (size_t)BLOCKS * THREADS) {
        unsigned u = ((unsigned)i * 2654435761u + 12345u) * 2246822519u;
        x[i] = __float2bfloat16((float)(int)(u ^ u >> 13) * 0x1p-37f);
    }
}

struct bench {
    cudaStream_t stream;
    cudaEvent_t from, to;
    char *a, *b;
    cublasHandle_t blas;
};

static int read_once(struct bench *x)
{
    read_kernel<<<BLOCKS, THREADS, 0, x->stream>>>((const uint4 *)x->a, bytes / sizeof(uint4),
                                                   (unsigned *)x->b);
    return (int)cudaGetLastError();
}

static int copy_once(struct bench *x)
{
    return (int)cudaMemcpyAsync(x->b, x->a, bytes, cudaMemcpyDeviceToDevice, x->stream);
}

static int multiply_once(struct bench *x)
{
    const float one = 1, zero = 0;
    const __nv_bfloat16 *a = (const __nv_bfloat16 *)x->a;
    return (int)cublasGemmEx(x->blas, CUBLAS_OP_T, CUBLAS_OP_N, SIDE, SIDE, SIDE, &one, a,
                             CUDA_R_16BF, SIDE, a + (size_t)SIDE * SIDE, CUDA_R_16BF, SIDE, &zero,
                             x->b, CUDA_R_32F, SIDE, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
}

/* Seconds of one call, the mean of ROUNDS behind two to warm up; negative: it failed. */
static double seconds(struct bench *x, int (*once)(struct bench *))
{
    float ms = 0;
    int rc = once(x) || once(x) || cudaEventRecord(x->from, x->stream);
    for (int i = 0; i < ROUNDS && !rc; i++)
        rc = once(x);
    if (rc || cudaEventRecord(x->to, x->stream) || cudaEventSynchronize(x->to) ||
        cudaEventElapsedTime(&ms, x->from, x->to))
        return -1;
    return (double)ms / 1e3 / ROUNDS;
}

int main(void)
{
    struct bench x = {};
    int rc = (int)cudaStreamCreate(&x.stream) || cudaEventCreate(&x.from) ||
             cudaEventCreate(&x.to) || cudaMalloc((void **)&x.a, bytes) ||
             cudaMalloc((void **)&x.b, bytes);
    if (rc)
        return fail("no GPU, or no memory on it", (int)cudaGetLastError());
    fill_kernel<<<BLOCKS, THREADS, 0, x.stream>>>((__nv_bfloat16 *)x.a,
                                                  bytes / sizeof(__nv_bfloat16));
    rc = (int)cublasCreate(&x.blas);
    if (rc || (rc = (int)cublasSetStream(x.blas, x.stream)))
        return fail("cuBLAS", rc);
    double read = seconds(&x, read_once), copy = seconds(&x, copy_once);
    double product = seconds(&x, multiply_once);
    if (read < 0 || copy < 0 || product < 0)
        return fail("a measurement", (int)cudaGetLastError());
    printf("{\"read_gb_s\": %.0f, \"copy_gb_s\": %.0f, \"product_tflop_s\": %.0f}\n",
           (double)bytes / read / 1e9, 2 * (double)bytes / copy / 1e9,
           2.0 * SIDE * SIDE * SIDE / product / 1e12);
    return 0;
}
