/* SPDX-License-Identifier: Apache-2.0
 *
 * A CPU is at its peak from some tens of rows on: more sequences at once only make each slower. So
 * few run and many wait; a GPU has more of both to fill. Cells get half of the memory that is free,
 * and not more than all running sequences could fill; a CPU's cost nothing before they are written.
 * Of that half recurrent states have up to half: one for each sequence that runs, which are fewer
 * where that is too little, and some that are kept for prefixes.
 * A GPU's memory is all shared out at the start: what is left goes to jobs, but for an eighth,
 * which is for a step's values and for what the driver takes.
 */
#include "engine/serve/room.h"

enum {
    SEQ_CPU = 64,
    SEQ_MAX = 4096,
    SEQ_GPU = 256,
    TOK_CPU = 512,
    TOK_GPU = 2048,
    ENOUGH_CPU = 128, /* rows of a product that is within a few percent of its best */
    ENOUGH_GPU = 512,
    TOK_MAX = 1 << 20,
    OUT_MORE = 16, /* rows of drafts, or of prompts whose log-probabilities are wanted */
    SNAPSHOTS = 2, /* for each sequence */
    RANK = 64,
    RANK_MAX = 1024,
    WAITING = 1024,
    WAITING_MAX = 1 << 20
};

static int64_t clamp(int64_t v, int64_t chosen, int64_t lo, int64_t hi)
{
    v = v > 0 ? v : chosen;
    return v < lo ? lo : v > hi ? hi : v;
}

static int64_t cells_of(int64_t n_tok)
{
    return (n_tok + K_CELL - 1) / K_CELL;
}

/* All texts of a step whole: their last cells may be filled in part. */
static void choose_encoder(struct room *r, const struct model *m)
{
    r->ctx = m->ctx;
    r->cap_tok = r->cap_tok < m->ctx ? m->ctx : r->cap_tok;
    r->n_cell = cells_of(r->cap_tok) + r->cap_seq;
    r->chunk = r->cap_tok;
    r->cap_group = 1;
}

/* Takes the states' bytes out of those that keys and values may have. */
static int choose_states(struct room *r, const struct engine_options *o, size_t state_bytes,
                         int64_t *bytes, struct err *e)
{
    int64_t one = (int64_t)state_bytes, each = o->no_prefix_cache ? 1 : 1 + SNAPSHOTS;
    int64_t most = r->cap_seq * each;
    if (!one)
        return 0;
    int64_t n = *bytes / 2 / one < most ? *bytes / 2 / one : most;
    if (n < 1)
        return err_set(e, o->kv_bytes > 0 ? ERR_TOO_LARGE : ERR_NO_MEMORY,
                       "a sequence's recurrent state takes %lld bytes, and states may take half of "
                       "%lld; --kv-memory says how many there may be",
                       (long long)one, (long long)*bytes);
    int64_t n_seat = o->no_prefix_cache ? n : (n + 1) / 2;
    r->cap_seq = r->cap_seq < n_seat ? r->cap_seq : n_seat;
    r->n_snapshot = n - r->cap_seq;
    *bytes -= n * one;
    return 0;
}

/* Adapters get an eighth of the memory that is free. */
static void choose_adapters(struct room *r, const struct engine_options *o, size_t free_bytes)
{
    r->cap_group = 1;
    if (o->max_adapters <= 0)
        return;
    r->cap_group = r->cap_seq;
    r->lora_rank = (int32_t)clamp(o->max_lora_rank, RANK, 1, RANK_MAX);
    r->lora_bytes = free_bytes / 8;
}

static void choose_training(struct room *r, const struct engine_options *o, size_t free_bytes,
                            size_t kv_bytes)
{
    size_t kept = kv_bytes + r->lora_bytes + free_bytes / 8;
    if (o->train_bytes > 0)
        r->train_bytes = (size_t)o->train_bytes;
    else if (o->train_bytes == 0)
        r->train_bytes = free_bytes > kept ? free_bytes - kept : 0;
}

int room_choose(struct room *r, const struct model *m, const struct engine_options *o,
                const struct room_memory *memory, struct err *e)
{
    int64_t whole = cells_of(m->ctx), cell = (int64_t)memory->kv_token_bytes * K_CELL;
    bool is_gpu = m->device && device_get_kind(m->device) == DEVICE_CUDA;
    *r = (struct room){.cap_seq = clamp(o->max_seqs, is_gpu ? SEQ_GPU : SEQ_CPU, 1, SEQ_MAX),
                       .hold_bytes = memory->host_bytes / 4,
                       .max_waiting = clamp(o->max_waiting, WAITING, 1, WAITING_MAX)};
    int64_t bytes = o->kv_bytes > 0 ? o->kv_bytes : (int64_t)(memory->free_bytes / 2);
    if (choose_states(r, o, memory->state_bytes, &bytes, e))
        return -1;
    r->cap_tok = clamp(o->max_batch_tokens, is_gpu ? TOK_GPU : TOK_CPU, r->cap_seq, TOK_MAX);
    r->cap_out = r->cap_seq + OUT_MORE;
    if (m->cfg.is_encoder) {
        choose_encoder(r, m);
        choose_adapters(r, o, memory->free_bytes);
        if (is_gpu)
            choose_training(r, o, memory->free_bytes, (size_t)(r->n_cell * cell));
        return 0;
    }
    choose_adapters(r, o, memory->free_bytes);
    r->enough = is_gpu ? ENOUGH_GPU : ENOUGH_CPU;
    int64_t all = o->kv_bytes > 0 ? INT32_MAX : whole * r->cap_seq;
    r->n_cell = bytes / cell < all ? bytes / cell : all;
    r->ctx = r->n_cell < whole ? r->n_cell * K_CELL : m->ctx;
    if (is_gpu)
        choose_training(r, o, memory->free_bytes,
                        (size_t)(r->n_cell * cell) +
                            (size_t)(r->cap_seq + r->n_snapshot) * memory->state_bytes);
    if (r->n_cell < 1)
        return err_set(e, o->kv_bytes > 0 ? ERR_TOO_LARGE : ERR_NO_MEMORY,
                       "keys and values of %d tokens take %lld bytes, and there are %lld; "
                       "--kv-memory says how many there may be",
                       (int)K_CELL, (long long)cell, (long long)bytes);
    return 0;
}
