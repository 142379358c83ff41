/* SPDX-License-Identifier: Apache-2.0
 *
 * engine/load/generation: what a model's makers advise.
 */
#include <string.h>

#include "engine/load/generation.h"
#include "tests/lib/test.h"

/* Fault: the file's advice is not taken, or a value out of range is. */
static void advice_is_taken(void **state)
{
    (void)state;
    struct config c = {.n_eos = 1, .eos = {2}};
    struct generation g;
    struct err e = ERR_INIT;
    generation_default(&g, &c);
    assert_true(g.n_eos == 1 && g.eos[0] == 2 && g.temperature == 1 && !g.do_sample);
    const char *text = "{\"eos_token_id\":[3,4],\"do_sample\":true,\"temperature\":0.6,"
                       "\"top_p\":0.9,\"top_k\":40,\"min_p\":null,\"_from_model_config\":true}";
    assert_good(generation_parse(&g, text, strlen(text), &e), &e);
    assert_true(g.n_eos == 2 && g.eos[1] == 4 && g.do_sample && g.temperature == 0.6 &&
                g.top_p == 0.9 && g.top_k == 40 && g.min_p == 0 && g.repetition_penalty == 1);
    text = "{\"top_p\":1.5}";
    assert_err(generation_parse(&g, text, strlen(text), &e), &e, ERR_BAD_INPUT,
               "generation_config.json: top_p: expected a number from 0 to 1, found 1.5");
    text = "{\"temperature\":1e999}";
    assert_err(generation_parse(&g, text, strlen(text), &e), &e, ERR_BAD_INPUT, "temperature");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(advice_is_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
