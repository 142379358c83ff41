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

/* Faults: a field that changes answers and is passed over in silence; one at rest that is told; -1,
 * by which some mean no cut, that keeps a model from being opened. */
static void what_is_not_obeyed_is_named(void **state)
{
    (void)state;
    struct config c = {.n_eos = 0};
    struct generation g;
    struct err e = ERR_INIT;
    generation_default(&g, &c);
    const char *text = "{\"top_k\":-1,\"typical_p\":0.7,\"num_beams\":1,\"guidance_scale\":1.0,"
                       "\"bad_words_ids\":[],\"stop_strings\":null,\"token_healing\":false,"
                       "\"max_new_tokens\":2048,\"forced_eos_token_id\":null}";
    assert_good(generation_parse(&g, text, strlen(text), &e), &e);
    assert_true(g.top_k == 0 && g.typical_p == 0.7);
    assert_string_equal(g.ignored, "");
    text = "{\"num_beams\":4,\"suppress_tokens\":[7],\"stop_strings\":\"x\",\"top_h\":0.4,"
           "\"no_repeat_ngram_size\":3,\"token_healing\":true,\"min_length\":0,"
           "\"forced_bos_token_id\":0}";
    assert_good(generation_parse(&g, text, strlen(text), &e), &e);
    assert_string_equal(g.ignored, "forced_bos_token_id, no_repeat_ngram_size, num_beams, "
                                   "stop_strings, suppress_tokens, token_healing, top_h");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(advice_is_taken),
        cmocka_unit_test(what_is_not_obeyed_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
