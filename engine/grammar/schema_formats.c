/* SPDX-License-Identifier: Apache-2.0
 *
 * Formats as regexes. Where a format's own grammar has corners that readers disagree about, the
 * regex keeps to what all of them take.
 */
#include <string.h>

#include "engine/grammar/schema.h"

#define YEAR "[1-9]\\d{3}"
#define LEAP "([1-9]\\d(0[48]|[2468][048]|[13579][26])|([2468][048]|[13579][26])00)"
#define DATE                                                                                       \
    "(" YEAR "-((0[13578]|1[02])-(0[1-9]|[12]\\d|3[01])|(0[469]|11)-(0[1-9]|[12]\\d|30)|"          \
    "02-(0[1-9]|1\\d|2[0-8]))|" LEAP "-02-29)"
#define TIME  "([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(\\.\\d{1,6})?(Z|[+-]([01]\\d|2[0-3]):[0-5]\\d)"
#define LABEL "[A-Za-z0-9](-?[A-Za-z0-9]){0,20}" /* two hyphens are of encoded names */
#define HOST  LABEL "(\\." LABEL "){0,5}\\.[A-Za-z]{2,12}"
#define BYTE  "(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
#define IPV4  BYTE "\\." BYTE "\\." BYTE "\\." BYTE
#define HEX4  "[0-9A-Fa-f]{1,4}"
#define IPV6                                                                                       \
    "((" HEX4 ":){7}" HEX4 "|(" HEX4 ":){1,6}:" HEX4 "|(" HEX4 ":){1,5}(:" HEX4 "){2}|(" HEX4      \
    ":){1,4}(:" HEX4 "){3}|(" HEX4 ":){1,3}(:" HEX4 "){4}|(" HEX4 ":){1,2}(:" HEX4 "){5}|:(:" HEX4 \
    "){1,7}|(" HEX4 ":){1,7}:|::)"
#define PCHAR   "([A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})"
#define TAIL    "(/" PCHAR "*)*(\\?" PCHAR "*)?(#" PCHAR "*)?"
#define URI     "([a-z][a-z0-9+-]{1,12}://" HOST "(:\\d{1,4})?" TAIL "|mailto:[a-z0-9.]+@" HOST ")"
#define EMAIL   "[A-Za-z0-9_+-]{1,30}(\\.[A-Za-z0-9_+-]{1,15}){0,2}@" HOST
#define POINTER "(/([^~/\"\\\\\\x00-\\x1f]|~[01])*)*"
#define PERIOD  "P(\\d{1,6}W|\\d{1,6}D|\\d{1,6}M(\\d{1,6}D)?|\\d{1,6}Y(\\d{1,6}M(\\d{1,6}D)?)?)"
#define CLOCK   "T(\\d{1,6}S|\\d{1,6}M(\\d{1,6}S)?|\\d{1,6}H(\\d{1,6}M(\\d{1,6}S)?)?)"

static const struct {
    const char *name, *regex;
} row[] = {
    {"date-time", "^" DATE "T" TIME "$"},
    {"date", "^" DATE "$"},
    {"time", "^" TIME "$"},
    {"duration", "^(" PERIOD "|P" CLOCK "|P\\d{1,6}D" CLOCK ")$"},
    {"email", "^" EMAIL "$"},
    {"idn-email", "^" EMAIL "$"},
    {"hostname", "^" HOST "$"},
    {"idn-hostname", "^" HOST "$"},
    {"ipv4", "^" IPV4 "$"},
    {"ipv6", "^" IPV6 "$"},
    {"uri", "^" URI "$"},
    {"iri", "^" URI "$"},
    {"uri-reference", "^(" URI "|(/" PCHAR "+)+)$"},
    {"iri-reference", "^(" URI "|(/" PCHAR "+)+)$"},
    {"uri-template", "^" URI "$"},
    {"uuid", "^[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$"},
    {"json-pointer", "^" POINTER "$"},
    {"relative-json-pointer", "^(0|[1-9]\\d{0,3})(#|" POINTER ")$"},
    {"regex", "^[A-Za-z0-9 _,:;-]*$"},
    {"byte", "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"},
    {"base64url", "^([A-Za-z0-9_-]{4})*([A-Za-z0-9_-]{2,3})?$"},
    {"char", "^[^\\x00-\\x1f]$"},
    /* of draft 3 */
    {"host-name", "^" HOST "$"},
    {"ip-address", "^" IPV4 "$"},
    {"color", "^#[0-9A-Fa-f]{6}$"},
    {"phone", "^\\+[1-9]\\d{6,14}$"},
    /* names of OpenAPI that ask nothing of a text */
    {"password", ""},
    {"binary", ""},
    {"string", ""},
    {"text", ""},
    {"float", ""},
    {"double", ""},
    {"decimal", ""},
    {"number", ""},
    {"int32", ""},
    {"int64", ""},
    {"integer", ""},
    {"int8", ""},
    {"int16", ""},
    {"uint8", ""},
    {"uint16", ""},
    {"uint32", ""},
    {"uint64", ""},
    {"unixtime", ""},
    {"commonmark", ""},
    {"html", ""},
};

const char *schema_format(const char *name, size_t len)
{
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        if (strlen(row[i].name) == len && !memcmp(row[i].name, name, len))
            return row[i].regex;
    return NULL;
}
