/* SPDX-License-Identifier: Apache-2.0
 *
 * The published description, made from the tables: that it is whole. Whether it says what the
 * server does is for tests/server/test_routes.py.
 */
#include "api/openapi.h"

#include <jansson.h>
#include <string.h>

#include "api/openapi_request.h"
#include "api/params.h"
#include "api/schema.h"
#include "tests/lib/test.h"

static const struct openapi_route table[] = {
    {"chat", "POST", "/v1/chat/completions", false, "inference", 100, NULL, NULL, NULL},
    {"model", "GET", "/v1/models/{id}", false, "inference", 0, NULL, NULL, NULL},
    {"adapter_drop", "DELETE", "/v1/models/{id}", false, "admin", 0, NULL, NULL, NULL},
    {"health", "GET", "/health", true, "", 0, NULL, NULL, NULL},
    {"not_written_down", "GET", "/secret", true, "", 0, NULL, NULL, NULL},
};

static json_t *document(void)
{
    struct buf b;
    buf_init(&b, 1 << 20);
    openapi_write(table, sizeof table / sizeof *table, "1.2.3", &b);
    json_t *doc = json_loadb(b.data, b.len, JSON_REJECT_DUPLICATES, NULL);
    buf_release(&b);
    assert_non_null(doc);
    return doc;
}

static json_t *at(json_t *v, const char *const *way)
{
    while (*way) {
        json_t *next = json_object_get(v, *way++);
        if (!next)
            fail_msg("no %s", way[-1]);
        v = next;
    }
    return v;
}
#define AT(v, ...) at((v), (const char *const[]){__VA_ARGS__, NULL})

/* Fault: a route left out, or under another's path or method; a key that is asked for where none
 * is. */
static void routes_stand_in_it(void **state)
{
    (void)state;
    json_t *doc = document(), *paths = AT(doc, "paths");
    assert_int_equal(json_object_size(paths), 3);
    assert_int_equal(json_object_size(AT(paths, "/v1/models/{id}")), 2);
    json_t *op = AT(paths, "/v1/models/{id}", "delete");
    assert_string_equal(json_string_value(AT(op, "operationId")), "adapter_drop");
    assert_string_equal(json_string_value(AT(op, "x-scope")), "admin");
    const json_t *param = json_array_get(AT(op, "parameters"), 0);
    assert_string_equal(json_string_value(json_object_get(param, "name")), "id");
    assert_int_equal(json_array_size(AT(op, "security")), 1);
    assert_int_equal(json_array_size(AT(paths, "/health", "get", "security")), 0);
    assert_null(json_object_get(AT(paths, "/health", "get"), "requestBody"));
    AT(paths, "/v1/chat/completions", "post", "requestBody", "content", "application/json");
    AT(paths, "/v1/chat/completions", "post", "responses", "200", "content", "text/event-stream");
    json_decref(doc);
}

static void follow(json_t *schemas, json_t *v)
{
    static const char place[] = "#/components/schemas/";
    const char *key;
    json_t *x;
    size_t i;
    json_object_foreach(v, key, x)
    {
        const char *to = json_string_value(x);
        if (strcmp(key, "$ref") == 0 && strncmp(to, place, sizeof place - 1) == 0 &&
            !json_object_get(schemas, to + sizeof place - 1))
            fail_msg("%s is nowhere", to);
        follow(schemas, x);
    }
    json_array_foreach(v, i, x) follow(schemas, x);
}

/* Fault: a schema that is named and does not exist. */
static void names_lead_somewhere(void **state)
{
    (void)state;
    json_t *doc = document(), *schemas = AT(doc, "components", "schemas");
    follow(schemas, doc);
    for (size_t i = 0; i < n_openapi_operations; i++) {
        const struct openapi_operation *op = &openapi_operations[i];
        const char *const name[] = {op->request, op->response, op->stream};
        for (size_t k = 0; k < 3; k++)
            if (*name[k])
                AT(schemas, name[k]);
    }
    json_decref(doc);
}

/* As params.c takes it. */
static const char *type_of_hint(json_type type)
{
    static const char *const name[] = {[JSON_TRUE] = "boolean",
                                       [JSON_STRING] = "string",
                                       [JSON_INTEGER] = "integer",
                                       [JSON_ARRAY] = "array",
                                       [JSON_OBJECT] = "object"};
    assert_true(type < sizeof name / sizeof *name && name[type]);
    return name[type];
}

/* Fault: a field that can be sent and is not told of, or the other way round, or is of another
 * type. */
static void fields_are_those_of_the_rows(void **state)
{
    static const struct {
        const char *name;
        unsigned route;
    } of[] = {
        {"ChatRequest", API_CHAT},
        {"CompletionRequest", API_COMPLETIONS},
        {"EmbeddingRequest", API_EMBEDDINGS},
        {"TokenizeRequest", API_TOKENIZE},
        {"RerankRequest", API_RERANK},
        {"ScoreRequest", API_SCORE},
        {"ClassifyRequest", API_CLASSIFY},
        {"DetokenizeRequest", API_DETOKENIZE},
        {"TemplateRequest", API_TEMPLATE},
        {"AdapterRequest", API_ADAPTER},
        {"MessagesRequest", API_MESSAGES},
        {"CountRequest", API_COUNT},
        {"ResponseRequest", API_RESPONSES},
        {"OllamaChatRequest", API_OLLAMA_CHAT},
        {"OllamaGenerateRequest", API_OLLAMA_GENERATE},
        {"OllamaEmbedRequest", API_OLLAMA_EMBED},
        {"OllamaVectorRequest", API_OLLAMA_VECTOR},
        {"OllamaShowRequest", API_OLLAMA_SHOW},
        {"OllamaOptions", API_OLLAMA_OPTIONS},
        {"LoraLoadRequest", API_LORA_LOAD},
        {"LoraUnloadRequest", API_LORA_UNLOAD},
    };
    (void)state;
    json_t *doc = document(), *schemas = AT(doc, "components", "schemas");
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        json_t *fields = AT(schemas, of[i].name, "properties");
        size_t n = 0;
        for (size_t k = 0; k < n_param_rows; k++) {
            const struct param_row *row = &param_rows[k];
            if (!(row->routes & of[i].route) || row->kind == PARAM_REFUSED)
                continue;
            AT(fields, row->name);
            n++;
            if (row->kind == PARAM_INT)
                assert_true(json_number_value(AT(fields, row->name, "maximum")) == row->max);
            if (row->kind == PARAM_HINT) {
                json_t *is = json_array_get(AT(fields, row->name, "anyOf"), 0);
                assert_string_equal(json_string_value(AT(is, "type")), type_of_hint(row->type));
            }
        }
        assert_int_equal(json_object_size(fields), n);
    }
    json_decref(doc);
}

/* Fault: a type of the little language that comes out as another. */
static void types_are_read(void **state)
{
    static const char *const sample[][2] = {
        {"string", "{\"type\":\"string\"}"},
        {"any", "{}"},
        {"[][]integer", "{\"type\":\"array\",\"items\":{\"type\":\"array\",\"items\":"
                        "{\"type\":\"integer\"}}}"},
        {"[1]string|null",
         "{\"anyOf\":[{\"type\":\"array\",\"minItems\":1,\"items\":{\"type\":\"string\"}},"
         "{\"type\":\"null\"}]}"},
        {"{}#Model", "{\"type\":\"object\",\"additionalProperties\":"
                     "{\"$ref\":\"#/components/schemas/Model\"}}"},
        {"'a b'|null", "{\"anyOf\":[{\"const\":\"a b\"},{\"type\":\"null\"}]}"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof sample / sizeof *sample; i++) {
        struct buf b;
        buf_init(&b, 1000);
        struct jout j = jout_on(&b);
        jout_open(&j, '{');
        schema_type(&j, sample[i][0], "");
        jout_close(&j, '}');
        assert_string_equal(b.data, sample[i][1]);
        buf_release(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(routes_stand_in_it),
        cmocka_unit_test(names_lead_somewhere),
        cmocka_unit_test(fields_are_those_of_the_rows),
        cmocka_unit_test(types_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
