/* SPDX-License-Identifier: Apache-2.0
 *
 * A plain text is one run of tokens that is cut; a row of training is its tokens as they would be
 * trained on.
 */
#include "clients/local/quantize_rows.h"

#include <string.h>

#include "api/train_row.h"
#include "engine/base/clock.h"
#include "engine/base/fs.h"
#include "engine/train/train_file.h"

enum { TEXT_BYTES_MAX = 256 << 20, TOKENS_MAX = 256 << 20 };

static const char built_in[] =
    "The river had been rising since Monday, and by the time the engineers reached the lower "
    "bridge there was nothing left to measure but the tops of the railings. They set up their "
    "instruments on the hill instead. \"Write down the time as well,\" said the older of the two, "
    "\"a level without a time is only a rumour.\" So they wrote: 14:05, three metres and twelve "
    "centimetres; 14:35, three metres and twenty; 15:05, three metres and nineteen. It was the "
    "first number in two days that was smaller than the one before it.\n\n"
    "A flood has a simple shape when it is drawn on paper. It climbs quickly, because water runs "
    "off wet fields almost as fast as the rain falls on them, and it sinks slowly, because what "
    "has soaked into the ground comes back for weeks. If the rain stops, the highest point can be "
    "predicted from the slope of the curve: the rise in the last hour is about half of the rise "
    "in the hour before, and a sum of halves has an end. If it does not stop, nothing can be "
    "predicted at all, except that the bridge will need new railings.\n\n"
    "To check such a prediction one needs a second station further up. Water takes time to travel; "
    "a wave that passes the mill at noon is in the town by four. The function is short:\n\n"
    "def arrival(distance_km, speed_kmh=5.5):\n"
    "    \"\"\"Hours until a wave that is seen upstream reaches the town.\"\"\"\n"
    "    if speed_kmh <= 0:\n"
    "        raise ValueError(\"a wave that does not move never arrives\")\n"
    "    return distance_km / speed_kmh\n\n"
    "In 1954 the same river stood forty centimetres higher, which is why the houses in the old "
    "street have their doors on the first floor. People who live there like to show visitors the "
    "marks on the wall, one above the other, each with its year. The newest is always the one "
    "that nobody believed would be needed.\n";

static int encode(struct quant_texts *t, const char *text, size_t n, const struct tokenizer *by,
                  int64_t length, struct err *e)
{
    struct tok_list l;
    tok_list_init(&l, TOKENS_MAX, false);
    int rc = tokenizer_encode(by, text, n, false, true, &l, e) ||
                     quant_texts_add(t, l.id, l.n, (size_t)length, e)
                 ? -1
                 : 0;
    tok_list_release(&l);
    return rc;
}

static int read_text(struct quant_texts *t, const char *path, const struct tokenizer *by,
                     int64_t length, struct err *e)
{
    struct buf text;
    buf_init(&text, TEXT_BYTES_MAX);
    int rc = fs_read(path, &text, e);
    if (!rc)
        rc = encode(t, text.data ? text.data : "", text.len, by, length, e);
    buf_release(&text);
    return rc;
}

static int read_lines(struct quant_texts *t, const char *path, const struct resident *on,
                      int64_t length, struct err *e)
{
    struct train_said said = {.unread = ""};
    const struct train_reader reader = {.fn = api_train_read, .ctx = &said};
    struct train_file f;
    struct dataset d;
    dataset_init(&d, &(struct dataset_options){.tokenizer = on->tokenizer,
                                               .template = on->template,
                                               .max_tok = length,
                                               .longer = DATASET_CUT,
                                               .now = clock_local_s(clock_wall_us() / 1000000),
                                               .end_id = on->dir.generation.eos,
                                               .n_end_id = on->dir.generation.n_eos});
    int rc = train_file_read(train_file_open(path, e), &reader, &d, &f, e);
    for (size_t i = 0; i < d.row.n && !rc; i++)
        rc = quant_texts_add(t, d.id.at + d.row.at[i].at, (size_t)d.row.at[i].n, (size_t)length, e);
    dataset_release(&d);
    return rc;
}

static bool has_lines(const char *path)
{
    size_t n = strlen(path);
    return n > 6 && strcmp(path + n - 6, ".jsonl") == 0;
}

int quantize_rows_read(struct quant_texts *t, const char *path, const struct resident *on,
                       int64_t length, int64_t cap, struct err *e)
{
    t->cap_tok = (size_t)cap;
    int rc = !path             ? encode(t, built_in, sizeof built_in - 1, on->tokenizer, length, e)
             : has_lines(path) ? read_lines(t, path, on, length, e)
                               : read_text(t, path, on->tokenizer, length, e);
    if (rc)
        return path ? err_wrap(e, "%s", path) : -1;
    return t->end.n ? 0
                    : err_set(e, ERR_BAD_INPUT, "%s: no row of two tokens or more",
                              path ? path : "the built-in text");
}
