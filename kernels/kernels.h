/* SPDX-License-Identifier: Apache-2.0
 *
 * The face of the kernels: arithmetic on raw pointers. No kernel allocates, starts a thread, takes
 * a lock, or fails: what could be wrong with its arguments is the caller's duty to have checked.
 *
 * One calling form for all: a struct of arguments and a slice of output units. `kernel_shape` says
 * how many units a call has; whoever calls may cut [0, n_unit) anywhere and run the pieces in any
 * order on any threads, because a unit owns its outputs and no sum crosses units. That, and sums
 * whose order depends on the weight's shape and the variant alone, is why a row's bits depend
 * neither on the rows beside it nor on the number of threads.
 *
 * kernels/ref is plain C and the specification; x86/ overwrites what it has. kernel_table_init
 * fills the process's table once at start; a GPU fills a second table of the same type.
 *
 * Packed weights. A weight w[n, k] is stored once, as panels of K_NR outputs, and that copy serves
 * matrix-vector, matrix-matrix and both gradients (kernels/linear.h has the layout).
 *
 * Rounding rule: a product rounds its input rows to the weight's compute type (bf16 for bf16 and
 * int8 weights) in one place, rows_pack, to nearest even. Sums are f32.
 *
 * K/V cells. Keys and values live in cells of K_CELL tokens of one head, laid out as packed weights
 * are (kernels/attention.h has the layout), so the attention products are the linear micro-kernels.
 * A cache is a run of cells; a table maps a sequence's cells to places in it (paged), or there is
 * no table and they stand in a row (contiguous).
 *
 * Thread: any, once kernel_table_init has returned.
 */
#ifndef KERNELS_KERNELS_H
#define KERNELS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum kernel_id {
#define KERNEL(name, text) K_##name,
#include "kernels/kernels.def"
#undef KERNEL
    KERNEL_COUNT
};

enum k_type { K_F32, K_BF16, K_F16, K_INT8, K_TYPE_COUNT };

enum {
    K_NR = 32,                /* outputs in a panel */
    K_CELL = 32,              /* tokens in a K/V cell */
    K_ATTN_CHUNK = 256,       /* keys whose part of an attention sum is made at a time */
    K_INT8_GROUP = 128,       /* inputs that share a scale; the last group may be shorter */
    K_CE_CHUNK = 4096,        /* vocabulary entries folded at a time; a multiple of K_NR */
    K_SUM_CHUNK = 4096,       /* elements of a partial sum of squares */
    K_SCRATCH_BYTES = 1 << 20 /* what each compute thread lends to a kernel */
};

/* A piece of a call. */
struct k_slice {
    int64_t lo, hi; /* units [lo, hi) */
    void *scratch;  /* K_SCRATCH_BYTES, 64-aligned, this thread's own */
    void *stream;   /* a GPU's queue; NULL on the CPU */
};

typedef void kernel_fn(const void *args, const struct k_slice *s);

/* What a call is made of, whatever the variant. */
struct k_shape {
    int64_t n_unit; /* 0: nothing to do */
    double bytes;   /* read and written, each once */
    double flops;
};

typedef struct k_shape kernel_shape_fn(const void *args);

struct kernel_table {
    kernel_fn *fn[KERNEL_COUNT];
    const char *variant[KERNEL_COUNT]; /* "ref", "avx2", "avx512", "cuda" */
};

struct k_cpu {
    bool avx2, avx512, avx512_bf16; /* avx512: F, BW, DQ, VL, VBMI; each includes those before */
    char name[64];
};

/* The CPU as it is; the highest level that `mask` ("ref", "avx2", "avx512", NULL for all) allows.
 */
struct k_cpu kernel_cpu(void);

/* Fills t: ref, then what the CPU has up to `mask`. -1 when the mask is unknown, or names a level
 * that this CPU lacks. */
int kernel_table_init(struct kernel_table *t, const char *mask);

const char *kernel_name(enum kernel_id id);
struct k_shape kernel_shape(enum kernel_id id, const void *args);

/* Runs a whole call on this thread: for tests and tools. */
void kernel_run(const struct kernel_table *t, enum kernel_id id, const void *args, void *scratch);

/* bf16 and f16 as bits; conversions round to nearest even, keep NaN a NaN. */
typedef uint16_t k_bf16;
typedef uint16_t k_f16;
size_t k_type_bytes(enum k_type t);

/* ---- packed linear algebra --------------------------------------------------------------- */

struct k_weight {
    enum k_type type; /* K_F32, K_BF16 or K_INT8 */
    int64_t n, k;     /* outputs, inputs */
    void *data;       /* panels; 64-aligned; k_weight_bytes */
    float *scale;     /* int8: [panel, group, K_NR], inside data's allocation; else NULL */
};

size_t k_weight_bytes(enum k_type type, int64_t n, int64_t k); /* panels and scales */
void k_weight_bind(struct k_weight *w, enum k_type type, int64_t n, int64_t k, void *data);

struct k_weight_pack {    /* unit: a panel */
    const void *src;      /* [n, k] row-major, or [k, n] when transposed */
    enum k_type src_type; /* K_F32, K_BF16, K_F16 */
    int64_t ld_src;
    bool transposed;
    struct k_weight w;
    int64_t panel_lo; /* the source becomes panels [panel_lo, panel_lo + ceil(n_src / K_NR)) */
    int64_t n_src;    /* rows of the source; w.n when it is the whole weight */
};

struct k_weight_unpack { /* unit: a panel */
    struct k_weight w;
    float *dst; /* [n, k] */
    int64_t ld_dst;
};

/* Blocked rows: what a product reads. For K_F32 weights the rows stay f32, for K_BF16 and K_INT8
 * they are rounded to bf16. k_rows_bytes(type, m, k) bytes, 64-aligned. */
struct k_rows_pack { /* unit: a block of rows */
    const float *x;  /* [m, k] */
    int64_t ld_x, m, k;
    enum k_type type; /* the weight's type */
    void *rows;
};

size_t k_rows_bytes(enum k_type weight_type, int64_t m, int64_t k);

/* linear_f32, linear_bf16, linear_int8: y[m, :] (+)= x w^T + bias over panels [panel_lo, panel_hi)
 * of w; column 0 of y is the first output of panel_lo. The bias joins the finished sum, and what
 * is in y joins last. */
struct k_linear {
    const void *rows; /* of rows_pack, [m, w.k] */
    struct k_weight w;
    const float *bias; /* [w.n] or NULL */
    float *y;
    int64_t ld_y, m;
    int64_t panel_lo, panel_hi;
    bool add;
};

/* linear_dx_*: dx[m, k] (+)= dy w over panels [panel_lo, panel_hi). An int8 weight is taken as
 * bf16(scale * code). */
struct k_linear_dx {
    const void *rows; /* of rows_pack: dy [m, outputs of those panels], by w.type */
    int64_t m;
    struct k_weight w;
    int64_t panel_lo, panel_hi;
    float *dx;
    int64_t ld_dx;
    bool add;
};

/* linear_dw_*: dw[n, k] += dy[m, n]^T x[m, k], row-major f32; bf16 rounds both to bf16 first. Runs
 * of LINEAR_DW_ROWS rows are summed, each sum is added (kernels/linear.h). */
struct k_linear_dw {
    const float *dy, *x;
    int64_t ld_dy, ld_x, m, n, k;
    float *dw;
    int64_t ld_dw;
};

struct k_lora_group {
    int64_t row_lo, row_hi;
    int64_t rank;
    const float *a, *b; /* [rank, k], [n, rank] row-major; NULL: rows without an adapter */
    float scale;
    float *da, *db; /* lora_dw: added to; NULL: frozen */
};

struct k_lora { /* the product with a stays in t for the backward */
    const float *x;
    int64_t ld_x, m, k, n;
    const struct k_lora_group *group; /* disjoint, ascending rows */
    int64_t n_group;
    float *t; /* [m, rank_max] */
    int64_t rank_max;
    float *y; /* [m, n], added to */
    int64_t ld_y;
};

/* lora_bwd: dt and dx, units of rows. Once it is whole, lora_dw: da and db of the groups, from x,
 * dy, t and dt, units of columns. Two rows because their sums run across each other. */
struct k_lora_bwd {
    struct k_lora fwd; /* y unused */
    const float *dy;
    int64_t ld_dy;
    float *dt; /* [m, rank_max] */
    float *dx; /* [m, k], added to; NULL: not wanted */
    int64_t ld_dx;
};

/* ---- rows and elements ------------------------------------------------------------------- */

struct k_embed {
    const int32_t *token; /* [m], each in [0, table.n) */
    struct k_weight table;
    float *y; /* [m, table.k] */
    int64_t ld_y, m;
};

struct k_embed_bwd { /* unit: a run of columns, so that equal tokens add in row order */
    const int32_t *token;
    const float *dy;
    int64_t ld_dy, m, n, k;
    float *dtable; /* [n, k], added to */
};

struct k_norm { /* rmsnorm, layernorm. With residual, x + residual is normalised and kept in sum */
    const float *x, *residual, *weight, *bias;
    float *y, *sum; /* sum: NULL without residual; may be x */
    float *stat;    /* [m, n_head] 1/rms, or [m, n_head, 2] mean and 1/std; NULL: not wanted */
    int64_t ld_x, ld_residual, ld_y, ld_sum, m, d;
    int64_t n_head; /* a row is n_head runs of d, each normalised by itself under one weight[d] */
    float eps;
};

struct k_norm_bwd { /* *_bwd: dx (+)=; *_dw: dweight, dbias +=, either may be NULL */
    const float *x, *weight, *dy, *stat;
    float *dx, *dweight, *dbias;
    int64_t ld_x, ld_dy, ld_dx, m, d;
    int64_t n_head; /* as in k_norm */
    bool add;
};

struct k_rope { /* y may be x */
    const float *x;
    float *y;
    int64_t ld_x, ld_y, m;
    int32_t n_head, d_head, d_rot; /* the first d_rot of each head turn */
    const int32_t *pos;            /* [m] */
    const float *cos, *sin;        /* [pos, d_rot / 2] */
    bool interleaved;              /* pairs (2i, 2i+1) instead of (i, i + d_rot/2) */
    bool inverse;                  /* the backward */
};

struct k_swiglu { /* y[m, d] = silu(gate) * up */
    const float *gate, *up;
    float *y;
    int64_t ld_gate, ld_up, ld_y, m, d;
};

struct k_swiglu_bwd {
    const float *gate, *up, *dy;
    float *dgate, *dup;
    int64_t ld_gate, ld_up, ld_dy, ld_dgate, ld_dup, m, d;
};

struct k_gelu { /* gelu_bwd: y is dx, and dy is read */
    const float *x, *dy;
    float *y;
    int64_t ld_x, ld_dy, ld_y, m, d;
    bool tanh;
};

struct k_binary { /* add, mul: y = a op b; a stride of 0 repeats one row. y may be a or b */
    const float *a, *b;
    float *y;
    int64_t ld_a, ld_b, ld_y, m, d;
};

struct k_scale {
    const float *x;
    float *y;
    int64_t n;
    float s;
};

struct k_cast {
    const void *x;
    void *y;
    enum k_type from, to; /* one of them K_F32 */
    int64_t n;
};

struct k_copy {     /* y = x, or 0 where x is NULL */
    const float *x; /* a stride of 0 repeats one row */
    float *y;
    int64_t ld_x, ld_y, m, d;
};

/* y[i, j] = x[i, j] / (1 - p) where draw(seed, site, row_key[i], j) >= p, else 0; y may be x. A
 * row's draws follow its key, not its place in the batch. The backward is the same call on dy.
 * The draw of column j is word j % 64 / 16 of the Philox block whose counter is (j / 64 * 16 +
 * j % 16, site, row_key low, high) under the key seed: rng_at(seed, row_key, site << 32 | block).
 */
struct k_dropout {
    const float *x;
    float *y;
    const uint64_t *row_key; /* [m] */
    int64_t ld_x, ld_y, m, d;
    uint64_t seed;
    uint32_t site;
    float p;
};

struct k_gather { /* gather: y[i] = x[index[i]]; scatter_add: y[index[i]] += x[i], i ascending */
    const float *x;
    const int32_t *index; /* [m] */
    float *y;
    int64_t ld_x, ld_y, m, d;
};

struct k_col_sum { /* y[j] += sum over i of x[i, j] */
    const float *x;
    int64_t ld_x, m, d;
    float *y;
};

struct k_softmax { /* softmax, log_softmax; y may be x */
    const float *x;
    float *y;
    int64_t ld_x, ld_y, m, d;
};

/* ---- attention over a ragged batch -------------------------------------------------------- */

/* The sequences of a step, all as flat arrays. Query rows of sequence s are
 * [q_start[s], q_start[s+1]); its last row sees kv_len[s] keys, the row before one less
 * (causal), or all rows see all keys. */
struct k_ragged {
    int64_t n_seq, n_tok;
    const int32_t *q_start; /* [n_seq + 1] */
    const int32_t *kv_len;  /* [n_seq] keys in the cache, those of this step included */
    const int32_t *seq_of;  /* [n_tok] sequence of each row */
    const int32_t *pos;     /* [n_tok] place of each row in its sequence */
    const int32_t *cell;    /* [n_seq, cell_stride] places of a sequence's cells */
    int64_t cell_stride;    /* contiguous caches have a table too: it is small */
};

struct k_kv_cache {
    enum k_type type; /* K_F32 or K_BF16 */
    void *k, *v;      /* [n_kv_head, n_cell] cells of k_kv_cell_bytes(type, d_head) */
    int32_t n_kv_head, d_head;
    int64_t n_cell; /* of a head. Heads are outside so that cells which stand in a row, as a
                     * sequence's should where they can, are read as one stream */
};

size_t k_kv_cell_bytes(enum k_type type, int32_t d_head); /* of k or of v, one head */

struct k_kv_write { /* unit: a row */
    struct k_ragged batch;
    struct k_kv_cache cache;
    const float *k, *v; /* [n_tok, n_kv_head, d_head] */
    int64_t ld_k, ld_v;
};

struct k_attn {
    struct k_ragged batch;
    struct k_kv_cache cache;
    const float *q; /* [n_tok, n_head, d_head], rounded to the cache's type in here */
    float *y;       /* [n_tok, n_head, d_head]; zero for a row that sees no key */
    float *lse;     /* [n_tok, n_head] for the backward, or NULL */
    int64_t ld_q, ld_y;
    int32_t n_head;
    int32_t window;       /* keys this far from the row or farther are not seen; 0: all are */
    float scale, softcap; /* score = scale q k; softcap not 0: softcap tanh(score / softcap) */
    bool causal;
};

/* attn_part, attn_merge: attn in two calls with the same bits, for long sequences in few rows:
 * parts of chunks of K_ATTN_CHUNK keys, made in any order, and their fold. */
struct k_attn_part {
    struct k_attn fwd; /* attn_part reads q, attn_merge writes y and lse */
    float *part;       /* [n_tok, n_head, n_chunk, d_head + 2]: o, m, l of each chunk */
    int64_t n_chunk;   /* at least ceil(kv_len / K_ATTN_CHUNK) of every sequence */
};

struct k_attn_bwd { /* attn_bwd_q: dq = ; attn_bwd_kv: dk, dv = . K and V are read from the cells */
    struct k_attn fwd;
    const float *dy; /* [n_tok, n_head, d_head] */
    int64_t ld_dy;
    float *dq, *dk, *dv; /* rows like q, k, v */
    int64_t ld_dq, ld_dk, ld_dv;
};

/* ---- heads -------------------------------------------------------------------------------- */

struct k_ce_state { /* per row; the chunk at lo = 0 starts it */
    float max, sum, target_logit, best;
    int32_t best_id;
};

struct k_ce { /* ce_fwd folds logits[m, n] of entries [lo, lo + n) into state, n <= K_CE_CHUNK;
               * ce_bwd writes dlogits over them: (exp(logit - lse) - [id == target]) * dloss */
    float *logits;
    int64_t ld, m, lo, n;
    const int32_t *target; /* [m]; -1: a row without loss */
    struct k_ce_state *state;
    const float *dloss; /* [m] */
};

float k_ce_lse(const struct k_ce_state *s); /* max + log(sum): log-prob is logit - lse */

struct k_pool { /* mean_pool: y[s] = mean of x rows of s; mean_pool_bwd: x is dy, y is dx */
    const float *x;
    float *y;
    const int32_t *start; /* [n_seq + 1] */
    int64_t ld_x, ld_y, n_seq, d;
};

struct k_l2norm { /* l2norm_bwd: y is dx */
    const float *x, *dy;
    float *y;
    int64_t ld_x, ld_dy, ld_y, m, d;
    float eps;
};

/* Per row: ids and probabilities left, descending, ties by lower id. The softmax over all entries
 * is cut to the top_k largest; of these, renormalised, to the smallest set that reaches top_p; of
 * those to what has at least min_p times the largest probability; then to n_max entries. At least
 * one is left. NaN counts as -infinity, which is never left, except that a row of nothing else
 * leaves its entry 0. */
struct k_top_select {
    const float *logits; /* [m, n] */
    int64_t ld, m, n;
    const int32_t *top_k; /* [m]; 0: no cut */
    const float *top_p;   /* [m]; 1: no cut */
    const float *min_p;   /* [m]; 0: no cut */
    int32_t *id;          /* [m, n_max] */
    float *prob;          /* [m, n_max], renormalised to 1 */
    int32_t *n_left;      /* [m]; at most n_max */
    int64_t n_max;
};

/* ---- optimizer ---------------------------------------------------------------------------- */

struct k_adamw {
    float *p, *m, *v;
    const float *g;
    int64_t n;
    double lr, beta1, beta2, eps, decay, g_scale; /* g_scale: clipping and normalisation */
    double corr1, corr2;                          /* 1 - beta^t */
};

struct k_sum_sq { /* unit: a chunk of K_SUM_CHUNK */
    const float *x;
    int64_t n;
    double *part; /* [ceil(n / K_SUM_CHUNK)] */
};

#endif
