/* SPDX-License-Identifier: Apache-2.0
 *
 * What an operation is. An op is one row of op.def and one file here that holds its maker (what a
 * model calls), its shape rule, its sharding rule, its forward and its backward. A node is an op
 * with its inputs; the same node stands in a graph (serving) and on a tape (training).
 *
 * Every value has rows and columns. Rows are a symbol (tokens, wanted rows, sequences), columns a
 * constant, so one graph serves every batch. A value is f32, or it is `blocked`: rounded to a
 * weight's compute type and laid out for the product (the output of op round).
 *
 * forward and backward are written once: they fill the arguments of kernels and hand them to
 * op_launch. Eager runs a launch at once; a plan records it and patches the counts at each step.
 *
 * Thread: op definitions are constant; an op_ctx belongs to its caller.
 */
#ifndef ENGINE_OP_OP_H
#define ENGINE_OP_OP_H

#include "engine/base/err.h"
#include "engine/op/batch.h"

enum op_id {
#define OP(name, text) OP_##name,
#include "engine/op/op.def"
#undef OP
    OP_COUNT
};

enum { OP_IN_MAX = 5, OP_OUT_MAX = 2, OP_ATTR_BYTES = 112, OP_LAUNCH_BYTES = 320 };

struct op_shape {
    enum dim rows;
    bool blocked;     /* rounded rows in the layout of rows_pack */
    enum k_type type; /* of a blocked value: K_F32 or K_BF16; else K_F32 */
    int64_t cols;
};

/* Bytes of a value of n_row rows. */
size_t op_shape_bytes(struct op_shape s, int64_t n_row);

struct op_node {
    enum op_id op;
    int8_t n_in, n_out;
    int32_t in[OP_IN_MAX]; /* value ids */
    int32_t out[OP_OUT_MAX];
    uint8_t takes; /* inputs that nobody else reads: eager may hand their memory on. Bit i */
    _Alignas(8) unsigned char attr[OP_ATTR_BYTES]; /* the op's own struct, padding zero */
};

/* A value with memory behind it. */
struct op_view {
    struct op_shape shape;
    float *p;   /* blocked values: cast */
    int64_t ld; /* floats from row to row; blocked values: unused */
};

struct op_sink;

/* A count inside a kernel's arguments that follows the batch: args + offset is an int64_t that
 * holds the batch's rows of dim, times `times` (0 reads as 1). In steps of fewer tokens than tok_lo
 * or, where tok_hi is not 0, of more than tok_hi it is 0, and the kernel has nothing to do. */
struct op_count {
    uint16_t offset;
    enum dim dim;
    int64_t times, tok_lo, tok_hi;
};

/* What the count is in a batch of n[DIM_COUNT] rows. */
int64_t op_count_of(const struct op_count *c, const int64_t *n);

/* A node ready to run. */
struct op_ctx {
    const struct op_node *node;
    const struct batch *batch;
    const int64_t *cap; /* rows of each dim that work and save have room for */
    struct op_view in[OP_IN_MAX], out[OP_OUT_MAX];
    void *work;   /* op_def.work bytes, for the length of this call */
    void *save;   /* op_def.save bytes, from forward to backward; NULL when no backward follows */
    void *shared; /* op_def.shared_back bytes, of backwards that read the same input 1 */
    bool has_shared; /* one of them has filled it */
    struct op_sink *sink;
};

/* Gradients for backward: dout is what arrived (p NULL: nothing did), din is where to put what
 * goes on (p NULL: not wanted), din_add whether to add to what is there or to overwrite it.
 * Parameters' gradients are added to, blank ones (param.h) filled. */
struct op_grad {
    struct op_view dout[OP_OUT_MAX], din[OP_IN_MAX];
    bool din_add[OP_IN_MAX];
};

/* Where launches go: a plan records them, eager and backward run them. */
struct op_collective;

struct op_sink {
    void (*launch)(struct op_sink *s, enum kernel_id k, const void *args, size_t bytes,
                   const struct op_count *count, int n_count);
    /* engine/op/collective.h; its m follows the batch's rows of dim. NULL: one rank. */
    void (*collective)(struct op_sink *s, const struct op_collective *a, enum dim dim);
};

/* How an output may be split when its inputs are: the sharding pass picks one row per node. */
enum op_split { SPLIT_END, SPLIT_WHOLE, SPLIT_COLS, SPLIT_PARTIAL };

struct op_shard {
    enum op_split in[OP_IN_MAX]; /* SPLIT_END behind the last */
    enum op_split weight;        /* SPLIT_COLS: its outputs; SPLIT_PARTIAL: its inputs */
    enum op_split out;
};

struct op_ranks;

/* What a node is made of where ranks share the model. */
struct op_local {
    const struct param *part;        /* borrowed: this rank's parts, by index */
    struct op_shape in[OP_IN_MAX];   /* the inputs as this rank has them */
    int64_t lo, cols;                /* a slice's columns of its input as this rank has it */
    const struct op_ranks *ranks;    /* borrowed: engine/op/collective.h */
    const struct param_share *share; /* borrowed: by index */
};

/* This rank's part of a parameter. */
static inline const struct param *op_part(const struct op_local *l, const struct param *p)
{
    return p ? &l->part[p->index] : NULL;
}

struct op_def {
    int (*shape)(const struct op_node *n, const struct op_shape *in, struct op_shape *out,
                 struct err *e);
    size_t (*work)(const struct op_node *n, const struct op_shape *in, const int64_t *cap);
    size_t (*save)(const struct op_node *n, const struct op_shape *in, const int64_t *cap);
    size_t (*work_back)(const struct op_node *n, const struct op_shape *in, const int64_t *cap);
    /* What a backward makes of input 1 alone, for others of this op that read it soon; 0: nothing.
     */
    size_t (*shared_back)(const struct op_node *n, const struct op_shape *in, const int64_t *cap);
    void (*forward)(struct op_ctx *c);
    void (*backward)(struct op_ctx *c, const struct op_grad *g);
    const struct param *(*param)(const struct op_node *n, int i); /* the i-th it reads, or NULL */
    uint8_t need_in, need_out; /* which inputs and outputs backward reads: bit i */
    uint8_t grad_same;         /* inputs whose gradient is the output's: shared, not copied */
    uint8_t no_grad;           /* inputs that backward reads but gives no gradient */
    bool trains;               /* has parameters that come with the batch: backward always runs */
    bool is_loss;              /* backward begins here, with no gradient from above */
    bool only_overwrites;      /* backward can't add: the tape sums where it must */
    bool backs_second;         /* what made input 0 goes before it on the way back, where it can:
                                * it fills a gradient to which this one can only add */
    bool fills_grad;           /* asks param_fills_grad; for others the tape zeroes what is blank */
    uint8_t may_overwrite[OP_OUT_MAX]; /* inputs whose memory an output may take: bit i */
    bool has_effect;                   /* must run though nobody reads its output */
    bool is_cheap; /* costs little: a tape may run its forward again instead of keeping what it
                    * made, where its backward needs the inputs anyway or they can be made again */
    struct op_view (*view)(const struct op_node *n, struct op_view in); /* out[0] lies in in[0] */
    /* The pieces that columns can be split between; NULL: between any two. */
    int64_t (*pieces)(const struct op_node *n, const struct op_shape *in);
    void (*localise)(struct op_node *n, const struct op_local *l); /* NULL: nothing to change */
    const struct op_shard *shard; /* rows up to one whose out is SPLIT_END */
};

const struct op_def *op_get(enum op_id id);
const char *op_name(enum op_id id);
const char *op_about(enum op_id id);

/* Hands a kernel its arguments. COUNT names the fields that follow the batch. */
void op_launch(struct op_ctx *c, enum kernel_id k, const void *args, size_t bytes,
               const struct op_count *count, int n_count);

/* Fills a view's rows with zeros; copies the rows of one to another. */
void op_zero(struct op_ctx *c, struct op_view v);
void op_copy(struct op_ctx *c, struct op_view from, struct op_view to);

/* Launches `args` (a struct k_*) whose field m counts the rows of dim. */
#define OP_LAUNCH_M(c, kernel, args, dim_)                                                         \
    op_launch((c), (kernel), &(args), sizeof(args),                                                \
              &(struct op_count){.offset = (uint16_t)((char *)&(args).m - (char *)&(args)),        \
                                 .dim = (dim_)},                                                   \
              1)

/* The rows that the batch has of a dim now; what to put in a count field. */
static inline int64_t op_rows(const struct op_ctx *c, enum dim d)
{
    return c->batch->n[d];
}

/* Shape rules that many ops share: the output is like the first input; all inputs are alike. */
int op_shape_same(const struct op_node *n, const struct op_shape *in, struct op_shape *out,
                  struct err *e);

#endif
