/* SPDX-License-Identifier: Apache-2.0
 *
 * What clients of Tinker's API ask for and are told, as its public SDK writes and reads it: JSON,
 * but for what holds arrays of numbers, which is messages of protocol buffers (passes, and what
 * they and samples come to).
 *
 * A request is read twice. The address says whose turn it is, and is all that is looked at when it
 * comes; the rest is read when its turn comes, and what is wrong with it is what it comes to: so a
 * request that cannot be honoured takes its place in its model's line, as the SDK counts on.
 *
 * Memory: all that is read lies in the arena.
 * Thread: any.
 */
#ifndef API_TINKER_H
#define API_TINKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/error.h"
#include "engine/base/arena.h"
#include "engine/serve/gen.h"

/* In the store, too: numbers stay what they are. */
enum tinker_kind {
    TINKER_CREATE = 0,
    TINKER_PASS = 1,
    TINKER_STEP = 2,
    TINKER_SAVE = 3,
    TINKER_LOAD = 4,
    TINKER_SAVE_SAMPLER = 5,
    TINKER_SAMPLE = 6
};

enum {
    TINKER_ID_BYTES = 96,
    TINKER_NAME_BYTES = 64, /* of saved weights, with the end */
    TINKER_ROWS_MAX = 4096, /* of a pass */
    TINKER_SAMPLES_MAX = 128,
    TINKER_RANK = 32 /* where none is said */
};

/* Where a request stands in a line: of a model, or of a sampler. */
struct tinker_address {
    const char *line;    /* "SESSION:train:0"; of a sample that names no sampler NULL */
    const char *session; /* of a model that is begun with it: line is made of it; else NULL */
    int64_t seq;
};
int tinker_address_read(enum tinker_kind kind, const char *body, size_t n, struct arena *a,
                        struct tinker_address *out, struct api_error *e);

int tinker_pass_address(const char *body, size_t n, struct arena *a, struct tinker_address *out,
                        struct api_error *e);

struct tinker_create {
    const char *base_model;
    int64_t rank;
    uint64_t seed;
    bool has_seed, has_attention, has_others; /* which products are trained */
};
int tinker_create_read(const char *body, size_t n, struct arena *a, struct tinker_create *out,
                       struct api_error *e);

struct tinker_row {
    int32_t *id, *label;
    float *counts, *sampled; /* weights or advantages; NULL: none were sent */
    int64_t n;
};
struct tinker_pass {
    struct tinker_row *row;
    int64_t n_row;
    const char *loss;
    double low, high, beta; /* NAN: not said */
    bool is_forward_only;
};
int tinker_pass_read(const char *body, size_t n, struct arena *a, struct tinker_pass *out,
                     struct api_error *e);

struct tinker_step {
    double lr, beta1, beta2, eps, decay, max_norm;
};
int tinker_step_read(const char *body, size_t n, struct arena *a, struct tinker_step *out,
                     struct api_error *e);

struct tinker_save {
    const char *name;    /* NULL: none, as of weights to be sampled next */
    int64_t sampler_seq; /* -1: not said */
    int64_t ttl_s;       /* 0: for good */
    bool overwrites;
};
int tinker_save_read(const char *body, size_t n, struct arena *a, struct tinker_save *out,
                     struct api_error *e);

struct tinker_load {
    const char *path, *base_model; /* the latter NULL: not said */
    bool has_optimizer;
};
int tinker_load_read(const char *body, size_t n, struct arena *a, struct tinker_load *out,
                     struct api_error *e);

struct tinker_sample {
    int32_t *id;
    int64_t n, n_sample, last_n; /* last_n: of the prompt's logprobs; 0: all */
    bool has_seed, wants_prompt;
    struct gen_params params; /* its texts and ids lie in the arena */
};
int tinker_sample_read(const char *body, size_t n, struct arena *a, struct tinker_sample *out,
                       struct api_error *e);
int64_t tinker_sample_count(const char *body, size_t n, struct arena *a); /* num_samples, or 1 */

/* "tinker://MODEL/weights/NAME", or sampler_weights. */
int tinker_path_read(const char *path, struct arena *a, const char **model, bool *is_sampler,
                     const char **name);

/* ---- what is told ---------------------------------------------------------------------------- */

void tinker_failed_write(struct buf *out, const char *why, bool is_users);
/* logprob: of all rows, one behind the other. */
void tinker_pass_write(struct buf *out, const struct tinker_pass *p, const float *logprob,
                       double loss, int64_t n_clipped, int64_t n_moved);

/* NULL and 0 where nothing is said of the prompt. */
struct tinker_said {
    const int32_t *id;
    const float *logprob;
    size_t n;
    bool is_cut; /* at its length */
};
void tinker_said_write(struct buf *out, const struct tinker_said *s);
void tinker_prompt_write(struct buf *out, const float *logprob, size_t n, int64_t n_cached);

#endif
