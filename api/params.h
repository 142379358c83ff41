/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of params.def, and the walk over a body that they drive. Tests and the published
 * description of the API walk the same rows.
 *
 * Thread: any.
 */
#ifndef API_PARAMS_H
#define API_PARAMS_H

#include "api/json.h"
#include "api/request.h"

enum api_choose { API_CHOOSE_AUTO, API_CHOOSE_NONE, API_CHOOSE_ANY };

/* One request being read. */
struct api_reader {
    struct arena *arena;
    const struct api_limits *limits; /* borrowed */
    struct api_request *out;
    struct api_error *e;
    int values;   /* that JSON inside of strings may still hold */
    bool has_max; /* max_completion_tokens was there */
    bool has_stream_options, has_all_ignored;
    const json_t *tool_choice; /* borrowed: as a chat has it; NULL: not given */
    const json_t
        *chosen; /* borrowed: the name of the tool that may be called, or a list of tools */
    enum api_choose choose;       /* as the other shapes have it */
    const json_t *system, *turns; /* borrowed: a conversation in another shape; NULL: none */
    const json_t *prompt;         /* borrowed: Ollama's; NULL: none */
    bool repeats_freely;          /* llama.cpp's: no token is penalized for being there */
    char *ignored;                /* in the arena; grows into out->ignored */
};

enum param_kind {
    PARAM_INT,
    PARAM_NUM,
    PARAM_BOOL,
    PARAM_TEXT,   /* a short string without NUL */
    PARAM_READ,   /* by a function of its own */
    PARAM_WORD,   /* one of `words`, each of which is what happens anyway */
    PARAM_HINT,   /* changes nothing here; of the right type all the same */
    PARAM_REFUSED /* null, "", [] and `idle` are harmless; anything else is not supported */
};

enum { PARAM_NOWHERE = -1 };

struct param_row {
    const char *name;
    size_t n_name;
    unsigned routes;
    enum param_kind kind;
    double min, max; /* INT, NUM; max of TEXT: bytes */
    int at;          /* API_REQUEST_AT of the type that the kind writes; PARAM_NOWHERE */
    int (*read)(struct api_reader *r, const char *name, const json_t *v);
    const char *words; /* WORD: "a|b"; READ: its type, as api/schema.h has types */
    json_type type;    /* HINT */
    int idle;          /* REFUSED: the boolean that asks for what happens anyway; -1: neither */
    const char *why;   /* WORD, REFUSED: said when refused */
};

extern const struct param_row param_rows[];
extern const size_t n_param_rows;

/* What becomes of a field. */
enum param_class { PARAM_HONOURED, PARAM_DECORATIVE, PARAM_UNBUILT };
enum param_class param_class(const struct param_row *row);

/* Reads every member of the body by its row; decorative and unknown ones go to out->ignored. */
int params_read(struct api_reader *r, const json_t *body);

/* A body that has no rows: each member goes to fn, with a reader for the functions below. *ignored
 * is what params_ignore was told. */
typedef int params_fn(struct api_reader *r, const char *name, const json_t *v, void *out);
int params_each(const char *body, size_t n, struct arena *a, params_fn *fn, void *out,
                const char **ignored, struct api_error *e);

int params_ignore(struct api_reader *r, const char *name);

/* Members of an object that a field holds, by the rows of `route`. */
int params_read_members(struct api_reader *r, enum api_route route, const json_t *v);

/* A 400: the field, and what is wrong with it. */
int param_bad(struct api_reader *r, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
int param_type(struct api_reader *r, const char *name, const char *wanted, const json_t *v);

/* What the request's tools are to be, once all of it was read; and its conversation, where that
 * came in pieces. */
int api_tools_settle(struct api_reader *r);
int api_turns_settle(struct api_reader *r);
int api_items_settle(struct api_reader *r, const json_t *body);
int api_ollama_settle(struct api_reader *r);

/* Single values, for the functions that read lists. */
int param_int(struct api_reader *r, const char *name, const json_t *v, int64_t min, int64_t max,
              int64_t *out);
int param_num(struct api_reader *r, const char *name, const json_t *v, double min, double max,
              double *out);
void *param_alloc(struct api_reader *r, const char *name, size_t n, size_t size);
int param_ids(struct api_reader *r, const char *name, const json_t *list,
              const int32_t **out); /* of tokens that there are: [json_array_size(list)] */

/* A value as JSON, terminated; NULL: none. */
int param_spell(struct api_reader *r, const char *name, const json_t *v, struct gen_text *out);

/* What PARAM_READ rows call. */
#define PARAM_READER(name) int param_read_##name(struct api_reader *, const char *, const json_t *)
PARAM_READER(messages);
PARAM_READER(kwargs);
PARAM_READER(input);
PARAM_READER(text);
PARAM_READER(ids);
PARAM_READER(adapter_name);
PARAM_READER(stop);
PARAM_READER(stop_ids);
PARAM_READER(logit_bias);
PARAM_READER(logprobs);
PARAM_READER(max_tokens);
PARAM_READER(stream_options);
PARAM_READER(seed);
PARAM_READER(request_id);
PARAM_READER(response_format);
PARAM_READER(structured_outputs);
PARAM_READER(guided_json);
PARAM_READER(guided_json_object);
PARAM_READER(guided_regex);
PARAM_READER(guided_choice);
PARAM_READER(guided_grammar);
PARAM_READER(modalities);
PARAM_READER(metadata);
PARAM_READER(encoding);
PARAM_READER(effort);
PARAM_READER(allowed_ids);
PARAM_READER(bad_words);
PARAM_READER(beams);
PARAM_READER(early_stopping);
PARAM_READER(breakers);
PARAM_READER(mirostat);
PARAM_READER(think_budget);
PARAM_READER(skip_special);
PARAM_READER(tools);
PARAM_READER(tool_choice);
PARAM_READER(parallel_calls);
PARAM_READER(enable_thinking);
PARAM_READER(system);
PARAM_READER(turns);
PARAM_READER(turns_choice);
PARAM_READER(thinking);
PARAM_READER(output_config);
PARAM_READER(items);
PARAM_READER(instructions);
PARAM_READER(items_choice);
PARAM_READER(text_config);
PARAM_READER(reasoning);
PARAM_READER(include);
PARAM_READER(store);
PARAM_READER(query);
PARAM_READER(documents);
PARAM_READER(first_texts);
PARAM_READER(second_texts);
PARAM_READER(suffix);
PARAM_READER(begun);
PARAM_READER(ollama_messages);
PARAM_READER(ollama_prompt);
PARAM_READER(ollama_system);
PARAM_READER(ollama_format);
PARAM_READER(ollama_think);
PARAM_READER(ollama_options);
PARAM_READER(ollama_cut);
PARAM_READER(keep_alive);
PARAM_READER(num_predict);
PARAM_READER(num_ctx);
PARAM_READER(repeat_last_n);
PARAM_READER(ollama_seed);
#undef PARAM_READER

#endif
