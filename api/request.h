/* SPDX-License-Identifier: Apache-2.0
 *
 * A request, checked: what /v1/chat/completions, /v1/completions and /v1/embeddings have in common
 * is one struct, because one loop serves them (server/answer/generate.h); so is a conversation in
 * another shape, of which the same messages are made (read_turns.c). The routes around tokens
 * and adapters take their few fields from it as well. Which field belongs to which route, and its
 * bounds, is a row of params.def.
 *
 * What a request leaves out: temperature 1 and top_p 1 as OpenAI has it, except where the model's
 * own generation_config.json says how to sample; that comes first, as in vLLM.
 *
 * Memory: everything lies in the arena or in the JSON tree that the arena holds.
 * Thread: constant once parsed.
 */
#ifndef API_REQUEST_H
#define API_REQUEST_H

#include <stddef.h>

#include "api/error.h"
#include "engine/base/arena.h"
#include "engine/serve/gen.h"
#include "engine/template/jvalue.h"
#include "engine/tools/tool_spec.h"

enum api_route {
    API_CHAT = 1,
    API_COMPLETIONS = 2,
    API_EMBEDDINGS = 4,
    API_TOKENIZE = 8,
    API_DETOKENIZE = 16,
    API_TEMPLATE = 32,  /* /apply-template */
    API_ADAPTER = 64,   /* POST /v1/adapters */
    API_MESSAGES = 128, /* Anthropic's conversations */
    API_COUNT = 256,    /* POST /v1/messages/count_tokens */
    API_RESPONSES = 512,
    API_RERANK = 1024,
    API_SCORE = 2048,
    API_CLASSIFY = 4096,
    API_OLLAMA_CHAT = 1 << 13,     /* POST /api/chat, and the other paths of Ollama's API */
    API_OLLAMA_GENERATE = 1 << 14, /* a prompt that is a message of the user */
    API_OLLAMA_EMBED = 1 << 15,
    API_OLLAMA_VECTOR = 1 << 16, /* /api/embeddings: one vector */
    API_OLLAMA_SHOW = 1 << 17,
    API_LORA_LOAD = 1 << 18,      /* POST /v1/load_lora_adapter, as vLLM has it */
    API_LORA_UNLOAD = 1 << 19,    /* POST /v1/unload_lora_adapter */
    API_INFILL = 1 << 20,         /* POST /infill, as llama.cpp has it */
    API_OLLAMA_OPTIONS = 1 << 21, /* no path: what their requests have in `options` */
    API_OLLAMA_RAW = 1 << 22 /* no path: what an API_OLLAMA_GENERATE without a template becomes */
};

/* Routes of conversations that an assistant answers; routes of texts that are made. */
enum {
    API_TURNS = API_MESSAGES | API_COUNT,
    API_OLLAMA_CHATS = API_OLLAMA_CHAT | API_OLLAMA_GENERATE,
    API_OLLAMA_VECTORS = API_OLLAMA_EMBED | API_OLLAMA_VECTOR,
    API_OLLAMA = API_OLLAMA_CHATS | API_OLLAMA_VECTORS | API_OLLAMA_SHOW | API_OLLAMA_RAW,
    API_CHATS = API_CHAT | API_TURNS | API_RESPONSES | API_OLLAMA_CHATS,
    API_PROMPTS =
        API_COMPLETIONS | API_OLLAMA_RAW | API_INFILL, /* texts that are gone on with as they are */
    API_TEXTS = API_CHATS | API_PROMPTS,
    API_VECTORS = API_EMBEDDINGS | API_OLLAMA_VECTORS
};

/* Routes that score texts against others; all that make numbers of texts. */
enum { API_PAIRS = API_RERANK | API_SCORE, API_NUMBERS = API_VECTORS | API_PAIRS | API_CLASSIFY };

enum {
    API_PROMPTS_MAX = 256, /* of one completions request */
    API_INPUTS_MAX = 2048, /* of one embeddings request, and on each side of pairs */
    API_N_MAX = 128,
    API_BEST_OF_MAX = 20,
    API_BAD_WORDS_MAX = 128,
    API_TOOLS_MAX = 128,
    API_TOOLS_BYTES_MAX = 4 << 20, /* of all tools, as compact JSON */
    API_ECHOES = 14,               /* fields that a response repeats: api_echo_rows */
    API_ECHO_BYTES_MAX = 8 << 20   /* of all of them, as compact JSON */
};

/* A text or a list of ids. */
struct api_input {
    const char *text; /* borrowed, not terminated; NULL: ids */
    size_t n_text;
    const int32_t *id; /* borrowed */
    size_t n_id;
};

/* What stands behind the gap that an answer fills, the prompt before it; and what of the answer is
 * there already. */
struct api_gap {
    bool is_there;
    const char *behind, *begun; /* borrowed, not terminated */
    size_t n_behind, n_begun;
};

/* What becomes of a text that is too long for its vector: it is cut to what the model was made for;
 * to that or to the context; or it is refused. */
enum api_cut { API_CUT_MODEL, API_CUT_ALWAYS, API_CUT_NEVER };

/* Whether a response is kept: API_STORE_MAY where the request does not say. */
enum api_store { API_STORE_MAY, API_STORE, API_STORE_NOT };

struct api_request {
    enum api_route route;
    const char *model; /* NULL: not named */
    struct gen_params gen;
    int64_t n, best_of;              /* best_of at least n */
    const struct gen_text *bad_word; /* [n_bad_word] texts that must not come */
    const struct gen_text *breaker;  /* [n_breaker] texts behind which DRY begins anew */
    size_t n_bad_word, n_breaker;
    int64_t seed;
    bool has_seed;
    int64_t priority;                    /* 0 goes first */
    const char *cache_salt, *request_id; /* NULL: none */
    int64_t truncate;  /* keep so many tokens of a prompt's end; 0: all; -1: ctx */
    bool adds_special; /* BOS and the like around a prompt */

    struct jvalue messages, extra; /* chat: for the template; extra: a dict of scalars */
    struct jvalue tools;           /* a list, for the template; none */
    struct tool_spec *tool;        /* [n_tool] */
    size_t n_tool;
    struct gen_text tools_text; /* by which they are known again */
    enum tool_mode tool_mode;
    bool has_one_call;                    /* at most one in an answer */
    bool splits_thoughts, shows_thoughts; /* they are told apart; they are told */
    bool sets_thinking, wants_thinking;   /* enable_thinking was given, and what it said */
    const char *reasoning_effort;         /* NULL: not given */
    bool adds_turn, goes_on; /* opens the assistant's turn; goes on with the last message */

    const struct api_input *input; /* completions, embeddings; tokenize, detokenize: one */
    size_t n_input;
    const struct api_input *document; /* pairs: what `input` is scored against */
    size_t n_document;
    int64_t top_n, max_doc;          /* rerank: so many of the best; tokens of a document; 0: all */
    bool shows_documents, activates; /* rerank; scores, classes: as the model shows them, or bare */
    bool echo, as_base64;
    bool is_raw;       /* Ollama's: the prompt as it is, without a template */
    bool asks_nothing; /* Ollama's: a request without a text, which loads a model there */
    enum api_cut cut;  /* vectors */
    struct api_gap gap;

    bool stream, sends_usage, sends_usage_always;
    bool sends_ids, names_ids; /* token ids in the answer; ids in the place of tokens' texts */
    bool wants_logprobs;       /* in the answer; gen.n_top of them */
    int64_t top_logprobs, prompt_logprobs; /* -1: not given; the latter vLLM's */
    int64_t dimensions;                    /* 0: the model's */
    const char *prompt_name; /* of the model's own, which stands before each text; NULL: not said */

    bool wants_strings;              /* tokenize: each token as the vocabulary spells it */
    const char *adapter_name, *path; /* adapter; path NULL: as the name */
    bool is_shared;                  /* every key may use it */
    bool loads_over;                 /* vLLM's: a name that is loaded gets a new version */

    struct gen_text repeats[API_ECHOES]; /* responses: JSON; p NULL: as its row says */
    struct gen_text input_json; /* of what is kept: the items or messages asked with, terminated */
    const char *metadata;       /* a chat's, as JSON; NULL: none */
    const char *previous;       /* the response that this one goes on from; NULL: none */
    enum api_store store;

    struct constraint constraint; /* of the text; its kind may be none */

    const char *ignored; /* names of fields that nobody here knows; NULL: none */
};

/* Where a member lies, for tables: it is of this type, or the row does not compile. */
#define API_REQUEST_AT(type, member)                                                               \
    _Generic(&((struct api_request *)0)->member, type * : (int)offsetof(struct api_request, member))

/* A field of /v1/responses that its answers repeat; and what they say where it was not given. */
struct api_echo_row {
    const char *name, *otherwise; /* JSON */
};
extern const struct api_echo_row api_echo_rows[API_ECHOES];

/* What was asked and what was said before, as JSON: a list of items, and the response. */
struct api_past {
    const char *input, *body;
};

/* All that a response goes on from, the first one first; in the arena. */
typedef int api_recall_fn(void *ctx, const char *id, struct arena *a, const struct api_past **past,
                          size_t *n, struct api_error *e);

/* What the model allows and advises. */
struct api_limits {
    int64_t n_vocab, n_vector, ctx;
    const struct sample_params *sample; /* borrowed; NULL: none */
    bool has_template, knows_developer; /* it has a template; which has a role of that name */
    bool may_think, turns_thinking;     /* it has thoughts; its template can leave them out */
    bool may_limit;                     /* and they can be ended: their marks are tokens */
    bool fills_gaps, keeps;             /* it has tokens that mark gaps; the server keeps answers */
    api_recall_fn *recall;              /* NULL: no responses are kept */
    void *recall_ctx;
};

int api_request_parse(enum api_route route, const char *body, size_t n,
                      const struct api_limits *limits, struct arena *a, struct api_request *out,
                      struct api_error *e);

#endif
