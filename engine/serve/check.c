/* SPDX-License-Identifier: Apache-2.0
 *
 * Each field by itself, then what they come to together.
 */
#include "engine/serve/check.h"

#include "engine/sample/sampler.h"

static int check_ids(const char *name, const int32_t *id, int64_t n, int64_t n_vocab, struct err *e)
{
    for (int64_t i = 0; i < n; i++)
        if (id[i] < 0 || id[i] >= n_vocab)
            return err_set(e, ERR_BAD_INPUT, "%s: token %d is not in the vocabulary of %lld", name,
                           id[i], (long long)n_vocab);
    return 0;
}

static int check_kind(const struct check_limits *l, enum gen_kind kind, struct err *e)
{
    if (kind == GEN_TEXT && !l->generates)
        return err_set(e, ERR_UNSUPPORTED, "model: an encoder gives vectors, not text");
    if (kind == GEN_CLASSIFY && !l->classifies)
        return err_set(e, ERR_UNSUPPORTED, "model: it has no labels to classify by");
    if (kind == GEN_EMBED && l->classifies)
        return err_set(e, ERR_UNSUPPORTED,
                       "model: a classifier gives numbers by label, no vectors");
    if (kind == GEN_EMBED && !l->embeds)
        return err_set(e, ERR_UNSUPPORTED,
                       "model: it continues texts and was not made for embeddings");
    return 0;
}

static int check_prompt(const struct check_limits *l, const struct gen_req *r, struct err *e)
{
    if (r->n_prompt < 1)
        return err_set(e, ERR_BAD_INPUT, "prompt: there is no token in it");
    if (r->n_prompt > l->ctx)
        return err_set(e, ERR_TOO_LARGE, "prompt: %lld tokens, the context holds %lld",
                       (long long)r->n_prompt, (long long)l->ctx);
    if (r->n_first < 0 || r->n_first > r->n_prompt)
        return err_set(e, ERR_BAD_INPUT, "prompt: %lld of its %lld tokens cannot be the first text",
                       (long long)r->n_first, (long long)r->n_prompt);
    return check_ids("prompt", r->prompt, r->n_prompt, l->n_vocab, e);
}

static int check_range(const char *name, int64_t v, int64_t lo, int64_t hi, struct err *e)
{
    if (v >= lo && v <= hi)
        return 0;
    return err_set(e, ERR_BAD_INPUT, "%s: %lld is not between %lld and %lld", name, (long long)v,
                   (long long)lo, (long long)hi);
}

static int check_stops(const struct check_limits *l, const struct gen_params *p, struct err *e)
{
    if (check_range("stop", p->n_stop, 0, GEN_STOP_MAX, e) ||
        check_range("stop_token_ids", p->n_stop_id, 0, GEN_STOP_ID_MAX, e))
        return -1;
    if (p->n_stop > 0 && !l->has_tokenizer)
        return err_set(e, ERR_UNSUPPORTED, "stop: the model has no tokenizer to find strings with");
    for (int32_t i = 0; i < p->n_stop; i++)
        if (p->stop[i].n < 1 || p->stop[i].n > GEN_STOP_BYTES_MAX)
            return err_set(e, ERR_BAD_INPUT, "stop: a string of %u bytes is not of 1 to %d",
                           p->stop[i].n, GEN_STOP_BYTES_MAX);
    return check_ids("stop_token_ids", p->stop_id, p->n_stop_id, l->n_vocab, e);
}

/* What the context leaves where nothing was said; at least one token then. A prompt that fits the
 * context of the model's first training stays in it. */
static int find_max_new(const struct check_limits *l, const struct gen_req *r, int64_t *max_new,
                        struct err *e)
{
    int64_t left = l->ctx - r->n_prompt, asked = r->params->max_new;
    int64_t left_short = l->ctx_short - r->n_prompt;
    if (asked < -1)
        return err_set(e, ERR_BAD_INPUT, "max_tokens: %lld is below 0", (long long)asked);
    if (asked == -1 ? left < 1 : asked > left)
        return err_set(e, ERR_TOO_LARGE,
                       "max_tokens: %lld tokens of prompt and %lld to add are more than the "
                       "context of %lld holds",
                       (long long)r->n_prompt, (long long)(asked < 0 ? 1 : asked),
                       (long long)l->ctx);
    *max_new = asked != -1 ? asked : left_short > 0 && left_short < left ? left_short : left;
    return 0;
}

static int check_thoughts(const struct check_limits *l, const struct gen_thoughts *t, struct err *e)
{
    if (!t->is_limited)
        return 0;
    if (!l->has_tokenizer)
        return err_set(e, ERR_UNSUPPORTED, "thinking_token_budget: the model has no tokenizer");
    return check_range("thinking_token_budget", t->most, 0, INT32_MAX, e) ||
                   check_ids("thinking_token_budget", &t->open, 1, l->n_vocab, e) ||
                   check_ids("thinking_token_budget", &t->close, 1, l->n_vocab, e)
               ? -1
               : 0;
}

static bool is_in(const int32_t *id, int64_t n, int32_t one)
{
    for (int64_t i = 0; i < n; i++)
        if (id[i] == one)
            return true;
    return false;
}

static bool ends_bad_word(const struct sample_params *p, int32_t id)
{
    for (int32_t i = 0; i < p->n_bad; i += 1 + p->bad[i])
        if (p->bad[i + p->bad[i]] == id)
            return true;
    return false;
}

/* The mark that ends thoughts must be able to come, when they have their tokens. */
static int check_mark(const struct gen_params *p, struct err *e)
{
    const struct sample_params *s = &p->sample;
    int32_t mark = p->thoughts.close;
    const char *by = s->n_allow && !is_in(s->allow, s->n_allow, mark) ? "allowed_token_ids"
                     : ends_bad_word(s, mark)                         ? "bad_words"
                     : p->min_new > 0 && is_in(p->stop_id, p->n_stop_id, mark)
                         ? "min_tokens, with a stop_token_id"
                         : NULL;
    return p->thoughts.is_limited && by
               ? err_set(e, ERR_BAD_INPUT,
                         "thinking_token_budget: %s may shut out the mark that ends thoughts", by)
               : 0;
}

/* What would change the log-probabilities that beams are told apart by, or look at one text while
 * it grows; NULL: nothing. */
static const char *beside_beams(const struct gen_params *p)
{
    const struct sample_params *s = &p->sample;
    return p->masks                               ? "what texts are held to"
           : p->thoughts.is_limited               ? "thinking_token_budget"
           : p->n_stop                            ? "stop"
           : p->min_new                           ? "min_tokens"
           : p->wants_prompt                      ? "log-probabilities of the prompt"
           : p->n_top                             ? "logprobs above 0"
           : s->n_bias                            ? "logit_bias"
           : s->n_bad                             ? "bad_words"
           : s->n_allow                           ? "allowed_token_ids"
           : s->repetition != 1                   ? "repetition_penalty"
           : s->presence != 0                     ? "presence_penalty"
           : s->frequency != 0                    ? "frequency_penalty"
           : sample_is_dry(s)                     ? "dry_multiplier"
           : s->mirostat                          ? "mirostat"
           : s->xtc_probability > 0               ? "xtc_probability"
           : s->top_n_sigma > 0                   ? "top_n_sigma"
           : s->typical_p > 0 && s->typical_p < 1 ? "typical_p"
           : s->dynatemp_range > 0                ? "dynatemp_range"
                                                  : NULL;
}

static int check_beams(const struct check_limits *l, const struct gen_params *p, struct err *e)
{
    const struct sample_beams *b = &p->beams;
    const char *by = beside_beams(p);
    int64_t n_end = p->n_stop_id + (p->ignore_eos ? 0 : l->n_eos), most = SAMPLE_TOP_MAX - n_end;
    most = most < SAMPLE_BEAMS_MAX ? most : SAMPLE_BEAMS_MAX;
    most = most < l->n_vocab - n_end ? most : l->n_vocab - n_end;
    if (!b->width)
        return 0;
    if (by)
        return err_set(e, ERR_UNSUPPORTED, "use_beam_search: it cannot be had with %s", by);
    if (b->width < 1 || b->width > most)
        return err_set(e, ERR_BAD_INPUT,
                       "best_of: %lld beams; where %lld tokens end texts there may be %lld",
                       (long long)b->width, (long long)n_end, (long long)(most > 0 ? most : 0));
    return 0;
}

static int check_text(const struct check_limits *l, const struct gen_req *r, int64_t *max_new,
                      struct err *e)
{
    const struct gen_params *p = r->params;
    if (find_max_new(l, r, max_new, e) || check_range("min_tokens", p->min_new, 0, *max_new, e) ||
        check_range("top_logprobs", p->n_top, 0, GEN_TOP_MAX, e) || check_stops(l, p, e) ||
        check_thoughts(l, &p->thoughts, e) || sample_check(&p->sample, l->n_vocab, e) ||
        check_beams(l, p, e))
        return -1;
    return check_mark(p, e);
}

int check_request(const struct check_limits *l, const struct gen_req *r, int64_t *max_new,
                  struct err *e)
{
    *max_new = 0;
    if (check_kind(l, r->kind, e) || check_prompt(l, r, e))
        return -1;
    return r->kind == GEN_TEXT ? check_text(l, r, max_new, e) : 0;
}
