/* SPDX-License-Identifier: Apache-2.0
 *
 * What an engine says of its model.
 *
 * Thread: any; constant while the engine is there.
 */
#ifndef ENGINE_SERVE_INFO_H
#define ENGINE_SERVE_INFO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/load/scores.h"
#include "engine/sample/params.h"

struct fim_marks;
struct think_marks;
struct tool_format;

struct engine_info {
    const char *name, *architecture, *weights; /* "llama", "bf16" */
    const char *fingerprint; /* of the weights, and what they are packed in (load/base_id.h) */
    int64_t created;         /* seconds since 1970 */
    int64_t n_vector;        /* numbers of what a text becomes where it does not go on */
    int64_t ctx, n_vocab, d_model, max_seqs, max_waiting, max_adapters, max_lora_rank;
    bool generates, embeds, is_on_gpu;
    bool normalizes;           /* its vectors have length 1 */
    const char *const *label;  /* [n_label] of a classifier */
    int32_t n_label;           /* 0: it is none */
    enum config_scores scores; /* what the labels' numbers are shown through */
    int64_t max_text; /* tokens that a text is cut to before it becomes a vector; 0: none is */
    int64_t n_param, kv_bytes, weight_bytes, cell_tokens, n_cell; /* bytes: at one rank */
    int64_t state_bytes; /* recurrent states of seats, and those kept for prefixes; 0: has none */
    int64_t train_bytes; /* kept for jobs at one rank; 0: nothing is, memory is the system's */
    int32_t n_rank, n_thread;              /* that share it; compute threads of one of them */
    const struct tool_format *tool_format; /* of calls; NULL: it is not known */
    const struct think_marks *think;       /* around its thoughts; NULL: it has none */
    const struct fim_marks *fim;           /* around a gap that it fills; NULL: it does not */
    const int32_t *mark;                   /* [n_mark] special tokens among these */
    size_t n_mark;
    int32_t eos[16], n_eos, think_open, think_close; /* the marks as tokens; -1: none is */
    int32_t fim_end[4], n_fim_end;                   /* tokens that end what fills a gap */
    const char *chat_template;                       /* NULL: none */
    struct sample_params sample;                     /* generation_config.json's */
};

#endif
