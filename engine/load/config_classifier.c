/* SPDX-License-Identifier: Apache-2.0
 *
 * What config.json says of a model that labels texts (...ForSequenceClassification): how many
 * labels there are, and what their numbers are shown through. The maker's word for a reranker's
 * score (sentence_transformers.activation_fn, or what it was called before) goes before
 * problem_type; a model that says nothing has a sigmoid for one label and a softmax over several.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/load/config_traits.h"
#include "engine/load/json.h"
#include "engine/load/labels.h"
#include "engine/load/path.h"

/* By the name of the class that computes it. */
static int parse_activation(struct config *c, const struct json *v, bool *is_there, struct err *e)
{
    static const struct {
        const char *name;
        enum config_scores scores;
    } row[] = {{"Identity", SCORES_PLAIN}, {"Sigmoid", SCORES_SIGMOID}};
    const char *name;
    if (json_absent(v))
        return 0;
    if (json_as_str(v, &name, e))
        return -1;
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++)
        if (strcmp(dot ? dot + 1 : name, row[i].name) == 0)
            return c->scores = row[i].scores, *is_there = true, 0;
    return json_err(v, e, ERR_UNSUPPORTED, "'%.80s' is not supported; Identity and Sigmoid are",
                    name);
}

static int parse_problem(struct config *c, const struct json *root, struct err *e)
{
    static const struct {
        const char *name;
        enum config_scores scores;
    } row[] = {{"regression", SCORES_PLAIN},
               {"single_label_classification", SCORES_SOFTMAX},
               {"multi_label_classification", SCORES_SIGMOID}};
    struct json m = json_member(root, "problem_type");
    const char *name;
    c->scores = c->n_label == 1 ? SCORES_SIGMOID : SCORES_SOFTMAX;
    if (json_absent(&m))
        return 0;
    if (json_as_str(&m, &name, e))
        return -1;
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        if (strcmp(name, row[i].name) != 0)
            continue;
        c->is_regression = i == 0;
        if (row[i].scores != SCORES_SOFTMAX || c->n_label > 1)
            c->scores = row[i].scores;
        return 0;
    }
    return json_err(&m, e, ERR_UNSUPPORTED,
                    "'%.40s' is not supported; regression, single_label_classification and "
                    "multi_label_classification are",
                    name);
}

static int parse_scores(struct config *c, const struct json *root, struct err *e)
{
    struct json said = {.node = NULL}, m;
    bool is_there = false;
    if (json_opt(root, "sentence_transformers", JSON_OBJECT, &said, e))
        return -1;
    m = said.node ? json_member(&said, "activation_fn") : said;
    if (parse_activation(c, &m, &is_there, e))
        return -1;
    m = json_member(root, "sbert_ce_default_activation_function");
    if (!is_there && parse_activation(c, &m, &is_there, e))
        return -1;
    return is_there ? 0 : parse_problem(c, root, e);
}

int config_classifier_parse(struct config *c, const struct json *root, struct err *e)
{
    struct labels l;
    int rc = labels_init(&l, root, e);
    c->n_label = l.n;
    labels_release(&l);
    c->is_encoder = true;
    if (c->classifier != CLASSIFIER_NORMED) /* which says it itself */
        c->pool = c->classifier == CLASSIFIER_BARE ? POOL_LAST : POOL_CLS;
    c->normalizes = false;
    return rc || parse_scores(c, root, e) ? -1 : 0;
}

/* Later files say it beside config.json, and that goes first. */
int config_classifier_load(struct config *c, const char *dir, struct err *e)
{
    const char *name = "config_sentence_transformers.json";
    bool is_there = false;
    if (!path_exists(dir, name))
        return 0;
    char *path = path_join(dir, name);
    struct json_doc *doc = json_read(path, name, &json_rules_config, e);
    free(path);
    if (!doc)
        return -1;
    struct json root = json_root(doc), m = json_member(&root, "activation_fn");
    int rc = json_want(&root, JSON_OBJECT, e) || parse_activation(c, &m, &is_there, e) ? -1 : 0;
    json_free(doc);
    return rc;
}

int64_t config_vector_cols(const struct config *c)
{
    if (c->n_dense)
        return c->dense[c->n_dense - 1].n;
    return c->classifier ? c->n_label : c->d_model;
}
