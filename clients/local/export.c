/* SPDX-License-Identifier: Apache-2.0
 *
 * `tandem export MODEL OUT`: a model as one GGUF file, for llama.cpp and what is built on it; with
 * --adapter what was tuned is in its weights.
 */
#include <stdio.h>
#include <string.h>

#include "clients/cli/cmd.h"
#include "engine/export/gguf.h"
#include "kernels/format.h"

struct export_values {
    const char *type, *adapter;
};

#define AT(field) offsetof(struct export_values, field)

static const struct opt_row rows[] = {
    {.section = "Weights",
     .name = "type",
     .type = OPT_CHOICE,
     .fallback = "stored",
     .hint = "stored|f32|bf16|f16",
     .help = "numbers of matrices; stored: those of the model, codes of four and eight bits too",
     .offset = AT(type)},
    {.name = "adapter",
     .type = OPT_TEXT,
     .hint = "DIR",
     .help = "merge this adapter of the model into its weights",
     .offset = AT(adapter)},
};

const struct cmd_opt cmd_opt_export = {rows, sizeof rows / sizeof *rows,
                                       sizeof(struct export_values)};

int cmd_export(const struct opt *o)
{
    const struct export_values *v = o->values;
    struct gguf_export_options eo = {.type = k_format_named(v->type), .adapter = v->adapter};
    struct err e = ERR_INIT;
    struct model_dir dir;
    struct tokenizer *t = NULL;
    uint64_t bytes;
    int rc = model_dir_init(&dir, o->arg[0], &e);
    if (!rc && dir.tokenizer_path) {
        t = tokenizer_load(dir.path, &e);
        rc = t ? 0 : err_wrap(&e, "%s", dir.path);
    }
    eo.tokenizer = t;
    if (!rc)
        rc = gguf_export(&dir, o->arg[1], &eo, &bytes, &e);
    if (!rc)
        fprintf(stderr, "the model is in %s, %.1f MB\n", o->arg[1], (double)bytes / 1e6);
    tokenizer_free(t);
    model_dir_release(&dir);
    return rc ? cmd_fail(o, &e) : CMD_GOOD;
}
