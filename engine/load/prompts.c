/* SPDX-License-Identifier: Apache-2.0
 *
 * See prompts.h.
 */
#include "engine/load/prompts.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/load/json.h"
#include "engine/load/path.h"

static const char file_name[] = "config_sentence_transformers.json";

static int put(struct prompts *p, const struct json *m, struct err *e)
{
    const char *text;
    if (json_as_str(m, &text, e))
        return -1;
    if (strlen(text) > PROMPT_BYTES_MAX || strlen(json_key(m)) > PROMPT_BYTES_MAX)
        return json_err(m, e, ERR_TOO_LARGE, "a prompt of more than %d bytes", PROMPT_BYTES_MAX);
    p->name[p->n] = xstrdup(json_key(m));
    p->text[p->n++] = xstrdup(text);
    return 0;
}

static const char *find(const struct prompts *p, const char *name)
{
    for (int32_t i = 0; i < p->n; i++)
        if (strcmp(p->name[i], name) == 0)
            return p->text[i];
    return NULL;
}

static int read_usual(struct prompts *p, const struct json *root, struct err *e)
{
    struct json m = json_member(root, "default_prompt_name");
    const char *name;
    if (json_absent(&m))
        return 0;
    if (json_as_str(&m, &name, e))
        return -1;
    p->usual = find(p, name);
    return p->usual ? 0 : json_err(&m, e, ERR_BAD_INPUT, "'%.80s' is none of the prompts", name);
}

static int read_all(struct prompts *p, const struct json *root, struct err *e)
{
    struct json map = {.node = NULL}, m;
    if (json_want(root, JSON_OBJECT, e) || json_opt(root, "prompts", JSON_OBJECT, &map, e))
        return -1;
    size_t n = map.node ? json_count(&map) : 0;
    if (n > PROMPTS_MAX)
        return json_err(&map, e, ERR_TOO_LARGE, "%zu prompts; %d can be", n, PROMPTS_MAX);
    p->name = xcalloc(n + 1, sizeof *p->name);
    p->text = xcalloc(n + 1, sizeof *p->text);
    if (map.node) {
        json_each(m, map)
        {
            if (put(p, &m, e))
                return -1;
        }
    }
    return read_usual(p, root, e);
}

int prompts_init(struct prompts *p, const char *dir, struct err *e)
{
    *p = (struct prompts){.n = 0};
    if (!path_exists(dir, file_name))
        return 0;
    char *path = path_join(dir, file_name);
    struct json_doc *doc = json_read(path, file_name, &json_rules_config, e);
    free(path);
    if (!doc)
        return -1;
    struct json root = json_root(doc);
    int rc = read_all(p, &root, e);
    json_free(doc);
    return rc;
}

void prompts_release(struct prompts *p)
{
    for (int32_t i = 0; i < p->n; i++) {
        free(p->name[i]);
        free(p->text[i]);
    }
    free(p->name);
    free(p->text);
    *p = (struct prompts){.n = 0};
}

const char *prompts_find(const struct prompts *p, const char *name)
{
    if (name)
        return find(p, name);
    return p->usual ? p->usual : "";
}
