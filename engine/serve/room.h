/* SPDX-License-Identifier: Apache-2.0
 *
 * How large an engine's steps and its K/V memory are to be, where the options leave it open.
 *
 * Thread: any; pure, but for a look at the machine's memory.
 */
#ifndef ENGINE_SERVE_ROOM_H
#define ENGINE_SERVE_ROOM_H

#include "engine/engine.h"
#include "engine/model/model.h"

struct room {
    int64_t cap_tok, cap_seq, cap_out; /* of a step */
    int64_t chunk;                     /* the most prompt tokens beside who decodes; 0: by pace */
    int64_t enough; /* of prompt tokens, to begin no further prompt in a step; 0: no such number */
    int64_t n_cell, max_waiting;
    int64_t n_snapshot; /* recurrent states kept beside those of sequences */
    int64_t cap_group;  /* runs of rows with one adapter, in a step */
    int32_t lora_rank;  /* the largest of adapters; 0: there are none */
    size_t lora_bytes;  /* of all adapters */
    size_t train_bytes; /* of a GPU's memory, kept for jobs; 0: none is, or there are no jobs */
    size_t hold_bytes;  /* of all requests and answers that have not ended */
    int64_t ctx;        /* what the model has, and the cells hold */
};

struct room_memory {
    size_t free_bytes;     /* of the memory that cells lie in */
    size_t kv_token_bytes; /* of a token's keys and values there */
    size_t state_bytes;    /* of a sequence's recurrent state there; 0: there is none */
    size_t host_bytes;     /* all that the host has */
};

/* ERR_TOO_LARGE, ERR_NO_MEMORY: not even one short text fits. */
int room_choose(struct room *r, const struct model *m, const struct engine_options *o,
                const struct room_memory *memory, struct err *e);

#endif
