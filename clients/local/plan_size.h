/* SPDX-License-Identifier: Apache-2.0
 *
 * What a model takes of one rank's memory where so many share it, from its headers alone. The last
 * rank has of everything the most, where parts differ; so it speaks for all.
 *
 * Thread: any.
 */
#ifndef CLIENTS_LOCAL_PLAN_SIZE_H
#define CLIENTS_LOCAL_PLAN_SIZE_H

#include "engine/comm/comm.h"
#include "engine/model/model.h"

struct plan_size {
    int tp; /* ranks */
    size_t weights, table, activations,
        lower_bound;           /* bytes; the least that activations can take */
    size_t kv_token;           /* bytes of a token's keys and values */
    size_t state;              /* bytes of a sequence's recurrent state; 0: there is none */
    size_t snapshots;          /* bytes of those that a text of the whole context leaves */
    size_t program;            /* bytes of the host's, about: what a server is without a model */
    double sent;               /* bytes that a rank sends for a token, at least */
    int n_collective;          /* for a step */
    bool has_all_kv;           /* although others do too */
    enum k_type type, kv_type; /* type: the weights' main one */
    int64_t ctx;
};

/* In steps of at most n_tok tokens. mo.files: the directory's. ERR_UNSUPPORTED: so many cannot. */
int plan_size_init(struct plan_size *s, const struct model_dir *dir, const struct model_options *mo,
                   int tp, int64_t n_tok, struct err *e);

size_t plan_size_fixed(const struct plan_size *s); /* all but keys and values; one state */

/* A server's process that has read one text of the whole context, where the device is a CPU. */
size_t plan_size_process(const struct plan_size *s);

/* Tokens whose keys and values fit beside the rest, in whole cells; 0: nothing does. */
int64_t plan_size_tokens(const struct plan_size *s, size_t memory);

/* Every size that divides a number of devices, and which is taken: the smallest that holds a whole
 * context; of an encoder, whose texts leave nothing, the smallest that holds the rest. Ranks that
 * share a model wait for each other in every layer, while copies of it work side by side; so a
 * larger size is taken for its room alone. */
struct plan_sizes {
    struct plan_size at[COMM_RANK_MAX];
    bool is_legal[COMM_RANK_MAX], fits[COMM_RANK_MAX];
    int n, taken; /* taken: -1: none fits */
};

/* memory: of each device. */
void plan_sizes_init(struct plan_sizes *s, const struct model_dir *dir,
                     const struct model_options *mo, int n_device, size_t memory, int64_t n_tok);
bool plan_size_fits(const struct plan_size *s, const struct model_dir *dir, size_t memory);

#endif
