/* SPDX-License-Identifier: Apache-2.0
 *
 * Schemas: texts that each keyword admits and refuses, what is refused with its path, and what is
 * hostile within its bounds. Texts made at random are held to an independent validator by
 * test_schemas.py.
 */
#include "tests/lib/test.h"

#include <stdio.h>
#include <stdlib.h>

#include "engine/base/buf.h"
#include "engine/base/clock.h"
#include "tests/engine/grammar/run.h"
#include "tests/lib/jvalue_json.h"
#include "tests/lib/own_arena.h"

static struct grammar *compiled(const char *text, size_t len, struct err *e)
{
    struct jvalue v;
    assert_good(test_jvalue_parse(&own_arena, text, len, &v, e), e);
    return grammar_schema(&v, false, NULL, e);
}

/* Texts behind a + must match, those behind a - must not; each ends with a newline. */
static void check(const char *schema, const char *texts)
{
    struct err e = ERR_INIT;
    struct grammar *g = compiled(schema, strlen(schema), &e);
    if (!g)
        fail_msg("%s: %s", schema, e.msg);
    for (const char *p = texts; *p;) {
        size_t len = strcspn(p + 1, "~");
        bool matched = verdict_of(g, p + 1, len) == MATCHES;
        if (matched != (*p == '+'))
            fail_msg("%s: %.*s is %s", schema, (int)len, p + 1, matched ? "admitted" : "refused");
        p += len + 1 + (p[len + 1] == '~');
    }
    grammar_unref(g);
}

static void test_values(void **state)
{
    (void)state;
    check("{}",
          "+1~+\"a\"~+{\"a\": [1, {\"b\": null}]}~+[]~+{}~-~-{\"a\":}~-[1,]~-nul~-01~+-0.5e+3");
    check("true", "+null");
    check("{\"type\": [\"null\", \"boolean\"]}", "+null~+true~+false~-1");
    check("{\"type\": \"integer\"}", "+0~+-12~-1.5~-01~-1e3");
    check("{\"const\": {\"a\": [1, 2.5, \"x\\n\\u00e9\"]}}",
          "+{\"a\": [1, 2.5, \"x\\n\xc3\xa9\"]}~-{}");
    check("{\"enum\": [\"a\", 1, null, true, 1.5]}", "+\"a\"~+1~+null~+true~+1.5~-2~-\"b\"");
    check("{\"type\": \"string\", \"enum\": [\"a\", 1, \"bb\"], \"maxLength\": 1}",
          "+\"a\"~-1~-\"bb\"");
    check("{\"type\": \"string\", \"nullable\": true}", "+null~+\"\"~-1");
}

static void test_numbers(void **state)
{
    (void)state;
    check("{\"type\": \"integer\", \"minimum\": -3, \"maximum\": 120}",
          "+-3~+4~+0~+9~+10~+99~+100~+119~+120~-121~-200~-1000~--4~--0~+-1~-+1~-00");
    check("{\"type\": \"integer\", \"minimum\": 17, \"exclusiveMaximum\": 2000}",
          "+17~-16~-2~+20~+99~+100~+1999~-2000~-9999");
    check("{\"type\": \"number\", \"minimum\": 0, \"maximum\": 1}",
          "+0~+1~+0.5~+1.0~+0.999~-1.001~--0.1~-2~-1e0");
    check("{\"type\": \"number\", \"exclusiveMinimum\": 0, \"maximum\": 2.25}",
          "-0~-0.0~+0.0001~+2.25~+2.250~+2.2~-2.26~-2.2501~-3~+1~-10");
    check("{\"type\": \"number\", \"minimum\": -90.5, \"exclusiveMaximum\": -1.05}",
          "+-90.5~-90~+-90~--90.51~--1.05~+-1.06~+-1.0501~--1~--1.0~+-2~+-10~-5");
    check("{\"type\": \"integer\", \"multipleOf\": 7, \"minimum\": 8, \"maximum\": 50}",
          "+14~-7~+49~-50~-15");
    check("{\"type\": \"number\", \"multipleOf\": 0.01}", "+1.25~+3~-1.255~+-0.5");
    check("{\"type\": \"number\", \"multipleOf\": 0.25}", "+1.25~+3~+0.5~-0.3~-1.~-0.251~+-0.75");
    check("{\"type\": \"integer\", \"multipleOf\": 1.5}", "+3~-2~+0~-1.5~+-9");
    /* few states, for the last digits say it, or the bounds leave few numbers */
    check("{\"type\": \"integer\", \"multipleOf\": 10000}",
          "+0~+10000~+-20000~+123450000~+999999999990000~-1000~-10001~-100005000");
    check("{\"type\": \"integer\", \"multipleOf\": 86400}",
          "+86400~+172800~+-864000~-86401~-86500");
    check("{\"type\": \"integer\", \"multipleOf\": 65536}",
          "+65536~+4294967296~-65537~-4294967297");
    check("{\"type\": \"number\", \"multipleOf\": 6.25}",
          "+6.25~+12.5~+12.50~-12.6~-6~+-100~-100.05");
    check("{\"type\": \"integer\", \"multipleOf\": 9973, \"minimum\": 0, \"maximum\": 99999}",
          "+0~+9973~+99730~-9974~-109703");
    check("{\"type\": \"number\", \"multipleOf\": 7.999, \"minimum\": 0, \"maximum\": 9}",
          "+7.999~-8~-7.998");
    /* as fine as a multiple may be */
    check("{\"type\": \"number\", \"multipleOf\": 0.000000000000001}",
          "+1.5~+0.000000000000001~-0.0000000000000001");
    check("{\"type\": \"integer\", \"minimum\": -9007199254740993}", "+-12~+99");
    /* read as doubles, these are the bounds themselves */
    check("{\"type\": \"number\", \"exclusiveMinimum\": 1.32}", "-1.3200000000000001~+1.320001");
    check("{\"type\": \"number\", \"exclusiveMaximum\": -2.4429999999999996}",
          "--2.44299999999999961~+-2.443~--2.4429999999999996");
}

static void test_strings(void **state)
{
    (void)state;
    check("{\"type\": \"string\", \"minLength\": 2, \"maxLength\": 3}",
          "-\"a\"~+\"ab\"~+\"a\\n\xf0\x9f\x98\x80\"~-\"abcd\"~+\"\\ud83d\\ude00b\"~-\"\\ud83d\"");
    check("{\"type\": \"string\", \"pattern\": \"^[a-z]+$\"}", "+\"abc\"~-\"\"~-\"aB\"");
    check("{\"type\": \"string\", \"pattern\": \"^(ab)+$\", \"maxLength\": 20000000}",
          "+\"abab\"~-\"aba\"");
    check("{\"type\": \"string\", \"pattern\": \"^\\\\cJ[\\\\ci]$\"}",
          "+\"\\n\\t\"~-\"\\n\\n\"~-\"cJci\"");
    check("{\"type\": \"string\", \"pattern\": \"b+\"}", "+\"abc\"~-\"ac\"~+\"b\"");
    check("{\"type\": \"string\", \"pattern\": \"^[a-z\\\"\\\\\\\\]+$\", \"maxLength\": 3}",
          "+\"a\\\"\\\\\"~-\"abcd\"~-\"\"");
    check("{\"type\": \"string\", \"pattern\": \"^(ab)+$\", \"maxLength\": 5, \"minLength\": 3}",
          "-\"ab\"~+\"abab\"~-\"ababab\"");
    check("{\"allOf\": [{\"type\": \"string\", \"pattern\": \"a\"}, {\"pattern\": \"^.b\"}]}",
          "+\"ab\"~+\"cba\"~-\"cb\"~-\"ba\"");
    check("{\"type\": \"string\", \"format\": \"date\"}",
          "+\"2024-02-29\"~-\"2023-02-29\"~+\"1999-12-31\"~-\"1999-13-01\"~-\"1999-04-31\"");
    check("{\"type\": \"string\", \"format\": \"uuid\"}",
          "+\"123e4567-e89b-12d3-a456-426614174000\"~-\"123e4567\"");
    check("{\"type\": \"string\", \"format\": \"ipv4\"}",
          "+\"127.0.0.1\"~-\"256.0.0.1\"~-\"1.2.3\"");
    check("{\"type\": \"string\", \"format\": \"ipv6\"}",
          "+\"::1\"~+\"1:2:3:4:5:6:7:8\"~+\"fe80::1:2\"~-\"1::2::3\"");
    check("{\"type\": \"string\", \"format\": \"date-time\"}",
          "+\"2024-02-29T23:59:59Z\"~-\"2024-02-29\"");
    check("{\"type\": \"string\", \"format\": \"email\"}",
          "+\"a.b@example.org\"~-\"a@\"~-\"@b.org\"");
    check("{\"type\": \"string\", \"not\": {\"enum\": [\"a\", \"b\"]}}", "-\"a\"~+\"c\"~+\"ab\"");
}

static void test_arrays(void **state)
{
    (void)state;
    check(
        "{\"type\": \"array\", \"items\": {\"type\": \"integer\"}, \"minItems\": 1, \"maxItems\": 3}",
        "-[]~+[1]~+[1, 2,3]~-[1,2,3,4]~-[\"a\"]~+[\n  1,\n  2\n]~-[1 ,2]");
    check(
        "{\"type\": \"array\", \"prefixItems\": [{\"const\": 1}, {\"const\": 2}], \"items\": false}",
        "+[]~+[1]~+[1, 2]~-[1, 2, 3]~-[2]");
    check("{\"type\": \"array\", \"prefixItems\": [{\"const\": 1}], \"items\": {\"const\": \"x\"}, "
          "\"minItems\": 2, \"maxItems\": 3}",
          "-[1]~+[1, \"x\"]~+[1, \"x\", \"x\"]~-[1, \"x\", \"x\", \"x\"]~-[\"x\", \"x\"]");
    check(
        "{\"type\": \"array\", \"items\": {\"enum\": [\"a\", \"b\", \"c\"]}, \"uniqueItems\": true, "
        "\"minItems\": 1, \"maxItems\": 2}",
        "+[\"a\"]~+[\"a\", \"c\"]~-[\"a\", \"a\"]~-[]~-[\"a\", \"b\", \"c\"]~+[\"b\", \"c\"]");
    check("{\"type\": \"array\", \"maxItems\": 0}", "+[]~-[1]");
    /* an enum may list one value twice */
    check("{\"type\": \"array\", \"items\": {\"enum\": [1, 1.0, 2]}, \"uniqueItems\": true}",
          "+[1,2]~-[1,1.0]~-[1,1]");
    check("{\"type\": \"array\", \"items\": {\"type\": \"boolean\"}, \"uniqueItems\": true}",
          "+[true,false]~-[true,true]~+[]");
}

static void test_objects(void **state)
{
    (void)state;
    check("{\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"integer\"}, \"b\": {}, "
          "\"c\": {\"type\": \"null\"}}, \"required\": [\"b\"]}",
          "+{\"b\": 1}~+{\"a\": 1, \"b\": [], \"c\": null}~-{\"a\": 1}~-{\"b\": 1, \"a\": 1}~-{}~"
          "-{\"b\": 1, \"d\": 2}~+{\"b\":1,\"c\":null}~-{,\"b\":1}~-{\"b\":1,}");
    check(
        "{\"type\": \"object\", \"properties\": {\"a\": {}}, \"additionalProperties\": {\"type\": "
        "\"integer\"}}",
        "+{}~+{\"a\": \"x\"}~+{\"a\": \"x\", \"b\": 1}~+{\"b\": 1, \"c\": 2}~-{\"b\": \"x\"}~"
        "-{\"b\": 1, \"a\": 2}~+{\"ab\": 1}");
    check(
        "{\"type\": \"object\", \"patternProperties\": {\"^x\": {\"const\": 1}, \"y$\": {\"type\": "
        "\"integer\"}}, \"additionalProperties\": false}",
        "+{\"x\": 1}~-{\"x\": 2}~+{\"ay\": 2}~-{\"xy\": 2}~+{\"xy\": 1}~-{\"z\": 1}");
    check("{\"type\": \"object\", \"properties\": {\"a\": {}, \"b\": {}, \"c\": {}}, "
          "\"minProperties\": 1, \"maxProperties\": 2}",
          "-{}~+{\"a\": 1}~+{\"b\": 1, \"c\": 1}~-{\"a\": 1, \"b\": 1, \"c\": 1}");
    check("{\"type\": \"object\", \"additionalProperties\": {\"const\": 1}, \"minProperties\": 1, "
          "\"maxProperties\": 2}",
          "-{}~+{\"a\": 1}~+{\"a\": 1, \"b\": 1}~-{\"a\": 1, \"b\": 1, \"c\": 1}");
    check(
        "{\"type\": \"object\", \"propertyNames\": {\"pattern\": \"^[a-c]+$\", \"maxLength\": 2}, "
        "\"additionalProperties\": {\"const\": 1}}",
        "+{\"ab\": 1}~-{\"d\": 1}~-{\"abc\": 1}");
    check("{\"type\": \"object\", \"required\": [\"q\\\"\"]}", "+{\"q\\\"\": 1}~-{}");
    check("{\"type\": \"object\", \"properties\": {\"a\": {}, \"b\": {}}, "
          "\"dependentRequired\": {\"a\": [\"b\"]}}",
          "+{}~+{\"b\": 1}~-{\"a\": 1}~+{\"a\": 1, \"b\": 1}");
    check("{\"type\": \"object\"}", "+{}~+{\"x\": {}}~-[]");
}

static void test_together(void **state)
{
    (void)state;
    check(
        "{\"$defs\": {\"tree\": {\"type\": \"object\", \"properties\": {\"v\": {\"type\": \"integer\"}, "
        "\"kids\": {\"type\": \"array\", \"items\": {\"$ref\": \"#/$defs/tree\"}}}, \"required\": "
        "[\"v\"]}}, \"$ref\": \"#/$defs/tree\"}",
        "+{\"v\": 1}~+{\"v\": 1, \"kids\": [{\"v\": 2, \"kids\": []}]}~-{\"v\": 1, \"kids\": [{}]}");
    check(
        "{\"allOf\": [{\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"integer\"}}, "
        "\"required\": [\"a\"]}, {\"properties\": {\"a\": {\"minimum\": 5}, \"b\": {\"const\": 1}}}]}",
        "+{\"a\": 5}~-{\"a\": 4}~+{\"a\": 5, \"b\": 1}~-{}");
    check("{\"anyOf\": [{\"type\": \"integer\"}, {\"type\": \"string\", \"maxLength\": 1}]}",
          "+1~+\"a\"~-\"ab\"~-null");
    check(
        "{\"oneOf\": [{\"type\": \"object\", \"properties\": {\"k\": {\"const\": \"a\"}, \"x\": {\"type\": "
        "\"integer\"}}, \"required\": [\"k\", \"x\"]}, {\"type\": \"object\", \"properties\": {\"k\": "
        "{\"const\": \"b\"}}, \"required\": [\"k\"]}]}",
        "+{\"k\": \"a\", \"x\": 1}~+{\"k\": \"b\"}~-{\"k\": \"a\"}");
    check(
        "{\"type\": \"object\", \"properties\": {\"k\": {\"enum\": [\"a\", \"b\"]}, \"x\": {\"type\": "
        "\"integer\"}}, \"required\": [\"k\"], \"if\": {\"properties\": {\"k\": {\"const\": \"a\"}}}, "
        "\"then\": {\"required\": [\"x\"]}}",
        "+{\"k\": \"a\", \"x\": 1}~-{\"k\": \"a\"}~+{\"k\": \"b\"}~+{\"k\": \"b\", \"x\": 2}");
    check("{\"type\": [\"string\", \"integer\"], \"minimum\": 3, \"minLength\": 2}",
          "+3~-2~+\"ab\"~-\"a\"");
    check("{\"$ref\": \"#/definitions/a~1b%25\", \"definitions\": {\"a/b%\": {\"const\": 1}}}",
          "+1~-2");
    check("{\"$ref\": \"#here\", \"$defs\": {\"x\": {\"$anchor\": \"here\", \"const\": 1}}}", "+1");
    check("{\"x-order\": 3, \"madeUp\": [], \"title\": \"t\", \"const\": 1}", "+1");
}

/* Faults: a negation that admits what it should not, alternatives that both hold, more of them than
 * there may be. */
static void test_negated(void **state)
{
    (void)state;
    check("{\"type\": \"object\", \"oneOf\": [{\"required\": [\"a\"]}, {\"required\": [\"b\"]}], "
          "\"properties\": {\"a\": {}, \"b\": {}}}",
          "+{\"a\":1}~+{\"b\":1}~-{\"a\":1,\"b\":1}~-{}");
    check("{\"type\": \"integer\", \"oneOf\": [{\"minimum\": 1}, {\"maximum\": 5}]}", "+6~+0~-3");
    check("{\"type\": \"object\", \"properties\": {\"a\": {}, \"b\": {}}, \"not\": {\"required\": "
          "[\"a\", \"b\"]}}",
          "+{\"a\":1}~+{}~+{\"b\":1}~-{\"a\":1,\"b\":1}");
    check("{\"not\": {\"type\": \"object\", \"required\": [\"a\"]}}",
          "+1~+{}~-{\"a\":1}~+{\"b\":1}");
    /* a tag that is not required, and one list of alternatives in another */
    check(
        "{\"oneOf\": [{\"$ref\": \"#/$defs/ab\"}, {\"type\": \"object\", \"properties\": {\"t\": {\"const\": "
        "\"c\"}}}], \"$defs\": {\"ab\": {\"oneOf\": [{\"type\": \"object\", \"properties\": {\"t\": {\"const\": "
        "\"a\"}}}, {\"type\": \"object\", \"properties\": {\"t\": {\"const\": \"b\"}}}]}}}",
        "+{\"t\":\"a\"}~+{\"t\":\"b\"}~+{\"t\":\"c\"}~-{}~-{\"t\":\"d\"}");
    check("{\"type\": \"string\", \"not\": {\"minLength\": 2, \"maxLength\": 3}}",
          "+\"a\"~-\"ab\"~-\"abc\"~+\"abcd\"");
    check("{\"not\": {\"anyOf\": [{\"type\": \"string\"}, {\"type\": \"null\"}]}}",
          "+1~-null~-\"\"");
    check("{\"type\": \"string\", \"pattern\": \"^(?=.*[A-Z])(?!No)\\\\w{2,3}$\"}",
          "+\"aB\"~-\"ab\"~-\"Noa\"~+\"NaB\"~-\"aBcd\"");
    /* three ways each, of which not all are combined */
    char many[2000] = "{\"not\": {\"anyOf\": [";
    for (int i = 0; i < 12; i++) {
        size_t n = strlen(many);
        snprintf(many + n, sizeof many - n,
                 "{\"type\": \"object\", \"required\": [\"a%d\", \"b%d\"]}%s", i, i,
                 i < 11 ? ", " : "]}}");
    }
    check(many, "+1~+\"x\"~-{\"a0\":1,\"b0\":1}~-{\"a11\":1,\"b11\":1}");
    /* what our own keywords are called is no text that a client can write */
    check("{\"\\u0001forbid\": 3, \"\\u0001and\": 3, \"\\u0001values\": [1], \"const\": 1}", "+1");
    check("{\"type\\u0000\": \"string\", \"const\": 1}", "+1");
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *schema, *words;
    } row[] = {
        {"{\"properties\": {\"a\": {\"contains\": {}}}}", "#/properties/a/contains"},
        {"{\"type\": \"strin\"}", "#/type"},
        {"{\"minlength\": 3}", "minLength is"},
        {"{\"items\": {\"$ref\": \"http://x/y\"}}", "#/items/$ref"},
        {"{\"$ref\": \"#/nope\"}", "names nothing"},
        {"{\"$ref\": \"#\"}", "back to itself"},
        {"{\"$defs\": {\"a\": {\"$ref\": \"#/$defs/b\"}, \"b\": {\"$ref\": \"#/$defs/a\"}}, \"$ref\": "
         "\"#/$defs/a\"}",
         "back to itself"},
        {"{\"allOf\": [{\"$ref\": \"#\"}]}", "back to itself"},
        {"{\"type\": \"string\", \"format\": \"cron\"}", "#/format: cron"},
        {"{\"oneOf\": [{\"format\": \"date\"}, {\"format\": \"time\"}]}",
         "#/oneOf: alternatives 0 and 1"},
        {"{\"not\": {\"$ref\": \"#/$defs/a\"}, \"$defs\": {\"a\": {\"anyOf\": [{\"$ref\": "
         "\"#/$defs/a\"}]}}}",
         "#/not"}, /* leads to itself below the negation */
        {"{\"$defs\": {\"a\": {\"$id\": \"x\", \"$ref\": \"#/$defs/b\"}, \"b\": {}}, \"$ref\": "
         "\"#/$defs/a\"}",
         "#/$defs/a/$ref: below an $id"},
        {"{\"anyOf\": [{\"$id\": \"x\", \"$ref\": \"#/$defs/b\"}], \"$defs\": {\"b\": {}}}",
         "#/anyOf/0/$ref: below an $id"},
        {"{\"type\": \"array\", \"items\": {\"type\": \"string\"}, \"uniqueItems\": true}",
         "#/uniqueItems"},
        {"{\"type\": \"string\", \"pattern\": \"(?=a)\"}", "#/pattern: the regex at byte"},
        {"{\"type\": \"string\", \"pattern\": \"^a$\", \"minLength\": 2}", "no text can satisfy"},
        {"{\"type\": \"object\", \"properties\": {\"a\": false}, \"required\": [\"a\"]}",
         "no text"},
        {"{\"not\": {\"format\": \"date\"}}", "#/not"},
        {"{\"type\": \"number\", \"multipleOf\": 1.23456}", "#/multipleOf"},
        {"{\"type\": \"number\", \"multipleOf\": 8.001}", "#/multipleOf"},
        {"{\"type\": \"integer\", \"multipleOf\": 10001}", "#/multipleOf"},
        {"{\"type\": \"integer\", \"multipleOf\": 9973}", "#/multipleOf: together with"},
        {"{\"type\": \"number\", \"multipleOf\": 7.999}", "#/multipleOf: together with"},
        {"{\"type\": \"integer\", \"multipleOf\": 100001}", "#/multipleOf: only numbers"},
        {"{\"type\": \"number\", \"multipleOf\": 0.0000000000000001}", "#/multipleOf"},
        {"{\"type\": \"object\", \"minProperties\": 2}", "#/minProperties"},
        {"{\"items\": [{\"type\": 3}]}", "#/prefixItems/0/type"},
        {"{\"enum\": []}", "no text"}, /* no words at all: nothing to be sorted */
        {"{\"type\": \"string\", \"enum\": [1]}", "no text"},
        {"false", "no text"},
        {"{\"properties\": {\"next\": {\"$ref\": \"#\"}}, \"required\": [\"next\"], \"type\": \"object\"}",
         "no text"},
        {"3", "must be an object, true or false"},
        {"{\"maxLength\": -1}", "#/maxLength must be"},
        {"{\"required\": \"a\"}", "#/required must be"},
        {"{\"unevaluatedProperties\": false, \"allOf\": [{}]}", "#/unevaluatedProperties"},
        {"{\"anyOf\": 3}", "#/anyOf"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct err e = ERR_INIT;
        struct grammar *g = compiled(row[i].schema, strlen(row[i].schema), &e);
        if (g || !strstr(e.msg, row[i].words))
            fail_msg("%s: %s", row[i].schema, g ? "compiled" : e.msg);
    }
}

static char *nested(const char *open, const char *inside, const char *close, int n)
{
    struct buf b;
    buf_init(&b, 1 << 26);
    for (int i = 0; i < n; i++)
        buf_str(&b, open);
    buf_str(&b, inside);
    for (int i = 0; i < n; i++)
        buf_str(&b, close);
    return buf_take(&b);
}

static char *many(const char *before, const char *each, const char *after, int n)
{
    struct buf b;
    buf_init(&b, 1 << 26);
    buf_str(&b, before);
    for (int i = 0; i < n; i++) {
        buf_str(&b, i ? "," : "");
        for (const char *p = each; *p; p++)
            if (*p == '@')
                buf_printf(&b, "%d", i);
            else
                buf_char(&b, *p);
    }
    buf_str(&b, after);
    return buf_take(&b);
}

/* Faults: a C stack that overflows with the schema's depth, ways that multiply, lists that are
 * compared one with all others. */
static void test_hostile(void **state)
{
    (void)state;
    struct {
        char *schema;
        const char *good;
        bool must_compile;
    } row[] = {
        {nested("{\"type\":\"array\",\"items\":", "{\"const\":1}", "}", 60), "[]", true},
        {nested("{\"properties\":{\"a\":", "{}", "}}", 30), "{}", true},
        {nested("{\"anyOf\":[{\"const\":1},", "{\"const\":2}", "]}", 30), "2", false},
        {nested("{\"not\":", "{}", "}", 61), NULL, false},
        {many("{\"enum\":[", "\"value @\"", "]}", 100000), "\"value 7\"", false},
        {many("{\"enum\":[", "@", "]}", 10000), "7", true},
        {many("{\"allOf\":[", "{\"anyOf\":[{\"const\":@},{\"const\":1}]}", "]}", 40), "1", false},
        {many("{\"type\":\"object\",\"properties\":{", "\"property@\":{\"type\":\"string\"}", "}}",
              3000),
         "{\"property7\": \"\"}", true},
        {many("{\"oneOf\":[", "{\"const\":@}", "]}", 64), "7", true},
        {many("{\"type\":\"string\",\"allOf\":[", "{\"pattern\":\"a.{@}b\"}", "]}", 20), NULL,
         false},
        {many("{\"type\":\"object\",\"patternProperties\":{", "\"a{@}\":{}", "}}", 6), "{}", true},
        {many("{\"type\":\"array\",\"prefixItems\":[", "{\"minLength\":@}", "]}", 2000), "[]",
         true},
        {many("{\"$defs\":{",
              "\"d@\":{\"type\":\"object\",\"properties\":{\"x\":{\"$ref\":\"#/$defs/d@\"}}}",
              "},\"$ref\":\"#/$defs/d0\"}", 2000),
         "{}", true},
        {many("{\"type\":\"string\",\"maxLength\":1000000,\"minLength\":1,\"enum\":[", "\"@\"",
              "]}", 1),
         "\"0\"", true},
        {many("{\"type\":\"string\",\"maxLength\":1000000,\"title\":\"", "@", "\"}", 1), "\"0\"",
         true},
        {many("{\"type\":\"string\",\"maxLength\":1000000,\"pattern\":\"a\",\"title\":\"", "@",
              "\"}", 1),
         NULL, false},
        {many("{\"type\":\"array\",\"maxItems\":1000000000,\"minItems\":3,\"title\":\"", "@", "\"}",
              1),
         "[1,2,3]", true},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct err e = ERR_INIT;
        struct arena a;
        struct jvalue v;
        arena_init(&a, 1 << 28);
        assert_good(test_jvalue_parse(&a, row[i].schema, strlen(row[i].schema), &v, &e), &e);
        int64_t t0 = clock_us();
        struct grammar *g = grammar_schema(&v, false, NULL, &e);
        printf("%-50.50s %7.1f ms %s\n", row[i].schema, (double)(clock_us() - t0) / 1e3,
               g ? "compiled" : e.msg);
        if (!g && row[i].must_compile)
            fail_msg("%.80s: %s", row[i].schema, e.msg);
        if (g && row[i].good && !matches(g, row[i].good))
            fail_msg("%.80s refuses %s", row[i].schema, row[i].good);
        grammar_unref(g);
        arena_release(&a);
        free(row[i].schema);
    }
}

static void test_json_object(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    struct grammar *g = grammar_json_object(false, NULL, &e),
                   *c = grammar_json_object(true, NULL, &e);
    assert_true(matches(g, "{\"a\": [1, \"\\u00e9\xc3\xa9\", {}]}") && !matches(g, "[]"));
    assert_true(matches(c, "{\"a\":[1,{}]}") && !matches(c, "{\"a\": 1}"));
    char *deep = nested("{\"a\":", "1", "}", 3000);
    assert_true(matches(g, deep));
    free(deep);
    grammar_unref(g);
    grammar_unref(c);
}

#define OWN(f) cmocka_unit_test_setup_teardown(f, own_arena_new, own_arena_free)

int main(void)
{
    const struct CMUnitTest tests[] = {
        OWN(test_values),  OWN(test_numbers),     OWN(test_strings), OWN(test_arrays),
        OWN(test_objects), OWN(test_together),    OWN(test_negated), OWN(test_refused),
        OWN(test_hostile), OWN(test_json_object),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
