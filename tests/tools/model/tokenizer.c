/* SPDX-License-Identifier: Apache-2.0
 *
 * A tokenizer for random models: one token for each byte, a few special ones, and a word for every
 * id that is left, so that whatever the model says can be decoded. For BERT: WordPiece over single
 * characters.
 */
#include <stdio.h>
#include <string.h>

#include "tests/tools/model/model.h"

#define MAX_BYTES (256 << 20)

static const char *const special[] = {"<|pad|>",    "<|bos|>",  "<|end|>",
                                      "<|system|>", "<|user|>", "<|assistant|>"};
static const char *const bert_special[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};

enum { N_SPECIAL = 6, N_BERT_SPECIAL = 5 };

static const char template_text[] =
    "{% for m in messages %}{{ '<|' + m['role'] + '|>' + m['content'] + '<|end|>\\\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}";

/* The character that stands for a byte in byte-level vocabularies: printable Latin-1 for itself,
 * the others from U+0100 on. */
static void put_byte_char(struct buf *b, int byte)
{
    int next = 256;
    for (int i = 0; i <= byte; i++) {
        bool shown = (i >= '!' && i <= '~') || (i >= 0xa1 && i <= 0xac) || (i >= 0xae && i <= 0xff);
        int code = shown ? i : next++;
        if (i < byte)
            continue;
        if (code == '"' || code == '\\')
            buf_char(b, '\\');
        if (code < 0x80) {
            buf_char(b, (char)code);
        } else {
            buf_char(b, (char)(0xc0 | code >> 6));
            buf_char(b, (char)(0x80 | (code & 0x3f)));
        }
    }
}

static void put_added(struct buf *b, const char *const *name, int n)
{
    buf_str(b, "\"added_tokens\": [");
    for (int i = 0; i < n; i++)
        buf_printf(b,
                   "%s\n{\"id\": %d, \"content\": \"%s\", \"single_word\": false, \"lstrip\": "
                   "false, \"rstrip\": false, \"normalized\": false, \"special\": true}",
                   i ? "," : "", i, name[i]);
    buf_str(b, "],\n");
}

static void put_byte_level(struct buf *b, int64_t n_vocab)
{
    const char *part = "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": "
                       "true, \"use_regex\": true}";
    buf_str(b, "{\n\"version\": \"1.0\", \"truncation\": null, \"padding\": null,\n");
    put_added(b, special, N_SPECIAL);
    buf_printf(b,
               "\"normalizer\": null,\n\"pre_tokenizer\": %s,\n\"post_processor\": null,\n"
               "\"decoder\": %s,\n",
               part, part);
    buf_str(b, "\"model\": {\"type\": \"BPE\", \"dropout\": null, \"unk_token\": null, "
               "\"continuing_subword_prefix\": null, \"end_of_word_suffix\": null, "
               "\"fuse_unk\": false, \"byte_fallback\": false, \"ignore_merges\": false,\n"
               "\"vocab\": {");
    for (int64_t id = 0; id < n_vocab; id++) {
        buf_str(b, id ? ",\n\"" : "\n\"");
        if (id < N_SPECIAL)
            buf_str(b, special[id]);
        else if (id < N_SPECIAL + 256)
            put_byte_char(b, (int)id - N_SPECIAL);
        else
            buf_printf(b, "\xc4\xa0w%lld", (long long)id);
        buf_printf(b, "\": %lld", (long long)id);
    }
    buf_str(b, "},\n\"merges\": []}\n}\n");
}

static void put_word_piece(struct buf *b, int64_t n_vocab)
{
    int64_t id = 0;
    buf_str(b, "{\n\"version\": \"1.0\", \"truncation\": null, \"padding\": null,\n");
    put_added(b, bert_special, N_BERT_SPECIAL);
    buf_str(b, "\"normalizer\": {\"type\": \"BertNormalizer\", \"clean_text\": true, "
               "\"handle_chinese_chars\": true, \"strip_accents\": null, \"lowercase\": true},\n"
               "\"pre_tokenizer\": {\"type\": \"BertPreTokenizer\"},\n"
               "\"post_processor\": {\"type\": \"BertProcessing\", \"sep\": [\"[SEP]\", 3], "
               "\"cls\": [\"[CLS]\", 2]},\n"
               "\"decoder\": {\"type\": \"WordPiece\", \"prefix\": \"##\", \"cleanup\": true},\n"
               "\"model\": {\"type\": \"WordPiece\", \"unk_token\": \"[UNK]\", "
               "\"continuing_subword_prefix\": \"##\", \"max_input_chars_per_word\": 100,\n"
               "\"vocab\": {");
    for (; id < N_BERT_SPECIAL && id < n_vocab; id++)
        buf_printf(b, "%s\n\"%s\": %lld", id ? "," : "", bert_special[id], (long long)id);
    for (int k = 0; k < 2; k++)
        for (int c = '!'; c <= '~' && id < n_vocab; c++, id++)
            buf_printf(b, ",\n\"%s%s%c\": %lld", k ? "##" : "", c == '"' || c == '\\' ? "\\" : "",
                       c, (long long)id);
    for (; id < n_vocab; id++)
        buf_printf(b, ",\n\"w%lld\": %lld", (long long)id, (long long)id);
    buf_str(b, "}}\n}\n");
}

int tokenizer_make(const char *dir, const struct config *c, struct err *e)
{
    struct buf b;
    bool is_bert = c->family == FAMILY_BERT;
    int64_t least = is_bert ? N_BERT_SPECIAL + 2 * 94 : N_SPECIAL + 256;
    if (c->n_vocab < least)
        return err_set(e, ERR_BAD_INPUT, "--vocab: a tokenizer needs %lld; or --no-tokenizer",
                       (long long)least);
    buf_init(&b, MAX_BYTES);
    if (is_bert)
        put_word_piece(&b, c->n_vocab);
    else
        put_byte_level(&b, c->n_vocab);
    int rc = text_put(dir, "tokenizer.json", &b, e);
    buf_clear(&b);
    if (is_bert)
        buf_str(
            &b,
            "{\"cls_token\": \"[CLS]\", \"sep_token\": \"[SEP]\", \"pad_token\": "
            "\"[PAD]\", \"unk_token\": \"[UNK]\", \"mask_token\": \"[MASK]\",\n\"tokenizer_class\": \"PreTrainedTokenizerFast\"}\n");
    else
        buf_printf(&b,
                   "{\"bos_token\": \"<|bos|>\", \"eos_token\": \"<|end|>\", \"pad_token\": "
                   "\"<|pad|>\", \"add_bos_token\": false,\n\"tokenizer_class\": "
                   "\"PreTrainedTokenizerFast\",\n\"chat_template\": \"%s\"}\n",
                   template_text);
    if (rc == 0)
        rc = text_put(dir, "tokenizer_config.json", &b, e);
    buf_release(&b);
    return rc;
}
