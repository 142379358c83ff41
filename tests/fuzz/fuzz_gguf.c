/* SPDX-License-Identifier: Apache-2.0
 *
 * A GGUF file: its head, its metadata as a model's config and tokenizer, and each tensor that
 * becomes a weight, read to its last number. The input is the file.
 */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/load/config.h"
#include "engine/load/gguf_config.h"
#include "engine/load/gguf_tokenizer.h"
#include "engine/load/weights.h"
#include "engine/token/tokenizer.h"
#include "tests/fuzz/fuzz.h"

/* Every tensor lies within the file, apart from the others. */
static void check_places(const struct gguf *g, size_t size)
{
    for (size_t i = 0; i < g->n_tensor; i++) {
        const struct gguf_tensor *t = &g->tensor[i];
        ASSERT(t->bytes <= size && t->begin <= size - t->bytes);
        ASSERT(gguf_tensor(g, t->name) == t && t->rank >= 1 && t->rank <= GGUF_MAX_RANK);
    }
}

/* A tokenizer asks Unicode for its classes. */
enum { TOKENIZER_ONE_IN = 32 };

static void read_texts(const struct gguf *g, const uint8_t *data, size_t size)
{
    struct err e = ERR_INIT;
    struct buf b;
    struct config c;
    buf_init(&b, 1 << 20);
    if (gguf_config_text(g, &b, &e) == 0 && config_parse(&c, b.data, b.len, "f", &e) == 0)
        ASSERT(c.n_layer > 0 && c.d_head > 0);
    buf_clear(&b);
    if (gguf_tokenizer_text(g, &b, &e) == 0 && fuzz_one_in(TOKENIZER_ONE_IN, data, size))
        tokenizer_free(tokenizer_parse(b.data, b.len, &e));
    buf_clear(&b);
    gguf_tokenizer_config_text(g, &b, &e);
    buf_release(&b);
}

static void read_weights(const char *path)
{
    struct err e = ERR_INIT;
    struct weights *w = weights_open_gguf(path, &e);
    static float row[1 << 16];
    for (size_t i = 0; w && i < weights_count(w); i++) {
        const struct weight *x = weights_at(w, i);
        bool is_coded = weight_coded(x) != K_F32 && x->t->rank == 2; /* in fewer bytes */
        for (int64_t r = 0; r < weight_rows(x) && weight_row_bytes(x) <= sizeof row; r++)
            if (weight_read(x, r, 1, row, &e) ||
                (is_coded && weight_read_coded(x, r, 0, weight_row_len(x), row, &e)))
                break;
    }
    weights_close(w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err e = ERR_INIT;
    char path[64];
    int fd = memfd_create("gguf", MFD_CLOEXEC);
    ASSERT(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    struct gguf *g = gguf_open(path, &e);
    if (g) {
        check_places(g, size);
        read_texts(g, data, size);
        read_weights(path);
    } else {
        ASSERT(e.code != ERR_NONE && e.msg[0]);
    }
    gguf_close(g);
    close(fd);
    return 0;
}
