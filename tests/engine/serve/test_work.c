/* SPDX-License-Identifier: Apache-2.0
 *
 * What a request holds. Catches: one that is taken though there is no memory for its answer.
 */
#include "tests/lib/test.h"

#include "engine/base/mem.h"
#include "engine/model/model.h"
#include "engine/serve/answer_write.h"
#include "engine/serve/work.h"
#include "tests/lib/tiny.h"

static void without_room_for_its_answer(void **state)
{
    static const int32_t prompt[] = {1, 2, 3};
    const struct gen_req r = {.kind = GEN_EMBED, .prompt = prompt, .n_prompt = 3};
    const struct config c = tiny_config(FAMILY_LLAMA);
    struct err e = ERR_INIT;
    struct model *model =
        model_new(&c, &(struct model_options){.type = -1, .kv_type = -1}, NULL, &e);
    assert_good(model ? 0 : -1, &e);
    struct work_model m = {.model = model, .n_vector = 8, .bell = answer_bell_new()};
    size_t before = mem_stat().now_bytes;
    (void)state;
    struct work *w = work_new(&m, &r, 0, NULL, &e);
    assert_good(w ? 0 : -1, &e);
    work_free(w);
    m.n_vector = (int64_t)1 << 50; /* more than any machine has addresses for */
    w = work_new(&m, &r, 0, NULL, &e);
    assert_null(w);
    assert_int_equal(e.code, ERR_NO_MEMORY);
    assert_int_equal(mem_stat().now_bytes, before);
    answer_bell_unref(m.bell);
    model_free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_room_for_its_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
