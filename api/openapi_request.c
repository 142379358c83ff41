/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of params.def as JSON Schema. Fields that are refused are left out. A field that is not
 * required may be null, which is as if it were not there.
 */
#include "api/openapi_request.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "api/params.h"
#include "api/schema.h"

static const struct {
    const char *name;
    unsigned route;
    const char *about, *required;
} request[] = {
    {"ChatRequest", API_CHAT, "A conversation to be answered", "messages"},
    {"CompletionRequest", API_COMPLETIONS, "A text to go on with", "prompt"},
    {"EmbeddingRequest", API_EMBEDDINGS, "Texts to be turned into vectors", "input"},
    {"RerankRequest", API_RERANK, "Documents to be ordered by how well they answer a query",
     "query|documents"},
    {"ScoreRequest", API_SCORE, "Texts to be scored against others", NULL},
    {"ClassifyRequest", API_CLASSIFY, "Texts to be labelled", "input"},
    {"TokenizeRequest", API_TOKENIZE, "A prompt or messages to be turned into token ids", NULL},
    {"DetokenizeRequest", API_DETOKENIZE, "Token ids to be turned into text", "tokens"},
    {"TemplateRequest", API_TEMPLATE, "A conversation to be rendered", "messages"},
    {"MessagesRequest", API_MESSAGES, "A conversation to be answered, in Anthropic's shape",
     "messages|max_tokens"},
    {"CountRequest", API_COUNT, "A conversation to be counted, in Anthropic's shape", "messages"},
    {"ResponseRequest", API_RESPONSES, "A conversation to be answered, as items", "input"},
    {"OllamaChatRequest", API_OLLAMA_CHAT, "A conversation to be answered, in Ollama's shape",
     NULL},
    {"OllamaGenerateRequest", API_OLLAMA_GENERATE, "A prompt to be answered", NULL},
    {"OllamaEmbedRequest", API_OLLAMA_EMBED, "Texts to be turned into vectors", "input"},
    {"OllamaVectorRequest", API_OLLAMA_VECTOR, "A text to be turned into a vector", "prompt"},
    {"OllamaShowRequest", API_OLLAMA_SHOW, "The name of a model", NULL},
    {"OllamaOptions", API_OLLAMA_OPTIONS, "How tokens are chosen, and how many", NULL},
    {"LoraLoadRequest", API_LORA_LOAD, "An adapter of the server's folder of adapters",
     "lora_name|lora_path"},
    {"LoraUnloadRequest", API_LORA_UNLOAD, "The name of an adapter", "lora_name"},
    {"InfillRequest", API_INFILL, "A text with a gap", "input_prefix|input_suffix"},
    {"AdapterRequest", API_ADAPTER, "An adapter of the server's folder of adapters", "name"},
};

static void bound(struct jout *j, const char *key, double x)
{
    if (x == floor(x) && fabs(x) < 9e15)
        jout_put_int(j, key, (int64_t)x);
    else
        jout_put_num(j, key, x);
}

/* The words of "a|b" as members of an array. */
static void words(struct jout *j, const char *list)
{
    for (const char *p = list; *p;) {
        size_t n = strcspn(p, "|");
        jout_bytes(j, p, n);
        p += n + (p[n] == '|');
    }
}

static bool has_word(const char *list, const char *word)
{
    size_t n = strlen(word);
    for (const char *p = list ? strstr(list, word) : NULL; p; p = strstr(p + 1, word))
        if ((p == list || p[-1] == '|') && (!p[n] || p[n] == '|'))
            return true;
    return false;
}

static const char *hint_type(json_type type)
{
    return type == JSON_TRUE      ? "boolean"
           : type == JSON_STRING  ? "string"
           : type == JSON_INTEGER ? "integer"
           : type == JSON_ARRAY   ? "[]any"
                                  : "object";
}

static void put_type(struct jout *j, const char *type, const char *about, bool is_required)
{
    char both[160];
    snprintf(both, sizeof both, is_required ? "%s" : "%s|null", type);
    schema_type(j, both, about);
}

static void property(struct jout *j, const struct param_row *row, bool is_required)
{
    switch (row->kind) {
    case PARAM_INT:
    case PARAM_NUM:
        put_type(j, row->kind == PARAM_INT ? "integer" : "number", "", is_required);
        bound(j, "minimum", row->min);
        bound(j, "maximum", row->max);
        return;
    case PARAM_BOOL:
        put_type(j, "boolean", "", is_required);
        return;
    case PARAM_TEXT:
        put_type(j, "string", "", is_required);
        jout_put_int(j, "minLength", 1);
        bound(j, "maxLength", row->max);
        return;
    case PARAM_READ:
        put_type(j, row->words, "", is_required);
        return;
    case PARAM_WORD:
        jout_key(j, "enum");
        jout_open(j, '[');
        words(j, row->words);
        jout_null(j);
        jout_close(j, ']');
        return;
    case PARAM_HINT:
        put_type(j, hint_type(row->type), "Changes nothing here", is_required);
        return;
    case PARAM_REFUSED:
        return;
    }
}

static void schema(struct jout *j, size_t i)
{
    jout_key(j, request[i].name);
    jout_open(j, '{');
    schema_type(j, "object", request[i].about);
    jout_key(j, "properties");
    jout_open(j, '{');
    for (size_t k = 0; k < n_param_rows; k++) {
        if (!(param_rows[k].routes & request[i].route) || param_rows[k].kind == PARAM_REFUSED)
            continue;
        jout_key(j, param_rows[k].name);
        jout_open(j, '{');
        property(j, &param_rows[k], has_word(request[i].required, param_rows[k].name));
        jout_close(j, '}');
    }
    jout_close(j, '}');
    if (request[i].required) {
        jout_key(j, "required");
        jout_open(j, '[');
        words(j, request[i].required);
        jout_close(j, ']');
    }
    jout_close(j, '}');
}

void openapi_requests(struct jout *j)
{
    for (size_t i = 0; i < sizeof request / sizeof *request; i++)
        schema(j, i);
}
