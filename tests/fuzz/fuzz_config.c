/* SPDX-License-Identifier: Apache-2.0
 *
 * config.json, generation_config.json, tokenizer_config.json and an adapter's adapter_config.json:
 * the first byte of the input says which. A config that is taken must have shapes that nothing
 * downstream divides by zero with or multiplies past 64 bits.
 */
#include <math.h>
#include <string.h>

#include "engine/load/config.h"
#include "engine/load/generation.h"
#include "engine/load/peft.h"
#include "engine/load/tokenizer_config.h"
#include "tests/fuzz/fuzz.h"

static void check_config(const struct config *c)
{
    ASSERT(c->n_vocab > 0 && c->n_layer > 0 && c->d_model > 0 && c->d_ff > 0 && c->max_pos > 0);
    ASSERT(c->n_head > 0 && c->n_kv_head > 0 && c->d_head > 0);
    ASSERT(c->n_head % c->n_kv_head == 0 && c->n_layer <= CONFIG_LAYER_MAX);
    ASSERT(c->window >= 0 && c->n_eos <= CONFIG_EOS_MAX);
    ASSERT(c->norm_eps >= 0 && c->norm_eps < 1);
    if (c->has_rope)
        ASSERT(c->d_head % 2 == 0 && c->rope.theta > 0 && c->rope.n_factor <= c->d_head / 2);
}

static void try_config(const char *text, size_t size)
{
    struct config c;
    struct err e = ERR_INIT;
    if (config_parse(&c, text, size, "config.json", &e) == 0)
        check_config(&c);
}

static void try_generation(const char *text, size_t size)
{
    struct config c = {.bos = -1, .pad = -1};
    struct generation g;
    struct err e = ERR_INIT;
    generation_default(&g, &c);
    if (generation_parse(&g, text, size, &e) == 0)
        ASSERT(g.top_p >= 0 && g.top_p <= 1 && g.temperature >= 0 && g.n_eos <= CONFIG_EOS_MAX);
}

static void try_tokenizer_config(const char *text, size_t size)
{
    struct tokenizer_config t;
    struct err e = ERR_INIT;
    if (tokenizer_config_parse(&t, text, size, &e))
        return;
    for (int i = 0; i < t.n_template; i++)
        ASSERT(tokenizer_config_template(&t, t.template[i].name));
    tokenizer_config_release(&t);
}

static void try_peft(const char *text, size_t size)
{
    static const char *const module[] = {"model.layers.1.self_attn.q_proj", "c_attn", "", ".1."};
    struct peft p;
    struct err e = ERR_INIT;
    if (peft_parse(&p, text, size, &e))
        return;
    for (int i = 0; i < 4; i++) {
        int64_t rank = peft_rank(&p, module[i]);
        ASSERT(rank >= 1 && rank <= PEFT_RANK_MAX && isfinite(peft_scale(&p, module[i])));
        (void)peft_claim(&p, module[i]);
    }
    peft_release(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const char *text = (const char *)data + 1;
    if (data[0] == 'g')
        try_generation(text, size - 1);
    else if (data[0] == 't')
        try_tokenizer_config(text, size - 1);
    else if (data[0] == 'p')
        try_peft(text, size - 1);
    else
        try_config(text, size - 1);
    return 0;
}
