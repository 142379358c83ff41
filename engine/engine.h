/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine as the server sees it: one model with its tokenizer, its chat template, its adapters,
 * and the thread that runs steps for all who ask.
 *
 *     engine_new -> engine_start -> engine_submit ... -> engine_stop -> engine_free
 *
 * Thread: engine_new, _start, _stop, _free from one thread; everything else from any.
 */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "engine/serve/adapter_folder.h"
#include "engine/serve/adapters.h"
#include "engine/serve/answer.h"
#include "engine/serve/gen.h"
#include "engine/serve/info.h"
#include "engine/serve/load_flags.h"

enum { ENGINE_RANK_MAX = 64 }; /* that may share a model */

struct engine;
struct adapter;
struct comm;
struct crew_rank;
struct gate;
struct gate_policy;
struct resident;
struct template;
struct tokenizer;

/* Guesses of what a text will say, checked in the steps that say it: none, where they gain, or all
 * that are found (to measure, and to test). They change the pace, never a bit of the text. */
enum engine_speculate { ENGINE_SPECULATE_NGRAM, ENGINE_SPECULATE_OFF, ENGINE_SPECULATE_ALWAYS };

struct engine_options {
    const char *model; /* directory */
    const char *name;  /* what clients call it; NULL: the directory's last part */
    struct load_flags load;
    int64_t max_batch_tokens, max_seqs, max_waiting; /* 0: chosen */
    int64_t kv_bytes;                                /* 0: chosen from the machine's memory */
    int64_t train_bytes; /* that jobs may take of a GPU; 0: chosen; -1: there are no jobs */
    int64_t max_adapters, max_lora_rank;
    const struct gate_policy *policy; /* of training beside serving; borrowed; NULL: chosen */
    int64_t queue_timeout_us;         /* waited longer: GEN_FAILED with ERR_BUSY; 0: never */
    int64_t idle_every; /* of so many steps beside others one is idle work's; 0: none */
    bool is_eager, no_prefix_cache, random_weights; /* the last as in resident_options */
    enum engine_speculate speculate;
    const char *tool_format; /* of calls; NULL, auto: told from the template; none; or its name */
    int tp;                  /* ranks that share the model, as threads of this process; 0, 1: one */
    struct comm *comm;       /* owned from here on: rank 0's end among processes that do; NULL */
    /* What other ranks do beside serving when rank 0 calls (engine/run/crew.h); NULL: nothing. */
    int (*work)(const struct crew_rank *member, struct err *e);
    void (*broke)(void *ctx); /* by the engine's thread: engine_check has a reason to end */
    void *broke_ctx;
    void (*progress)(void *ctx, uint64_t done_bytes, uint64_t all_bytes);
    void *progress_ctx;
};
struct engine *engine_new(const struct engine_options *o, struct err *e); /* loads */
/* From the next step on, for who measures what guesses gain; of an engine made to make some. */
void engine_speculate(struct engine *g, enum engine_speculate how);
int engine_start(struct engine *g, struct err *e);
void engine_stop(struct engine *g); /* what still runs ends with GEN_CANCELLED */
void engine_free(struct engine *g);

/* -1: a rank that shared the model is gone, or the device that ran it, and why. What was asked has
 * ended with ERR_BUSY, and whatever will be asked does; there is no way back but a new process. */
int engine_check(struct engine *g, struct err *e);

/* For who else ran something on the engine's device, or with its ranks beside serving, and saw it
 * fail: -1 where the device is lost, or a rank, and then the engine comes to know it. */
int engine_look(struct engine *g, struct err *e);

/* Constant, borrowed. */
const struct engine_info *engine_info(const struct engine *g);

/* What a fingerprint (NULL: unknown) says of the base. OTHER_TYPES: it is packed otherwise. */
enum engine_base {
    ENGINE_BASE_UNKNOWN,
    ENGINE_BASE_SAME,
    ENGINE_BASE_OTHER_TYPES,
    ENGINE_BASE_OTHER
};
enum engine_base engine_base_match(const struct engine *g, const char *fingerprint);
/* What a model of vectors wants before a text, by the name of its use; NULL: it has none of this
 * name. For NULL: what holds where nothing is said, "" where that is nothing. And the names: [*n].
 */
const char *engine_prompt(const struct engine *g, const char *name);
const char *const *engine_prompt_names(const struct engine *g, size_t *n);
const struct tokenizer *engine_tokenizer(const struct engine *g); /* NULL: none */
struct template *engine_template(const struct engine *g);         /* borrowed; NULL: none */
struct gate *engine_gate(const struct engine *g);
/* For who trains on it or measures it; the compute threads are theirs while they hold the gate. */
const struct resident *engine_resident(const struct engine *g);

/* ---- generations --------------------------------------------------------------------------- */

struct gen_req {
    enum gen_kind kind;
    const int32_t *prompt; /* borrowed for the call: copied */
    int64_t n_prompt;
    int64_t n_first; /* of two texts, the tokens of the first's type; 0: all are of one */
    const struct gen_params *params; /* borrowed for the call: copied deep; NULL but for GEN_TEXT */
    struct adapter *adapter;         /* borrowed: referenced until the end; NULL: the base */
    uint64_t salt, tenant;    /* of kept prefixes; who asks: tenants share the engine by weight */
    int32_t priority, weight; /* among the tenant's own; the tenant's: 0: 1 */
    bool is_idle; /* runs while nothing else does, and in its part of the steps (idle_every); in
                   * half of queue and memory, or alone */
};

/* fn is called by the engine's thread after a step that added to, or ended, any of the answers; it
 * must not block. A reader that looks without being called may see the last answer end before fn
 * is called for it; so ctx belongs to the engine too until `done`, which comes once, last, when
 * all answers have ended. NULL: ctx outlives the engine. When engine_submit fails, neither comes.
 */
struct gen_notify {
    void (*fn)(void *ctx);
    void (*done)(void *ctx);
    void *ctx;
    bool every_token; /* false: fn only when an answer ended */
};

/* All or none. The answers are the caller's to unref. ERR_BAD_INPUT with the field, ERR_TOO_LARGE,
 * ERR_BUSY. Notifications may come before this returns. */
int engine_submit(struct engine *g, const struct gen_req *req, size_t n, struct gen_notify notify,
                  struct answer **answer, struct err *e);

/* ---- constraints --------------------------------------------------------------------------- */

/* What texts of this model must be, compiled, for gen_params; counted (masks_unref). find looks
 * where such is kept, by content, for each tenant apart; NULL: it is to be compiled, which takes up
 * to a second of a CPU. Errors are the client's, but for ERR_NO_MEMORY. */
struct masks *engine_constraint_find(struct engine *g, const struct constraint *c, uint64_t tenant);
struct masks *engine_constraint(struct engine *g, const struct constraint *c, uint64_t tenant,
                                struct err *e);
void masks_unref(struct masks *m);                            /* NULL is fine */
bool masks_hold(struct masks *m, const char *text, size_t n); /* whether a whole text is so */

/* ---- what goes on -------------------------------------------------------------------------- */

enum { ENGINE_SIZES = 14 }; /* of steps: at most 1, 2, 4, ... 4096 sequences, or more */

struct engine_stat {
    int64_t n_of_size[ENGINE_SIZES], n_seq_all; /* steps of each size; their sequences in all */
    int64_t n_running, n_waiting, n_step, n_seq_last; /* sequences; steps; in the last step */
    int64_t n_given_up; /* steps of idle work that were, for who came */
    int64_t cell_used, cell_kept, cell_all;
    uint64_t tok_prompt, tok_new, preempted, prefix_asked, prefix_hit;
    uint64_t tok_drafted, tok_accepted; /* guesses that ran; of these, what became text */
    int64_t step_us; /* all that steps took, as the scheduler learnt it: no wait for the gate */
    int64_t heartbeat_us; /* clock_us when the engine's thread last went round */
};
struct engine_stat engine_stat(struct engine *g);
int64_t engine_waiting(const struct engine *g); /* its n_waiting, without a lock */

#endif
