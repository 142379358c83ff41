/* SPDX-License-Identifier: Apache-2.0
 *
 * Which token stands for bytes, where several do or none does.
 */
#include "engine/train/token_ids.h"

#include <string.h>

#include "tests/lib/test.h"

static const char json[] =
    "{\"added_tokens\":[{\"id\":5,\"content\":\"b\",\"special\":true},"
    "{\"id\":6,\"content\":\"<s>\",\"special\":true}],"
    "\"decoder\":{\"type\":\"Sequence\",\"decoders\":["
    "{\"type\":\"Replace\",\"pattern\":{\"String\":\"_\"},\"content\":\" \"},"
    "{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"}]},"
    "\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,\"merges\":[],\"vocab\":{\"<0x41>\":0,"
    "\"_a\":1,\" a\":2,\"A\":3,\"<0x0A>\":4,\"b\":5,\"<s>\":6,\"<0x5_>\":7,\"_\":8}}}";

/* Faults: the last of two tokens, or one that is special or a byte written out where another has
 * the same bytes; those left out, though there is no other; an id for no bytes. */
static void bytes_have_the_first_plain_token(void **state)
{
    static const struct {
        const char *bytes;
        int32_t id;
    } row[] = {{" a", 1}, {"A", 3}, {"\n", 4}, {"b", 5}, {"<s>", 6}, {" ", 8}, {"", -1}, {"c", -1}};
    struct err e = ERR_INIT;
    struct token_ids ids;
    (void)state;
    struct tokenizer *t = tokenizer_parse(json, strlen(json), &e);
    assert_good(t ? 0 : -1, &e);
    assert_good(token_ids_init(&ids, t, &e), &e);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        assert_int_equal(token_ids_get(&ids, row[i].bytes, strlen(row[i].bytes)), row[i].id);
    token_ids_release(&ids);
    tokenizer_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_have_the_first_plain_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
