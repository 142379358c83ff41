/* SPDX-License-Identifier: Apache-2.0
 *
 * A model directory as Hugging Face lays it out, opened as a whole: what the engine needs before
 * it reads the first weight. Headers and small files only; opening a 70B model takes milliseconds.
 *
 *     config.json; modules.json, 1_Pooling     needed    struct config
 *     model.safetensors, or ...index.json      needed    struct weights
 *     generation_config.json                             struct generation
 *     tokenizer_config.json, special_tokens_map.json,
 *         chat_template.jinja                            struct tokenizer_config
 *     tokenizer.json                                     its path, for engine/token
 *
 * Or one GGUF file, or the first of its parts, that holds all of this: it is read into the texts
 * that a directory would have (gguf_config.h, gguf_tokenizer.h), so that nothing above knows it.
 *
 * Errors begin with the directory: "models/x: config.json: hidden_act: ...".
 *
 * Thread: one opens it, any reads.
 */
#ifndef ENGINE_LOAD_MODEL_DIR_H
#define ENGINE_LOAD_MODEL_DIR_H

#include <stdint.h>

#include "engine/load/config.h"
#include "engine/load/generation.h"
#include "engine/load/labels.h"
#include "engine/load/prompts.h"
#include "engine/load/tokenizer_config.h"
#include "engine/load/weights.h"

struct model_dir {
    char *path;           /* owned */
    char *tokenizer_path; /* owned; NULL when there is no tokenizer */
    char *config_text;    /* owned; NULL: config.json stands in the directory */
    struct config config;
    struct labels labels;   /* of a classifier */
    struct prompts prompts; /* of a model of vectors */
    struct generation generation;
    struct tokenizer_config tokenizer;
    struct weights *weights; /* owned */
};

/* What `tandem plan` tells of weights without reading them. */
struct model_size {
    uint64_t n_param;       /* elements of all tensors */
    uint64_t file_bytes;    /* of their data as stored */
    uint64_t kv_bytes;      /* keys and values of one token, at two bytes an element */
    uint64_t n_param_embed; /* of which token and position embeddings and an untied head */
};

int model_dir_init(struct model_dir *d, const char *path, struct err *e);
int model_dir_init_random(struct model_dir *d, const char *path,
                          struct err *e); /* no weights there */
void model_dir_release(struct model_dir *d);
void model_dir_size(const struct model_dir *d, struct model_size *s);

/* config.json as it was read. */
struct json_doc *model_dir_config_doc(const struct model_dir *d, struct err *e);

/* What belongs to the model beside its weights, copied to another directory. */
int model_dir_copy_small(const struct model_dir *d, const char *to, struct err *e);

#endif
