#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Writes the table of server/routes/web.h for the files given: their bytes by .incbin, a media type by
# their suffix, a tag by their digest. Run in the repository's root.
#
#     clients/web/embed.sh clients/web/index.html clients/web/app.js ... >web_files.c
set -eu

type_of() {
    case $1 in
    *.html) echo "text/html; charset=utf-8" ;;
    *.css) echo "text/css; charset=utf-8" ;;
    *.js) echo "text/javascript; charset=utf-8" ;;
    *.svg) echo "image/svg+xml" ;;
    *) echo "embed.sh: $1 has no media type here" >&2 && exit 1 ;;
    esac
}

echo '/* Made by clients/web/embed.sh. */'
echo '#include "server/routes/web.h"'
i=0
for file in "$@"; do
    printf '__asm__(".pushsection .rodata\\nweb_%d: .incbin \\"%s\\"\\n.popsection");\n' $i "$file"
    printf 'extern const char web_%d[];\n' $i
    i=$((i + 1))
done
echo 'const struct web_file web_files[] = {'
i=0
for file in "$@"; do
    tag=$(sha256sum <"$file" | cut -c1-16)
    type=$(type_of "$file")
    printf '    {"%s", "%s", "\\"%s\\"", web_%d, %d},\n' \
        "${file##*/}" "$type" "$tag" $i "$(wc -c <"$file")"
    i=$((i + 1))
done
echo '};'
echo 'const size_t n_web_files = sizeof web_files / sizeof *web_files;'
