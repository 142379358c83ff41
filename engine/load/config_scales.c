/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers of config.json that values are multiplied with, or bounded by, on their way through a
 * model.
 */
#include <math.h>
#include <string.h>

#include "engine/load/config_traits.h"
#include "engine/load/json.h"
#include "kernels/float16.h"

/* A number that is finite and not 0; `*out` stays where it is absent. */
static int factor(const struct json *root, const char *key, double *out, struct err *e)
{
    struct json m = json_member(root, key);
    if (json_opt_num(root, key, out, e))
        return -1;
    if (*out == 0)
        return json_err(&m, e, ERR_BAD_INPUT, "expected a number other than 0");
    return 0;
}

/* Granite's. The absent attention_multiplier is 1, as in its class, and not 1 / sqrt(head). */
static int parse_multipliers(struct config *c, const struct json *root, struct err *e)
{
    double divisor = 1;
    c->attn_scale = 1;
    if (factor(root, "embedding_multiplier", &c->embed_scale, e) ||
        factor(root, "residual_multiplier", &c->residual_scale, e) ||
        factor(root, "attention_multiplier", &c->attn_scale, e) ||
        factor(root, "logits_scaling", &divisor, e))
        return -1;
    c->logit_scale = 1 / divisor;
    return 0;
}

/* A bound above 0; null and, where the class has none, absent: none. */
static int cap(const struct json *root, const char *key, double by_default, double *out,
               struct err *e)
{
    struct json m = json_member(root, key);
    if (!m.node)
        *out = by_default;
    if (json_absent(&m))
        return 0;
    if (json_as_num(&m, out, e))
        return -1;
    return *out > 0 ? 0
                    : json_err(&m, e, ERR_BAD_INPUT, "expected a number above 0, found %g", *out);
}

double config_round_scale(const struct config *c, double scale)
{
    return c->is_bf16 ? (double)bf16_to_f32(bf16_from_f32((float)scale)) : scale;
}

static void scale_by_width(struct config *c)
{
    c->embed_scale = config_round_scale(c, sqrt((double)c->d_model));
}

/* Queries and keys are normed, and their products taken as they are. */
static int parse_bare(struct config *c, const struct json *root, double logit_cap, struct err *e)
{
    c->attn_scale = 1;
    scale_by_width(c);
    return cap(root, "final_logit_softcapping", logit_cap, &c->logit_cap, e);
}

/* Gemma's. */
static int parse_query_scale(struct config *c, const struct json *root, struct err *e)
{
    double scalar = 256;
    struct json m = json_member(root, "query_pre_attn_scalar");
    if (json_opt_num(root, "query_pre_attn_scalar", &scalar, e))
        return -1;
    if (!(scalar > 0))
        return json_err(&m, e, ERR_BAD_INPUT, "expected a number above 0, found %g", scalar);
    c->attn_scale = 1 / sqrt(scalar);
    scale_by_width(c);
    return 0;
}

int config_scales_parse(struct config *c, const struct json *root, struct err *e)
{
    unsigned obeys = config_traits_of(c)->obeys;
    if ((obeys & OBEYS_QUERY_SCALE) && parse_query_scale(c, root, e))
        return -1;
    if ((obeys & OBEYS_CAPS) && (cap(root, "attn_logit_softcapping", 50, &c->attn_cap, e) ||
                                 cap(root, "final_logit_softcapping", 30, &c->logit_cap, e)))
        return -1;
    if ((obeys & (OBEYS_GEMMA4 | OBEYS_TRACKS)) &&
        parse_bare(c, root, obeys & OBEYS_TRACKS ? 30 : 0, e))
        return -1;
    return obeys & OBEYS_MULTIPLIERS ? parse_multipliers(c, root, e) : 0;
}
