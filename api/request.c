/* SPDX-License-Identifier: Apache-2.0
 *
 * A body to a request: what is left out, the walk over the rows, and what fields must be to each
 * other.
 */
#include "api/request.h"

#include "api/params.h"

enum { COMPLETION_TOKENS = 16 }; /* of one that does not say */

/* llama.cpp's. */
static const struct gen_text breaker[] = {
    {.p = "\n", .n = 1}, {.p = ":", .n = 1}, {.p = "\"", .n = 1}, {.p = "*", .n = 1}};

/* A model that advises greedy choice, or says nothing, has OpenAI's temperature. */
static struct sample_params sampling(const struct sample_params *advised)
{
    struct sample_params s = {.temperature = 1,
                              .top_p = 1,
                              .repetition = 1,
                              .dynatemp_exponent = 1,
                              .xtc_threshold = 0.1,
                              .dry_base = 1.75,
                              .dry_allowed = 2,
                              .dry_last = -1,
                              .mirostat_tau = 5,
                              .mirostat_eta = 0.1};
    if (!advised)
        return s;
    s.top_k = advised->top_k;
    s.min_p = advised->min_p;
    s.typical_p = advised->typical_p;
    s.temperature = advised->temperature > 0 ? advised->temperature : s.temperature;
    s.top_p = advised->top_p > 0 ? advised->top_p : s.top_p;
    s.repetition = advised->repetition > 0 ? advised->repetition : s.repetition;
    return s;
}

static void defaults(struct api_request *q, enum api_route route, const struct api_limits *limits)
{
    *q = (struct api_request){.route = route,
                              .n = 1,
                              .messages = jv_none(),
                              .extra = jv_none(),
                              .tools = jv_none(),
                              .adds_special = !(route & API_CHATS),
                              .adds_turn = true,
                              .shows_documents = true,
                              .activates = true,
                              .stream = (route & API_OLLAMA_CHATS) != 0,
                              .splits_thoughts = true,
                              .shows_thoughts = true,
                              .top_logprobs = -1,
                              .prompt_logprobs = -1};
    q->gen.sample = sampling(limits->sample);
    q->gen.beams.length_penalty = 1;
    q->breaker = breaker;
    q->n_breaker = sizeof breaker / sizeof *breaker;
    q->gen.max_new = route == API_COMPLETIONS ? COMPLETION_TOKENS : -1;
    q->gap.is_there = route == API_INFILL;
    q->cut = route & API_OLLAMA_VECTORS ? API_CUT_ALWAYS : API_CUT_MODEL;
}

static int require(struct api_reader *r, const char *name, bool is_there)
{
    return is_there
               ? 0
               : api_fail(r->e, 400, "missing_required_parameter", name, "'%s' is required.", name);
}

/* One against each, or each against its own. */
static int check_sides(struct api_reader *r)
{
    const struct api_request *q = r->out;
    if (q->n_input == 1 || q->n_input == q->n_document)
        return 0;
    return param_bad(r, "text_1", "holds %zu texts, and 'text_2' %zu: one, or as many, can be",
                     q->n_input, q->n_document);
}

static int check_input(struct api_reader *r)
{
    const struct api_request *q = r->out;
    bool has_messages = q->messages.type == JT_LIST;
    if (has_messages && q->goes_on && q->adds_turn)
        return param_bad(r, "continue_final_message", "wants 'add_generation_prompt' to be false");
    switch (q->route) {
    case API_MESSAGES:
        return require(r, "messages", has_messages) || require(r, "max_tokens", q->gen.max_new >= 0)
                   ? -1
                   : 0;
    case API_RESPONSES:
        return require(r, "input", has_messages);
    case API_CHAT:
    case API_TEMPLATE:
    case API_COUNT:
        return require(r, "messages", has_messages);
    case API_COMPLETIONS:
        return require(r, "prompt", q->n_input > 0);
    case API_OLLAMA_VECTOR:
        return require(r, "prompt", q->n_input > 0);
    case API_OLLAMA_SHOW:
        return require(r, "model", q->model != NULL);
    case API_OLLAMA_CHAT:
    case API_OLLAMA_GENERATE:
    case API_OLLAMA_RAW:
    case API_OLLAMA_OPTIONS:
        return 0; /* without a text nothing is asked */
    case API_EMBEDDINGS:
    case API_CLASSIFY:
    case API_OLLAMA_EMBED:
        return require(r, "input", q->n_input > 0);
    case API_RERANK:
        return require(r, "query", q->n_input > 0) || require(r, "documents", q->n_document > 0)
                   ? -1
                   : 0;
    case API_SCORE:
        return require(r, "text_1", q->n_input > 0) || require(r, "text_2", q->n_document > 0)
                   ? -1
                   : check_sides(r);
    case API_TOKENIZE:
        if (has_messages && q->n_input)
            return param_bad(r, "messages", "cannot be had with 'prompt': give one of them");
        return has_messages ? 0 : require(r, "prompt", q->n_input > 0);
    case API_DETOKENIZE:
        return require(r, "tokens", q->n_input > 0);
    case API_INFILL:
        return require(r, "input_prefix", q->n_input > 0);
    case API_LORA_LOAD:
        return require(r, "lora_name", q->adapter_name) || require(r, "lora_path", q->path) ? -1
                                                                                            : 0;
    case API_LORA_UNLOAD:
        return require(r, "lora_name", q->adapter_name);
    case API_ADAPTER:
        return require(r, "name", q->adapter_name);
    }
    return 0;
}

/* A gap is known by tokens that the server sets around texts. */
static int check_gap(struct api_reader *r)
{
    const struct api_request *q = r->out;
    if (!q->gap.is_there)
        return 0;
    if (!r->limits->fills_gaps)
        return param_bad(r, q->route == API_INFILL ? "input_suffix" : "suffix",
                         "cannot be had: this model has no tokens that mark a gap");
    for (size_t i = 0; i < q->n_input; i++)
        if (!q->input[i].text)
            return param_bad(r, "suffix", "wants a 'prompt' that is text");
    if (q->echo)
        return param_bad(r, "echo", "cannot be had with 'suffix'");
    if (q->truncate)
        return param_bad(r, "truncate_prompt_tokens", "cannot be had with 'suffix'");
    return 0;
}

static int check_amounts(struct api_reader *r)
{
    struct api_request *q = r->out;
    if (q->best_of && q->best_of < q->n)
        return param_bad(r, "best_of", "must be at least 'n', which is %lld", (long long)q->n);
    if (q->best_of > q->n && q->stream)
        return param_bad(r, "best_of", "cannot be more than 'n' in a stream");
    if (q->gen.max_new >= 0 && q->gen.min_new > q->gen.max_new)
        return param_bad(r, "min_tokens", "is more than may be generated, %lld",
                         (long long)q->gen.max_new);
    q->best_of = q->best_of ? q->best_of : q->n;
    return 0;
}

/* As many beams as choices are made, of which n are told. */
static int check_beams(struct api_reader *r)
{
    struct api_request *q = r->out;
    struct sample_beams *b = &q->gen.beams;
    if (!b->width && b->length_penalty != 1)
        return param_bad(r, "length_penalty", "is for 'use_beam_search'");
    if (!b->width && b->ends != BEAMS_HOPEFUL)
        return param_bad(r, "early_stopping", "is for 'use_beam_search'");
    if (b->width && q->stream)
        return param_bad(r, "stream", "cannot be had with 'use_beam_search'");
    if (b->width)
        b->width = q->best_of;
    return 0;
}

/* Of a text that may hold calls nobody says which tokens are its words. */
static int check_response(struct api_reader *r)
{
    const struct api_request *q = r->out;
    if (q->route != API_RESPONSES)
        return 0;
    if (q->top_logprobs > 0 && !q->wants_logprobs)
        return param_bad(r, "top_logprobs",
                         "wants 'include' to hold \"message.output_text.logprobs\"");
    if (q->wants_logprobs && q->n_tool && q->tool_mode != TOOL_MODE_NONE)
        return param_bad(r, "include",
                         "cannot ask for log-probabilities where tools may be called");
    return 0;
}

static int check_answer(struct api_reader *r)
{
    struct api_request *q = r->out;
    if (r->has_stream_options && !q->stream)
        return param_bad(r, "stream_options", "is for streams alone: set 'stream'");
    if (q->top_logprobs >= 0 && !q->wants_logprobs && q->route != API_RESPONSES)
        return param_bad(r, "top_logprobs", "wants 'logprobs' to be true");
    if (q->dimensions > r->limits->n_vector)
        return param_bad(r, "dimensions", "is more than %lld, the size of this model's vectors",
                         (long long)r->limits->n_vector);
    return 0;
}

/* What the engine has to know follows from what the answer shall hold. */
static void settle(struct api_request *q)
{
    struct gen_params *g = &q->gen;
    int64_t top = q->wants_logprobs && q->top_logprobs > 0 ? q->top_logprobs : 0;
    q->top_logprobs = top;
    g->n_top = (int32_t)(top > q->prompt_logprobs ? top : q->prompt_logprobs);
    g->wants_prompt = q->prompt_logprobs >= 0 || (q->echo && q->wants_logprobs);
    g->wants_ranks = q->prompt_logprobs >= 0;
    g->wants_logprob = q->wants_logprobs || q->best_of > q->n || g->wants_prompt;
    g->sample.top_k = g->sample.top_k < 0 ? 0 : g->sample.top_k;
    if (g->sample.top_p <= 0) /* the likeliest token alone */
        g->sample.top_p = 1e-9;
    if (g->sample.temperature < 1e-5) /* a division by less means nothing */
        g->sample.temperature = 0;
}

/* A chat that is kept: what was asked, as it came. */
static int settle_kept(struct api_reader *r, const json_t *root)
{
    struct api_request *q = r->out;
    if (q->route != API_CHAT)
        return 0;
    if (q->store == API_STORE)
        return param_spell(r, "messages", json_object_get(root, "messages"), &q->input_json);
    return q->metadata ? params_ignore(r, "metadata") : 0;
}

/* Conversations that came in another shape. */
static int settle_turns(struct api_reader *r, const json_t *root)
{
    return r->out->route == API_RESPONSES     ? api_items_settle(r, root)
           : r->out->route & API_OLLAMA_CHATS ? api_ollama_settle(r)
                                              : api_turns_settle(r);
}

int api_request_parse(enum api_route route, const char *body, size_t n,
                      const struct api_limits *limits, struct arena *a, struct api_request *out,
                      struct api_error *e)
{
    struct api_reader r = {
        .arena = a, .limits = limits, .out = out, .e = e, .values = API_JSON_VALUES_MAX};
    const json_t *root = api_json_object(a, body, n, e);
    defaults(out, route, limits);
    if (root && route == API_TOKENIZE) /* a template writes what a text begins with */
        out->adds_special = !json_object_get(root, "messages");
    if (!root || params_read(&r, root) || settle_turns(&r, root) || check_input(&r) ||
        check_gap(&r) || check_amounts(&r) || check_beams(&r) || check_answer(&r) ||
        api_tools_settle(&r) || check_response(&r) || settle_kept(&r, root))
        return -1;
    if (r.repeats_freely)
        out->gen.sample.repetition = 1;
    settle(out);
    return 0;
}
