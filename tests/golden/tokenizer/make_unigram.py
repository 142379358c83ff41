#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the goldens of Unigram tokenizers, as make.py (read it first) makes the others, with the
normalization that SentencePiece compiles.

    pip install tokenizers==0.22.2 sentencepiece==0.2.3 && python3 tests/golden/tokenizer/make_unigram.py

Writes texts_unigram.json, and NAME.json and NAME.ids.json for the texts of texts.json and then those.
"plain" is what a file says in which no special token has a text that can be written: no model of ours
makes one.
"""
import base64
import io
import json
import os
import random
import struct
import tempfile

import sentencepiece
import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, trainers
from tokenizers import pre_tokenizers as pre, processors

assert tokenizers.__version__ == "0.22.2", tokenizers.__version__
HERE = os.path.dirname(os.path.abspath(__file__))
MARK = "\u2581"

# make.py runs when it is imported: its text is read
SOURCE = open(os.path.join(HERE, "make.py"), encoding="utf-8").read()
TRAIN = SOURCE.split('TRAIN = """')[1].split('"""')[0].strip().split("\n") * 3

ODD = ["``quoted''", "\u00aa", "\u00aa\u0301", "A\u0301", "a\u030a", "\u212b", "\uff21", "\uff21\u0301", "\uff76\uff9e", "\u30ab\u3099",
       "\u2460", "\u3300", "\u2026", "\ufdfa", "\ufb03", "\u00a8", "\u0344", "\u1e9b\u0323", "\u00bc", "\u2126", "\r\n", "\r", "\n\r",
       "\x00", "\x01\x02", "\x0b", "\x0c", "\x1f", "\x7f", "\u0085", "\u008f", "\u009f", "\u00a0", "\u00ad", "\u034f", "\u061c",
       "\u115f", "\u1680", "\u17b4", "\u180e", "\u2000", "\u200b", "\u200c", "\u200d", "\u200e", "\u2028", "\u2029", "\u202e",
       "\u2060", "\u2061", "\u3000", "\u3164", "\ufe0f", "\ufeff", "\ufff9", "\ufffd", "\U000e0061", "\U0001f1e9\U0001f1ea",
       "\U0001f1e9", "\U0001f44d\U0001f3fd", "\U0001f3f3\ufe0f\u200d\U0001f308", "1\ufe0f\u20e3", "\u0915\u094d\u0937", "\u0e01\u0e33",
       "\u0ba8\u0bbf", "\u1100\u1161\u11a8", "\uac01", "\u0f0b", "\u1019\u103c\u1014\u103a", "\u10d0", "\u0531\u0587", "\u1200", "\u16a0",
       "\u13a0", "\u0600\u0661", "\u05d0\u05bc", "\u0627\u0644\u0644\u0647", "\ufef2", "\u4e00", "\U00020bb7", "\ufa0e", "\U0002f800",
       "\U0001d400", "\U0001d552", "\u210c", "\u2121", "\u33c2", "<unk>", "a<unk>b", "<unk><unk>", "x\u4e8c<unk>", "<0xE2>", "<0x0A>",
       MARK, MARK + MARK, " " + MARK, MARK + " ", "  ", "   ", "\t", "\n", "a", " a", "aaaa", "the", " the", "The", "THE", "keeper",
       "\u00e9t\u00e9", "e\u0301te\u0301", "\u00df", "\u1e9e", "\u0130", "\u0131", "\u03a3", "\u03c2", "--", "-", ".", "[MASK]", "<mask>",
       "</s>", "<extra_id_0>", "[CLS]", " <mask>", "<pad>"]


def texts():
    rng = random.Random(11)
    out = ODD + [" " + x + " " for x in ODD[:60]] + ["ab" + x + "cd" for x in ODD]
    for n in (2, 3, 4, 6, 9, 15, 40):
        out += ["".join(rng.choice(ODD) for _ in range(n)) for _ in range(12)]
    out += [x * 150 for x in ("-", "ab", " .", MARK, "\u2026", "\uff21", "\u4e8c", "\U0001f600", "\u0301", "a\u0301", "\u00aa\u0301", "\r\n", "<unk>",
                              "=", "ke", "keepe", "12", "\x01")]
    lines = [x for x in TRAIN if x]
    out += [rng.choice(lines).upper() for _ in range(6)] + [" ".join(lines)]
    return out


def fields(blob):
    """(number, value) of a protobuf message: bytes or a number."""
    at = 0

    def varint():
        nonlocal at
        n = shift = 0
        while True:
            b = blob[at]
            at += 1
            n |= (b & 127) << shift
            shift += 7
            if b < 128:
                return n
    while at < len(blob):
        key = varint()
        kind = key & 7
        if kind == 0:
            yield key >> 3, varint()
        elif kind == 2:
            n = varint()
            yield key >> 3, blob[at:at + n]
            at += n
        else:
            n = 4 if kind == 5 else 8
            yield key >> 3, struct.unpack("<f" if n == 4 else "<d", blob[at:at + n])[0]
            at += n


def spm(rule=None, tsv=None, size=600, **kw):
    """The pieces with their scores, and the charsmap in base64."""
    out = io.BytesIO()
    if tsv:
        path = os.path.join(tempfile.gettempdir(), "rules.tsv")
        with open(path, "w", encoding="utf-8") as f:
            for a, b in tsv:
                f.write(" ".join("%X" % ord(c) for c in a) + "\t" + " ".join("%X" % ord(c) for c in b) + "\n")
        kw["normalization_rule_tsv"] = path
    else:
        kw["normalization_rule_name"] = rule
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter([x for x in TRAIN if x]), model_writer=out, vocab_size=size, num_threads=1,
                                             minloglevel=2, hard_vocab_limit=False, **kw)
    pieces, charsmap = [], b""
    for n, v in fields(out.getvalue()):
        if n == 1:
            p = dict(fields(v))
            pieces.append((p[1].decode(), p.get(2, 0.0)))
        elif n == 3:
            charsmap = dict(fields(v)).get(2, b"")
    return pieces, base64.b64encode(charsmap).decode()


def precompiled(charsmap):
    return {"type": "Precompiled", "precompiled_charsmap": charsmap}


def spec_of(vocab, unk, byte_fallback, normalizers_, pre_tokenizer, decoder, before, after, special, added=()):
    """As a file; `special` and `added` as AddedToken's fields."""
    t = Tokenizer(models.Unigram(vocab, unk, byte_fallback))
    t.pre_tokenizer = pre_tokenizer
    t.decoder = decoder
    t.add_special_tokens([AddedToken(x, special=True, normalized=False, lstrip=x in ("<mask>", "[MASK]")) for x in special])
    t.add_tokens(list(added))
    names = before + after
    t.post_processor = processors.TemplateProcessing(single=" ".join(before + ["$A"] + after), special_tokens=[(n, t.token_to_id(n)) for n in names])
    spec = json.loads(t.to_str())
    spec["normalizer"] = {"type": "Sequence", "normalizers": normalizers_} if normalizers_ else None
    return spec


def dumped(n):
    t = Tokenizer(models.BPE())
    t.normalizer = n
    return json.loads(t.to_str())["normalizer"]


SPACES = dumped(normalizers.Replace(Regex(" {2,}"), MARK))
TWO = dumped(normalizers.Replace(Regex(" {2,}"), " "))
STRIP = dumped(normalizers.Strip(left=False, right=True))
RULES = ([(chr(c), chr(c + 32)) for c in range(65, 91)] + [(chr(c), " ") for c in (9, 10, 13, 0x3000, 0x200b)] + [(chr(c), "") for c in (1, 2, 0x1f, 0xad, 0x301)] +
         [("\u00aa", "a"), ("e\u0301", "\u00e9"), ("\ufb03", "ffi"), ("\u2026", "..."), ("\u00df", "ss"), ("\u1100\u1161", "\uac00"), ("a\u030a", "\u00e5"),
          ("\U0001f600", ":)"), ("--", "\u2014"), ("\r\n", " "), ("\uff21", "A")])


def xlmr():
    """XLM-R, multilingual-e5 and bge-m3: ids moved by one, as fairseq has them."""
    pieces, charsmap = spm("nmt_nfkc", size=700, character_coverage=0.985)
    vocab = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)] + pieces[3:] + [("<mask>", 0.0)]
    return spec_of(vocab, 3, False, [precompiled(charsmap), TWO], pre.Sequence([pre.WhitespaceSplit(), pre.Metaspace(MARK, "always")]),
                   decoders.Metaspace(MARK, "always"), ["<s>"], ["</s>"], ["<s>", "<pad>", "</s>", "<unk>", "<mask>"])


def t5():
    pieces, charsmap = spm(tsv=RULES, size=500, character_coverage=0.98, pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    vocab = pieces + [("<extra_id_%d>" % i, 0.0) for i in (1, 0)]
    return spec_of(vocab, 2, False, [precompiled(charsmap), STRIP, SPACES], pre.Metaspace(MARK, "always", split=True), decoders.Metaspace(MARK, "always"),
                   [], ["</s>"], ["<pad>", "</s>", "<unk>", "<extra_id_1>", "<extra_id_0>"])


def albert():
    pieces, charsmap = spm(tsv=RULES, size=500, pad_id=0, unk_id=1, bos_id=2, eos_id=3, bos_piece="[CLS]", eos_piece="[SEP]", user_defined_symbols=["[MASK]"])
    quotes = [dumped(normalizers.Replace(a, '"')) for a in ("``", "''")]
    marks = [dumped(n) for n in (normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase())]
    return spec_of(pieces, 1, False, quotes + marks + [precompiled(charsmap), TWO], pre.Metaspace(MARK, "always"), decoders.Metaspace(MARK, "always"),
                   ["[CLS]"], ["[SEP]"], ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"])


def unigram_bytes():
    """Byte fallback, one piece for a whole text, marks before the first word only."""
    pieces, _ = spm("identity", size=900, byte_fallback=True, character_coverage=0.98)
    return spec_of(pieces, 0, True, [], pre.Metaspace(MARK, "first", split=False),
                   decoders.Sequence([decoders.Replace(MARK, " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]),
                   ["<s>"], [], ["<unk>", "<s>", "</s>"], [AddedToken("<mask>", special=False, normalized=True)])


def unigram_bare():
    """Trained by tokenizers, without marks or words; steps that others than SentencePiece's files have."""
    t = Tokenizer(models.Unigram())
    t.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC()])
    t.train_from_iterator([x for x in TRAIN if x], trainers.UnigramTrainer(vocab_size=300, unk_token="<unk>", special_tokens=["<unk>", "<s>"], show_progress=False))
    spec = json.loads(t.to_str())
    return spec_of([tuple(x) for x in spec["model"]["vocab"]], 0, False, [dumped(normalizers.Nmt()), dumped(normalizers.NFKC())], None,
                   decoders.Sequence([decoders.Fuse()]), ["<s>"], [], ["<unk>", "<s>"])


def unigram_ties():
    """Scores that are equal, or positive: which way is taken where sums are the same, and unknown characters that are a token together."""
    words = ["a", "b", "ab", "ba", "aa", "aab", "aba", "bb", "abab", "\u4e00\u4e8c", "\u4e8c\u4e09", " ", "c"]
    vocab = [("<unk>", 40.0), ("<0x2D>", 30.0)] + [(w, float(30 + len(w)) if w > "z" else 30.0 * len(w)) for w in words]
    return spec_of(vocab, 0, True, [], None, decoders.Fuse(), [], [], ["<unk>"])


KINDS = {"xlmr": xlmr, "t5": t5, "albert": albert, "unigram_bytes": unigram_bytes, "unigram_bare": unigram_bare, "unigram_ties": unigram_ties}


def without_specials(spec):
    """The file with its special tokens, but for the unknown one, under names that no text has."""
    spec = json.loads(json.dumps(spec))
    unk = spec["model"]["vocab"][spec["model"]["unk_id"]][0]
    special = {a["content"] for a in spec["added_tokens"] if a["special"]}
    spec["added_tokens"] = [a for a in spec["added_tokens"] if not a["special"]]
    spec["post_processor"] = None
    for i, entry in enumerate(spec["model"]["vocab"]):
        if entry[0] in special and entry[0] != unk and len(entry[0]) > 1:
            entry[0] = "\U000f0000" + chr(0xf0001 + i) * 5
    return Tokenizer.from_str(json.dumps(spec))


def case(t, plain, text):
    ids = t.encode(text, add_special_tokens=False).ids
    out = {"ids": ids, "text": t.decode(ids, skip_special_tokens=False)}
    other = plain.encode(text, add_special_tokens=False).ids
    if other != ids:
        out["plain"] = other
    if out["text"] != t.decode(ids):
        out["skipped"] = t.decode(ids)
    if "<0x" in text:  # a row of bytes that is no UTF-8, which we decode otherwise (engine/token/README.md)
        out.pop("text"), out.pop("skipped", None)
    if not text:
        out["around"] = t.encode(text).ids
    return out


def dump(name, value, **kw):
    with open(os.path.join(HERE, name), "w", encoding="utf-8") as f:
        json.dump(value, f, **kw)
        f.write("\n")


def main():
    more = texts()
    dump("texts_unigram.json", more, separators=(",", ":"))
    with open(os.path.join(HERE, "texts.json"), encoding="utf-8") as f:
        all_texts = json.load(f) + more
    for name, make in KINDS.items():
        path = os.path.join(HERE, name + ".json")
        if not os.path.exists(path):
            dump(name + ".json", make(), ensure_ascii=False, separators=(",", ":"))
        with open(path, encoding="utf-8") as f:
            spec = json.load(f)
        t, plain = Tokenizer.from_file(path), without_specials(spec)
        dump(name + ".ids.json", [case(t, plain, text) for text in all_texts], separators=(",", ":"))


main()
