/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes a program. Everything is built from its end: a builder takes where to go on and gives back
 * where to begin, so that nothing is patched but rules and loops. Equal single bytes with one
 * continuation are one instruction, equal sets of characters one rule.
 *
 * Rules are numbered as they are made and may be called before they are given.
 *
 * Thread: one at a time.
 */
#ifndef ENGINE_GRAMMAR_BUILD_H
#define ENGINE_GRAMMAR_BUILD_H

#include "engine/base/map.h"
#include "engine/grammar/dfa.h"
#include "engine/grammar/program.h"

/* How a character is written: by itself, or between the quotes of JSON. */
enum spelling { SPELL_PLAIN, SPELL_JSON };

struct rule {
    uint32_t entry;   /* PROGRAM_FAIL until it is given */
    const char *name; /* for errors; borrowed, outlives the builder */
};

/* Where single bytes lead, before they are an instruction. */
struct fan {
    LIST(struct code_range) range;
};

struct build {
    struct budget *b;
    LIST(struct code) code;
    LIST(struct code_range) range;
    LIST(uint32_t) target;
    LIST(struct code_repeat) repeat;
    LIST(struct rule) rule;
    struct map known; /* contents of instructions and rules to their number + 1 */
};

void build_init(struct build *d, struct budget *b);
void build_release(struct build *d);

uint32_t build_byte(struct build *d, uint8_t lo, uint8_t hi, uint32_t next);
uint32_t build_text(struct build *d, const char *text, size_t len, uint32_t next);
/* As a text, or within the quotes of a JSON string. */
uint32_t build_spelt(struct build *d, enum spelling how, const char *text, size_t len,
                     uint32_t next);
uint32_t build_alt(struct build *d, const uint32_t *target, uint32_t n);
uint32_t build_either(struct build *d, uint32_t x, uint32_t y);
uint32_t build_repeat(struct build *d, uint32_t body, uint32_t min, uint32_t max, uint32_t next);
/* An alternative whose targets are given later: loops. */
uint32_t build_loop(struct build *d);
void build_loop_is(struct build *d, uint32_t loop, const uint32_t *target, uint32_t n);

uint32_t build_rule(struct build *d, const char *name);
void build_rule_is(struct build *d, uint32_t rule, uint32_t entry);
uint32_t build_call(struct build *d, uint32_t rule, uint32_t next);

void fan_add(struct build *d, struct fan *f, uint8_t lo, uint8_t hi, uint32_t to);
uint32_t fan_end(struct build *d, struct fan *f);

/* One character of the set; a part of what it does goes into the fan when there is one. */
uint32_t build_set(struct build *d, enum spelling how, const struct charset *s, struct fan *f,
                   uint32_t next);
uint32_t build_node(struct build *d, enum spelling how, const struct node *n, uint32_t next);
uint32_t build_dfa(struct build *d, enum spelling how, const struct dfa *a, uint32_t next);
/* Any of the texts. */
struct build_word {
    const char *text;
    size_t len;
};
uint32_t build_words(struct build *d, struct build_word *word, uint32_t n, uint32_t next);

/* The program that begins with the rule, checked and without what leads nowhere; NULL when the
 * budget has failed. */
struct grammar *build_end(struct build *d, uint32_t rule);

/* For build_end: -1 with the budget's error. */
int build_check(struct build *d, uint32_t start);

#endif
