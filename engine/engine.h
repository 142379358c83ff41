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
#include "engine/serve/answer.h"
#include "engine/serve/gen.h"
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
    int64_t train_bytes; /* that a job may take of a GPU; 0: chosen; -1: there are no jobs */
    int64_t max_adapters, max_lora_rank;
    const struct gate_policy *policy; /* of training beside serving; borrowed; NULL: chosen */
    int64_t queue_timeout_us;         /* waited longer: GEN_FAILED with ERR_BUSY; 0: never */
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

/* What the model is; constant, borrowed. */
struct engine_info {
    const char *name, *architecture, *weights; /* "llama", "bf16" */
    const char *fingerprint; /* of the weights, and what they are packed in (load/base_id.h) */
    int64_t created;         /* seconds since 1970 */
    int64_t ctx, n_vocab, d_model, max_seqs, max_waiting, max_adapters, max_lora_rank;
    bool generates, embeds, normalizes; /* the last: its vectors have length 1 */
    int64_t max_text; /* tokens that a text is cut to before it becomes a vector; 0: none is */
    int64_t n_param, kv_bytes, weight_bytes, cell_tokens, n_cell; /* bytes: at one rank */
    int64_t train_bytes; /* kept for a job at one rank; 0: nothing is, memory is the system's */
    int32_t n_rank, n_thread;              /* that share it; compute threads of one of them */
    const struct tool_format *tool_format; /* of calls; NULL: it is not known */
    const struct think_marks *think;       /* around its thoughts; NULL: it has none */
    const int32_t *mark;                   /* [n_mark] special tokens among these */
    size_t n_mark;
    int32_t eos[16], n_eos;
    const char *chat_template;   /* NULL: none */
    struct sample_params sample; /* generation_config.json's */
};
const struct engine_info *engine_info(const struct engine *g);

/* What a fingerprint, which something was computed over, says of this engine's base. OTHER_TYPES:
 * the same files, packed otherwise. NULL is unknown. */
enum engine_base {
    ENGINE_BASE_UNKNOWN,
    ENGINE_BASE_SAME,
    ENGINE_BASE_OTHER_TYPES,
    ENGINE_BASE_OTHER
};
enum engine_base engine_base_match(const struct engine *g, const char *fingerprint);
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
    const struct gen_params *params; /* borrowed for the call: copied deep; NULL for GEN_EMBED */
    struct adapter *adapter;         /* borrowed: referenced until the end; NULL: the base */
    uint64_t salt, tenant;    /* of kept prefixes; who asks: tenants share the engine by weight */
    int32_t priority, weight; /* among the tenant's own; the tenant's: 0: 1 */
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
 * only where what was compiled is kept, by content and for each tenant apart; NULL: it is to be
 * compiled. That takes time, up to a second of a CPU: not for threads that others wait for. Errors
 * are the client's, but for ERR_NO_MEMORY. */
struct masks *engine_constraint_find(struct engine *g, const struct constraint *c, uint64_t tenant);
struct masks *engine_constraint(struct engine *g, const struct constraint *c, uint64_t tenant,
                                struct err *e);
void masks_unref(struct masks *m); /* NULL is fine */

/* ---- adapters ------------------------------------------------------------------------------ */

/* Loads a PEFT directory under a name; a name that is there already gets a new version. */
int engine_adapter_load(struct engine *g, const char *name, const char *dir, struct err *e);
int engine_adapter_drop(struct engine *g, const char *name, struct err *e); /* ERR_NOT_FOUND */
struct adapter *engine_adapter_get(struct engine *g, const char *name);     /* counted; or NULL */
void adapter_unref(struct adapter *a);

/* Whose a name is (engine/serve/owners.h): one that nobody claimed is everybody's to use. A claim
 * is made before something is loaded under it, and stands until _disown; ERR_EXISTS: it is
 * another's. load_for does both, and claims nothing where it fails, or the name is the operator's;
 * most: that its owner may have loaded (0: any number), else ERR_NO_SPACE. */
int engine_adapter_claim(struct engine *g, const char *name, const char *owner, bool is_shared,
                         struct err *e);
int engine_adapter_load_for(struct engine *g, const char *name, const char *dir, const char *owner,
                            bool is_shared, int64_t most, struct err *e);
int64_t engine_adapter_count(struct engine *g, const char *owner); /* that are loaded */
void engine_adapter_disown(struct engine *g, const char *name);
bool engine_adapter_may_use(struct engine *g, const char *name, const char *who);
bool engine_adapter_may_change(struct engine *g, const char *name, const char *who);

/* A name that is not served: who asks is told why, until it is loaded or dropped. ERR_UNSUPPORTED:
 * it is of another base; ERR_CORRUPT: its files are altered; false: nothing is known of it. */
void engine_adapter_bar(struct engine *g, const char *name, const struct err *why);
bool engine_adapter_why(struct engine *g, const char *name, struct err *why);

struct engine_adapter_info {
    char name[256];
    int64_t created, rank;
    uint64_t version; /* unique in this process, never 0 */
};
size_t engine_adapters(struct engine *g, struct engine_adapter_info *at, size_t cap); /* in all */

/* ---- what goes on -------------------------------------------------------------------------- */

enum { ENGINE_SIZES = 14 }; /* of steps: at most 1, 2, 4, ... 4096 sequences, or more */

struct engine_stat {
    int64_t n_of_size[ENGINE_SIZES], n_seq_all; /* steps of each size; their sequences in all */
    int64_t n_running, n_waiting, n_step, n_seq_last; /* sequences; steps; in the last step */
    int64_t cell_used, cell_kept, cell_all;
    uint64_t tok_prompt, tok_new, preempted, prefix_asked, prefix_hit;
    uint64_t tok_drafted, tok_accepted; /* guesses that ran; of these, what became text */
    int64_t step_us; /* all that steps took, as the scheduler learnt it: no wait for the gate */
    int64_t heartbeat_us; /* clock_us when the engine's thread last went round */
};
struct engine_stat engine_stat(struct engine *g);

#endif
