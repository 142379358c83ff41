/* SPDX-License-Identifier: Apache-2.0
 *
 * adapter_config.json, as PEFT writes it beside adapter_model.safetensors: what the halves in the
 * tensors file mean. A field is understood, or at a value that changes nothing, or an error with
 * its name: an adapter that was trained in another way must not be served as if it were not.
 *
 * A module is a product's path in the base model, as PEFT sees it:
 * "model.layers.0.self_attn.q_proj". A parameter is a tensor that is adapted though it is no linear
 * layer's: "model.layers.0.mlp.experts.down_proj".
 *
 * Thread: one makes it, any reads it.
 */
#ifndef ENGINE_LOAD_PEFT_H
#define ENGINE_LOAD_PEFT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"

#define PEFT_CONFIG_NAME  "adapter_config.json"
#define PEFT_TENSORS_NAME "adapter_model.safetensors"
#define PEFT_PREFIX       "base_model.model." /* before each module in the tensors' names */

enum { PEFT_RANK_MAX = 512, PEFT_LIST_MAX = 4096 };

struct json_doc;

/* Modules that end in `end` behind a point, or are it; is_whole: that are it. */
struct peft_pattern {
    const char *end; /* borrowed from the document, or owned */
    bool is_whole;
    double value;
};

struct peft {
    struct json_doc *doc; /* owned: holds the texts */
    int64_t rank;
    double alpha;
    bool is_rs;                          /* scale alpha / sqrt(rank) instead of alpha / rank */
    bool is_dora;                        /* each product has magnitudes besides */
    struct peft_pattern *target;         /* owned: [n_target] */
    struct peft_pattern *param;          /* owned: [n_param] parameters */
    struct peft_pattern *saved;          /* owned: [n_saved] modules that are whole in the file */
    struct peft_pattern *ranks, *alphas; /* owned: the first that matches overrides */
    int64_t *layer;                      /* owned: [n_layer] the only ones; n_layer 0: all */
    size_t n_target, n_param, n_saved, n_rank, n_alpha, n_layer;
    bool ties;    /* of the model's two matrices that are tied, those that are whole are one */
    bool is_open; /* the targets are an expression: which they are the tensors say */
};

int peft_read(struct peft *p, const char *dir, struct err *e);
int peft_parse(struct peft *p, const char *text, size_t len, struct err *e);
void peft_release(struct peft *p);

/* Whether the config says that a module has an adapter. */
enum peft_claim { PEFT_HAS_NOT, PEFT_MAY_HAVE, PEFT_HAS };
enum peft_claim peft_claim(const struct peft *p, const char *module);

/* Whether it says so of a parameter. */
bool peft_claims_param(const struct peft *p, const char *name);

/* Whether it says of a module that it is whole. */
bool peft_claims_saved(const struct peft *p, const char *module);

int64_t peft_rank(const struct peft *p, const char *module);
double peft_scale(const struct peft *p, const char *module); /* of the product of the halves */

#endif
