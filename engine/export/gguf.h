/* SPDX-License-Identifier: Apache-2.0
 *
 * A model as one GGUF file, which llama.cpp and this program load: the inverse of how
 * engine/load/gguf_* read one. Vectors are F32; matrices are in the kind that has their numbers as
 * they are: F32, F16, BF16, Q4_0 for codes of int4 and Q8_0 for those of int8g; or all of them are
 * rounded to one type that the caller names. Where the files keep numbers in the same types this
 * program makes the same model of both, bit for bit.
 *
 * Rows of one tensor are in memory at a time. The file is written aside and takes its name whole.
 *
 * Thread: any.
 */
#ifndef ENGINE_EXPORT_GGUF_H
#define ENGINE_EXPORT_GGUF_H

#include "engine/load/model_dir.h"
#include "engine/token/tokenizer.h"

struct gguf_export_options {
    int type;            /* enum k_type of matrices: f32, f16 or bf16; -1: as they are */
    const char *adapter; /* borrowed: merged into the weights on the way; NULL: none */
    const struct tokenizer *tokenizer; /* borrowed; NULL: the model has none */
};

/* to: must not be there. bytes: of the file. */
int gguf_export(const struct model_dir *from, const char *to, const struct gguf_export_options *o,
                uint64_t *bytes, struct err *e);

#endif
