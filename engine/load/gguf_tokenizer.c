/* SPDX-License-Identifier: Apache-2.0
 *
 * See gguf_tokenizer.h. Every token is in the model's vocabulary; control tokens and those that a
 * user defined are added tokens besides, the former special.
 */
#include "engine/load/gguf_tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/load/gguf_config.h"
#include "engine/load/tokenizer_config.h"

#define SPACE_MARK "\xe2\x96\x81"

enum { TOKEN_NORMAL = 1, TOKEN_UNKNOWN = 2, TOKEN_CONTROL = 3, TOKEN_USER = 4 };
enum { TOKENS_MAX = 1 << 21, KEY_BYTES = 128, NAME_BYTES_MAX = 64 };

struct vocab_src {
    const struct gguf *g;
    const struct gguf_value *tokens, *types, *scores, *merges;
    const struct gguf_pre *pre; /* of byte pairs */
    bool is_spm, add_bos, add_eos, add_space;
    int64_t bos, eos, unk, pad; /* -1: none */
};

/* ---- how byte-level text is cut ------------------------------------------------------------ */

#define SPLIT(regex)                                                                                 \
    "{\"type\":\"Split\",\"behavior\":\"Isolated\",\"invert\":false,\"pattern\":{\"Regex\":\"" regex \
    "\"}},"
#define BYTES  "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}"
#define GPT2   "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true}"
#define DIGITS "{\"type\":\"Digits\",\"individual_digits\":true},"
#define BLANK  "|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"
#define LLAMA3                                                                                     \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}{1,3}|"          \
    " ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*" BLANK
#define QWEN2                                                                                      \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}|"               \
    " ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*" BLANK
#define QWEN35                                                                                     \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?[\\\\p{L}\\\\p{M}]+|\\\\p{N}|"     \
    " ?[^\\\\s\\\\p{L}\\\\p{M}\\\\p{N}]+[\\\\r\\\\n]*" BLANK
#define UPPER "[\\\\p{Lu}\\\\p{Lt}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]"
#define LOWER "[\\\\p{Ll}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]"
#define ENDED "(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
#define GPT4O                                                                                      \
    "[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?" UPPER "*" LOWER "+" ENDED                                     \
    "[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?" UPPER "+" LOWER "*" ENDED                                     \
    "\\\\p{N}{1,3}| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n/]*" BLANK
#define DEFAULT_CUTS                                                                                   \
    SPLIT("[\\\\p{P}\\\\$\\\\+<=>\\\\^~\\\\|]+")                                                       \
    SPLIT(                                                                                             \
        "'s|'t|'re|'ve|'m|'ll|'d| ?\\\\p{L}+| ?\\\\p{N}+| ?[^\\\\s\\\\p{L}\\\\p{N}]+|\\\\s+(?!\\\\S)") \
    SPLIT("\\\\p{N}+") SPLIT("[0-9][0-9][0-9]")

static const struct gguf_pre pre_row[] = {
    {"default", DEFAULT_CUTS BYTES, false, false, false},
    {"gpt-2", GPT2, false, false, false},
    {"phi-2", GPT2, false, false, false},
    {"smollm", DIGITS GPT2, false, false, false},
    {"starcoder", DIGITS GPT2, false, false, false},
    {"llama-bpe", SPLIT(LLAMA3) BYTES, false, true, true},
    {"llama3", SPLIT(LLAMA3) BYTES, false, true, true},
    {"llama-v3", SPLIT(LLAMA3) BYTES, false, true, true},
    {"qwen2", SPLIT(QWEN2) BYTES, true, false, false},
    {"qwen35", SPLIT(QWEN35) BYTES, true, false, false},
    {"gpt-4o", SPLIT(GPT4O) BYTES, false, false, false},
    {"lfm2", SPLIT(LLAMA3) BYTES, false, true, true},
    {"deepseek-r1-qwen", SPLIT(QWEN2) BYTES, true, false, false},
};

const struct gguf_pre *gguf_pre_first(void)
{
    return pre_row;
}

const struct gguf_pre *gguf_pre_next(const struct gguf_pre *p)
{
    return p + 1 < pre_row + sizeof pre_row / sizeof *pre_row ? p + 1 : NULL;
}

static int find_pre(struct vocab_src *v, struct err *e)
{
    const char *name = "default";
    if (gguf_opt_str(v->g, "tokenizer.ggml.pre", &name, e))
        return -1;
    for (size_t i = 0; i < sizeof pre_row / sizeof *pre_row; i++)
        if (strcmp(name, pre_row[i].name) == 0)
            return v->pre = &pre_row[i], 0;
    return err_set(e, ERR_UNSUPPORTED,
                   "%s: tokenizer.ggml.pre: '%.60s' is not supported; llama-bpe, qwen2, "
                   "qwen35, gpt-4o, lfm2, gpt-2, smollm, default and their other names are",
                   v->g->name, name);
}

/* ---- reading ------------------------------------------------------------------------------- */

static int read_id(const struct vocab_src *v, const char *key, int64_t *id, struct err *e)
{
    *id = -1;
    if (gguf_opt_int(v->g, key, id, e))
        return -1;
    if (*id >= (int64_t)v->tokens->n)
        return err_set(e, ERR_BAD_INPUT, "%s: %s: there is no token %lld", v->g->name, key,
                       (long long)*id);
    return 0;
}

static int check_count(const struct vocab_src *v, const struct gguf_value *list, struct err *e)
{
    if (!list || list->n == v->tokens->n)
        return 0;
    return err_set(e, ERR_BAD_INPUT, "%s: %s: has %zu elements for %zu tokens", v->g->name,
                   list->key, list->n, v->tokens->n);
}

static int read_lists(struct vocab_src *v, struct err *e)
{
    const struct gguf *g = v->g;
    if (gguf_opt_array(g, "tokenizer.ggml.tokens", GGUF_STRING, &v->tokens, e) ||
        gguf_opt_array(g, "tokenizer.ggml.token_type", GGUF_I32, &v->types, e) ||
        gguf_opt_array(g, "tokenizer.ggml.scores", GGUF_F32, &v->scores, e) ||
        gguf_opt_array(g, "tokenizer.ggml.merges", GGUF_STRING, &v->merges, e))
        return -1;
    if (!v->tokens || v->tokens->n > TOKENS_MAX)
        return err_set(e, ERR_BAD_INPUT, "%s: tokenizer.ggml.tokens is missing, or more than %d",
                       g->name, TOKENS_MAX);
    if (check_count(v, v->types, e) || check_count(v, v->scores, e))
        return -1;
    if (v->is_spm ? !v->scores : !v->merges)
        return err_set(e, ERR_BAD_INPUT, "%s: tokenizer.ggml.%s is missing", g->name,
                       v->is_spm ? "scores" : "merges");
    return 0;
}

static int read_model(struct vocab_src *v, struct err *e)
{
    const char *model = NULL;
    bool cleans = false;
    if (gguf_opt_str(v->g, "tokenizer.ggml.model", &model, e) ||
        gguf_opt_bool(v->g, "tokenizer.ggml.remove_extra_whitespaces", &cleans, e))
        return -1;
    if (!model)
        return err_set(e, ERR_BAD_INPUT, "%s: tokenizer.ggml.model is missing", v->g->name);
    v->is_spm = strcmp(model, "llama") == 0;
    if (!v->is_spm && strcmp(model, "gpt2") != 0)
        return err_set(e, ERR_UNSUPPORTED,
                       "%s: tokenizer.ggml.model: '%.40s' is not supported; gpt2 and llama are",
                       v->g->name, model);
    if (cleans || (v->is_spm && gguf_get(v->g, "tokenizer.ggml.precompiled_charsmap")))
        return err_set(e, ERR_UNSUPPORTED,
                       "%s: tokenizer.ggml: texts that are normalized are not supported",
                       v->g->name);
    return 0;
}

static int vocab_src_read(struct vocab_src *v, const struct gguf *g, struct err *e)
{
    *v = (struct vocab_src){.g = g};
    if (read_model(v, e) || read_lists(v, e) || (!v->is_spm && find_pre(v, e)))
        return -1;
    v->add_bos = v->is_spm || v->pre->add_bos;
    v->add_space = true;
    if (gguf_opt_bool(g, "tokenizer.ggml.add_bos_token", &v->add_bos, e) ||
        gguf_opt_bool(g, "tokenizer.ggml.add_eos_token", &v->add_eos, e) ||
        gguf_opt_bool(g, "tokenizer.ggml.add_space_prefix", &v->add_space, e) ||
        read_id(v, "tokenizer.ggml.bos_token_id", &v->bos, e) ||
        read_id(v, "tokenizer.ggml.eos_token_id", &v->eos, e) ||
        read_id(v, "tokenizer.ggml.unknown_token_id", &v->unk, e) ||
        read_id(v, "tokenizer.ggml.padding_token_id", &v->pad, e))
        return -1;
    if ((v->add_bos && v->bos < 0) || (v->add_eos && v->eos < 0))
        return err_set(e, ERR_BAD_INPUT, "%s: tokenizer.ggml.%s_token_id is missing", g->name,
                       v->add_bos && v->bos < 0 ? "bos" : "eos");
    return 0;
}

static int32_t type_of(const struct vocab_src *v, size_t id)
{
    return v->types ? gguf_array_i32(v->types, id) : TOKEN_NORMAL;
}

static void put_str(struct buf *out, struct gguf_str s)
{
    gguf_json_str(out, s.p, s.n);
}

/* ---- tokenizer.json ------------------------------------------------------------------------ */

static void put_added(const struct vocab_src *v, struct buf *out)
{
    const char *comma = "";
    buf_str(out, "\"added_tokens\":[");
    for (size_t i = 0; i < v->tokens->n; i++) {
        int32_t type = type_of(v, i);
        if (type != TOKEN_CONTROL && type != TOKEN_USER &&
            !(v->is_spm && type == TOKEN_UNKNOWN && (int64_t)i == v->unk))
            continue;
        buf_printf(out, "%s{\"id\":%zu,\"normalized\":false,\"special\":%s,\"content\":", comma, i,
                   type == TOKEN_USER ? "false" : "true");
        put_str(out, v->tokens->strings[i]);
        buf_char(out, '}');
        comma = ",";
    }
    buf_str(out, "],");
}

static void put_vocab(const struct vocab_src *v, struct buf *out)
{
    buf_str(out, "\"vocab\":{");
    for (size_t i = 0; i < v->tokens->n; i++) {
        put_str(out, v->tokens->strings[i]);
        buf_printf(out, ":%zu%s", i, i + 1 < v->tokens->n ? "," : "");
    }
    buf_str(out, "},");
}

static void put_affix(const char *name, int64_t id, struct buf *out)
{
    buf_printf(out, "\"%s\":{\"ids\":[%lld]}", name, (long long)id);
}

static void put_post(const struct vocab_src *v, struct buf *out)
{
    if (!v->add_bos && !v->add_eos)
        return;
    buf_printf(out,
               "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[%s"
               "{\"Sequence\":{\"id\":\"A\"}}%s],\"special_tokens\":{",
               v->add_bos ? "{\"SpecialToken\":{\"id\":\"bos\"}}," : "",
               v->add_eos ? ",{\"SpecialToken\":{\"id\":\"eos\"}}" : "");
    if (v->add_bos)
        put_affix("bos", v->bos, out);
    if (v->add_bos && v->add_eos)
        buf_char(out, ',');
    if (v->add_eos)
        put_affix("eos", v->eos, out);
    buf_str(out, "}},");
}

static void put_bytes_model(const struct vocab_src *v, struct buf *out)
{
    if (v->pre->is_nfc)
        buf_str(out, "\"normalizer\":{\"type\":\"NFC\"},");
    buf_printf(out,
               "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[%s]},"
               "\"decoder\":{\"type\":\"ByteLevel\"},"
               "\"model\":{\"type\":\"BPE\",\"ignore_merges\":%s,",
               v->pre->steps, v->pre->ignores_merges ? "true" : "false");
    put_vocab(v, out);
    buf_str(out, "\"merges\":[");
    for (size_t i = 0; i < v->merges->n; i++) {
        if (i)
            buf_char(out, ',');
        put_str(out, v->merges->strings[i]);
    }
    buf_str(out, "]}");
}

/* ---- SentencePiece's merges ---------------------------------------------------------------- */

struct spm_merge {
    float score;
    uint32_t left, right, made;
};

static int by_score(const void *a, const void *b)
{
    const struct spm_merge *x = a, *y = b;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    if (x->made != y->made)
        return x->made < y->made ? -1 : 1;
    if (x->left != y->left)
        return x->left < y->left ? -1 : 1;
    return (x->right > y->right) - (x->right < y->right);
}

struct spm_merges {
    struct buf list; /* of struct spm_merge */
    struct map id;   /* of normal tokens, + 1 */
};

static uint32_t spm_find(const struct spm_merges *m, const char *p, size_t n)
{
    return (uint32_t)(uintptr_t)map_get(&m->id, p, n);
}

/* Every cut of a token between characters whose halves are tokens. */
static void add_cuts(const struct vocab_src *v, struct spm_merges *m, size_t id)
{
    struct gguf_str s = v->tokens->strings[id];
    for (size_t i = 1; i < s.n; i++) {
        if (((unsigned char)s.p[i] & 0xc0) == 0x80)
            continue;
        uint32_t left = spm_find(m, s.p, i), right = left ? spm_find(m, s.p + i, s.n - i) : 0;
        if (!left || !right)
            continue;
        struct spm_merge x = {gguf_array_f32(v->scores, id), left - 1, right - 1, (uint32_t)id};
        buf_add(&m->list, &x, sizeof x);
    }
}

static int collect(const struct vocab_src *v, struct spm_merges *m, struct err *e)
{
    for (size_t i = 0; i < v->tokens->n; i++) {
        float score = gguf_array_f32(v->scores, i);
        struct gguf_str s = v->tokens->strings[i];
        if (!(score - score == 0))
            return err_set(e, ERR_BAD_INPUT, "%s: tokenizer.ggml.scores: number %zu is not finite",
                           v->g->name, i);
        if (type_of(v, i) == TOKEN_NORMAL && s.n)
            map_put(&m->id, s.p, s.n, (void *)(uintptr_t)(i + 1)); /* twice: refused when parsed */
    }
    for (size_t i = 0; i < v->tokens->n; i++)
        if (type_of(v, i) == TOKEN_NORMAL)
            add_cuts(v, m, i);
    return buf_check(&m->list, v->g->name, e);
}

static void put_merges(const struct vocab_src *v, const struct spm_merges *m, struct buf *out)
{
    const struct spm_merge *x = (const void *)m->list.data;
    size_t n = m->list.len / sizeof *x;
    buf_str(out, "\"merges\":[");
    for (size_t i = 0; i < n; i++) {
        buf_str(out, i ? ",[" : "[");
        put_str(out, v->tokens->strings[x[i].left]);
        buf_char(out, ',');
        put_str(out, v->tokens->strings[x[i].right]);
        buf_char(out, ']');
    }
    buf_str(out, "]}");
}

static int put_spm_merges(const struct vocab_src *v, struct buf *out, struct err *e)
{
    struct spm_merges m;
    buf_init(&m.list, GGUF_TEXT_BYTES_MAX);
    map_init(&m.id);
    int rc = collect(v, &m, e);
    if (!rc && m.list.len)
        qsort(m.list.data, m.list.len / sizeof(struct spm_merge), sizeof(struct spm_merge),
              by_score);
    if (!rc)
        put_merges(v, &m, out);
    map_release(&m.id);
    buf_release(&m.list);
    return rc;
}

static int put_spm_model(const struct vocab_src *v, struct buf *out, struct err *e)
{
    buf_printf(out,
               "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[%s"
               "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"" SPACE_MARK
               "\"}]},",
               v->add_space ? "{\"type\":\"Prepend\",\"prepend\":\"" SPACE_MARK "\"}," : "");
    buf_printf(out,
               "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\","
               "\"pattern\":{\"String\":\"" SPACE_MARK "\"},\"content\":\" \"},"
               "{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"}%s]},",
               v->add_space ? ",{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}"
                            : "");
    buf_str(out, "\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,\"fuse_unk\":true,");
    if (v->unk >= 0) {
        buf_str(out, "\"unk_token\":");
        put_str(out, v->tokens->strings[v->unk]);
        buf_char(out, ',');
    }
    put_vocab(v, out);
    return put_spm_merges(v, out, e);
}

bool gguf_has_tokenizer(const struct gguf *g)
{
    const struct gguf_value *v = gguf_get(g, "tokenizer.ggml.model");
    return v &&
           !(v->type == GGUF_STRING && (!strcmp(v->s.p, "no_vocab") || !strcmp(v->s.p, "none")));
}

int gguf_tokenizer_text(const struct gguf *g, struct buf *out, struct err *e)
{
    struct vocab_src v;
    int rc = 0;
    if (vocab_src_read(&v, g, e))
        return -1;
    buf_char(out, '{');
    put_added(&v, out);
    put_post(&v, out);
    if (v.is_spm)
        rc = put_spm_model(&v, out, e);
    else
        put_bytes_model(&v, out);
    buf_char(out, '}');
    return rc ? rc : buf_check(out, g->name, e);
}

/* ---- tokenizer_config.json ----------------------------------------------------------------- */

static void put_role(const struct vocab_src *v, const char *member, int64_t id, struct buf *out)
{
    if (id < 0)
        return;
    buf_printf(out, ",\"%s\":", member);
    put_str(out, v->tokens->strings[id]);
}

static int put_template(const struct gguf *g, struct gguf_str name, const char *comma,
                        struct buf *out, struct err *e)
{
    char key[KEY_BYTES];
    const char *text = NULL;
    if (name.n > NAME_BYTES_MAX)
        return err_set(e, ERR_TOO_LARGE, "%s: tokenizer.chat_templates: a name of %zu bytes",
                       g->name, name.n);
    snprintf(key, sizeof key, "tokenizer.chat_template.%s", name.p);
    if (gguf_opt_str(g, key, &text, e))
        return -1;
    if (!text)
        return err_set(e, ERR_BAD_INPUT, "%s: %s is missing", g->name, key);
    buf_printf(out, "%s{\"name\":", comma);
    put_str(out, name);
    buf_str(out, ",\"template\":");
    gguf_json_str(out, text, strlen(text));
    buf_char(out, '}');
    return 0;
}

/* The default template, and those with names of their own. */
static int put_templates(const struct gguf *g, struct buf *out, struct err *e)
{
    const struct gguf_value *names;
    const char *text = NULL, *comma = "";
    if (gguf_opt_str(g, "tokenizer.chat_template", &text, e) ||
        gguf_opt_array(g, "tokenizer.chat_templates", GGUF_STRING, &names, e))
        return -1;
    if (!text && !names)
        return 0;
    buf_str(out, ",\"chat_template\":[");
    if (text) {
        buf_str(out, "{\"name\":\"default\",\"template\":");
        gguf_json_str(out, text, strlen(text));
        buf_char(out, '}');
        comma = ",";
    }
    for (size_t i = 0; names && i < names->n && i <= TOKENIZER_MAX_TEMPLATE; i++) {
        if (put_template(g, names->strings[i], comma, out, e))
            return -1;
        comma = ",";
    }
    buf_char(out, ']');
    return 0;
}

int gguf_tokenizer_config_text(const struct gguf *g, struct buf *out, struct err *e)
{
    struct vocab_src v;
    if (vocab_src_read(&v, g, e))
        return -1;
    buf_printf(out, "{\"add_bos_token\":%s,\"add_eos_token\":%s", v.add_bos ? "true" : "false",
               v.add_eos ? "true" : "false");
    put_role(&v, "bos_token", v.bos, out);
    put_role(&v, "eos_token", v.eos, out);
    put_role(&v, "unk_token", v.unk, out);
    put_role(&v, "pad_token", v.pad, out);
    if (put_templates(g, out, e))
        return -1;
    buf_char(out, '}');
    return buf_check(out, g->name, e);
}
