/* SPDX-License-Identifier: Apache-2.0
 *
 * A golden of tests/golden/models: the tiny model that another implementation ran, loaded here, and
 * the numbers that it got.
 */
#ifndef TESTS_LIB_GOLDEN_H
#define TESTS_LIB_GOLDEN_H

#include "engine/load/json.h"
#include "engine/model/model.h"
#include "engine/run/packed.h"

struct golden {
    struct pool *pool;
    struct device *device;
    struct stream *stream;
    struct model_dir dir;
    struct model *model;
    struct json_doc *doc;
    struct json root;        /* of golden.json */
    struct weights *tensors; /* golden.safetensors */
};

/* Every golden's name, NULL at the end; and of these, which make numbers of texts. */
extern const char *const golden_names[], *const golden_encoders[];
bool golden_is_encoder(const char *name);

/* type: of the matrices; ctx: 0 for the config's. On the CPU, or on the device that is named as in
 * device_open. */
void golden_init_on(struct golden *g, const char *device, const char *name, enum k_type type,
                    int64_t ctx);
void golden_init(struct golden *g, const char *name, enum k_type type, int64_t ctx);
/* With keys and values in int8. */
void golden_init_cells_int8(struct golden *g, const char *name, enum k_type type, int64_t ctx);
/* Each matrix as the files have it. */
/* The model of a GGUF file, whose numbers are those of the named one. */
void golden_init_gguf(struct golden *g, const char *file, const char *name, enum k_type type);
void golden_init_stored(struct golden *g, const char *name);
/* A model of TANDEM_TEST_DATA with its golden.json and golden tensors, either NULL where it has
 * none, in f32; false, and says so, where the data is absent. */
bool golden_init_real(struct golden *g, const char *name, const char *json, const char *tensors);
/* With the context that the goldens of short texts were made for: theirs have the short form of
 * longrope, which we give to contexts within the first training's. */
void golden_init_short(struct golden *g, const char *name, enum k_type type);
void golden_release(struct golden *g);

/* Integers of a member of golden.json; the number of them. */
int64_t golden_ids(const struct json *v, const char *key, int32_t *id, int64_t max);
double golden_num(const struct json *v, const char *key);

/* A tensor as f32; mem_free() it. NULL: not in the golden. */
float *golden_tensor(const struct golden *g, const char *name, int64_t *n);

/* The tensor `kind`.NAME of a parameter, saved under any of the family's prefixes; likewise. */
float *golden_of_param(const struct golden *g, const char *kind, const struct param *p, int64_t *n);

/* |a - b| <= rel * max |b|, over all of them: relative to the tensor's size. */
void golden_near(const char *what, const float *a, const float *b, int64_t n, double rel);

/* Adds row i of golden.json's rows to a micro-batch. */
void golden_add_row(const struct golden *g, struct packed *p, int64_t i);

#endif
