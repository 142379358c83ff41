#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What `make install` puts where, and `make uninstall` takes away.
#
#     packaging/install.sh install|uninstall ROOT BUILD [PLUG...]     ROOT: DESTDIR and PREFIX
set -eu
here=$(cd "$(dirname "$0")" && pwd)
tree=$(dirname "$here")
what=$1 root=$2 build=$3
shift 3
share=$root/share
doc=$share/doc/tandem
made=(bin/tandem share/man/man1/tandem.1 share/bash-completion/completions/tandem
    share/zsh/site-functions/_tandem share/fish/vendor_completions.d/tandem.fish
    share/tandem share/doc/tandem lib/tandem include/tandem.h lib/pkgconfig/tandem.pc
    lib/libtandem.so.0 lib/libtandem.so lib/libtandem.a)

put() { install -D -m "$1" "$2" "$3"; }

if [ "$what" = uninstall ]; then
    for path in "${made[@]}"; do
        rm -rf "${root:?}/$path"
    done
    # what was made for it, and holds nothing else
    for path in share/man/man1 share/man share/bash-completion/completions share/bash-completion \
        share/zsh/site-functions share/zsh share/fish/vendor_completions.d share/fish share/doc share lib/pkgconfig lib include bin; do
        rmdir "$root/$path" 2>/dev/null || true
    done
    exit
fi

put 755 "$build/tandem" "$root/bin/tandem"
for plug in "$@"; do
    put 755 "$plug" "$root/lib/tandem/${plug##*/}"
done
if [ -e "$build/lib/libtandem.so.0" ]; then # `make lib` was there
    put 644 "$build/lib/libtandem.so.0" "$root/lib/libtandem.so.0"
    ln -sf libtandem.so.0 "$root/lib/libtandem.so"
    put 644 "$build/lib/libtandem.a" "$root/lib/libtandem.a"
    put 644 "$build/lib/tandem.pc" "$root/lib/pkgconfig/tandem.pc"
    put 644 "$tree/clients/lib/tandem.h" "$root/include/tandem.h"
    for f in ask.c ask.py README.md; do
        put 644 "$tree/examples/library/$f" "$doc/examples/library/$f"
    done
fi
mkdir -p "$share/man/man1" "$share/bash-completion/completions" "$share/zsh/site-functions" \
    "$share/fish/vendor_completions.d"
"$build/tandem" man >"$share/man/man1/tandem.1"
"$build/tandem" completion bash >"$share/bash-completion/completions/tandem"
"$build/tandem" completion zsh >"$share/zsh/site-functions/_tandem"
"$build/tandem" completion fish >"$share/fish/vendor_completions.d/tandem.fish"
for f in "$tree"/examples/tiny/model/*; do
    put 644 "$f" "$share/tandem/tiny/${f##*/}"
done
for f in LICENSE README.md CHANGELOG.md SECURITY.md GLOSSARY.md; do
    put 644 "$tree/$f" "$doc/$f"
done
for f in "$tree"/docs/*.md "$tree"/docs/*.png "$tree"/docs/proxy/*; do
    put 644 "$f" "$doc/docs/${f#"$tree"/docs/}"
done
for f in facts.py facts.txt facts.jsonl README.md train.conf; do
    put 644 "$tree/examples/tiny/$f" "$doc/examples/tiny/$f"
done
for f in "$tree"/clients/examples/*; do
    put 644 "$f" "$doc/examples/clients/${f##*/}"
done
put 644 "$build/sbom/THIRD-PARTY" "$doc/THIRD-PARTY"
put 644 "$build/sbom/tandem.spdx.json" "$doc/tandem.spdx.json"
