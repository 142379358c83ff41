#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the goldens of the tokenizer: tiny tokenizers of every kind that real models use, and
what Hugging Face's library makes of odd texts with them.

    pip install tokenizers==0.21.0 && python3 tests/golden/tokenizer/make.py

Writes texts.json, and for each kind NAME.json (a tokenizer.json) and NAME.ids.json: per text the
ids without what stands before and after a text, the ids with special tokens read as text where
those differ, and the decoded texts. A NAME.json that is there is taken as it is: the library's
training does not give the same twice. Removed, it is trained anew on the text below.
"""
import json
import os
import random

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, trainers
from tokenizers import pre_tokenizers as pre, processors

assert tokenizers.__version__ == "0.21.0", tokenizers.__version__
HERE = os.path.dirname(os.path.abspath(__file__))

TRAIN = """
The old lighthouse keeper's daughter didn't know what she'd find when she'd climbed the stairs.
There were 3 lamps, 14 mirrors and 1592 panes of glass; it isn't easy to keep them all shining.
"We'll need oil," he said, "and they're late again." I've seen it before: they'd come, they'd go.
Numbers: 1, 12, 123, 1234, 12345, 3.14159, 2024-01-31, 10%, $5.00, 0xff, 1e-9.
def keep(lamp, n=10):
    for i in range(n):
        if lamp[i] != None and not lamp.is_lit():
            lamp.light(i)    # again, and again
    return {"lit": True, "count": n}

Le phare était éteint; où était la lumière? L'été dernier, ça n'était pas déjà arrivé, peut-être.
Der Wärter öffnete die Tür: „Grüße aus München!“ Straße, Größe, Fußgängerübergänge.
El niño soñó con el océano. ¿Dónde está la señal? ¡Allí!
Смотритель маяка зажёг огонь. Корабли проходили мимо, один за другим, до самого утра.
Ο φάρος ήταν σκοτεινός. Η θάλασσα ήταν ήσυχη.
灯台の光が海を照らす。船は夜の間に通り過ぎる。東京、大阪、京都。
灯塔照亮大海。船在夜里经过。一二三四五。
등대가 바다를 비춘다. 배가 지나간다.
المنارة تضيء البحر. السفن تمر في الليل. ١٢٣
המגדלור מאיר את הים.
प्रकाशस्तंभ समुद्र को रोशन करता है।
😀 😃 👍🏽 👨‍👩‍👧‍👦 🏳️‍🌈 ❤️ ☕ — … “quotes” ‘single’ «guillemets»
""" * 3

ODD = ["a", "the ", "lighthouse", " ", "  ", "   ", "\n", "\n\n", "\r\n", "\t", "\u00a0", "\u3000", "\u2028",
       "'s", "'S", "'\u017f", "'re", "'LL", "n't", "\u2019s", "1", "12", "1234", "\u0661\u0662", "\u00bd", "\u2167",
       "\u00e9", "e\u0301", "\u00c5", "A\u030a", "\ufb01", "\u65e5\u672c", "\u4e2d\u6587", "\ud55c\uad6d", "\u1112\u1161\u11ab",
       "\u0939\u093f\u0928\u094d\u0926\u0940", "\u05e2\u05d1", "\u0639\u0631", "\U0001f600", "\U0001f468\u200d\U0001f469\u200d\U0001f467",
       "\u200d", "\u200b", "\ufeff", "\u0301\u0316\u0327", "\x00", "\x01", "\x7f", "\x85", "\ufffd", "\u180e", "\u1680",
       "_", "__", "-", "--", "...", "!?", "\u2581", "\u2581\u2581", "\u0120", "<0x41>", "<0xE2>", "##ing", "ing", "\u212a",
       "\u0130", "\u00df", "\u01c5", "\u03c2", "\U0001d7d8", "\U00020000", "\U0010ffff", "\ue000", "\ufdfa", "\u1e9b\u0323",
       "\u0958", "\ufb2c", "\U0001d160", "Hello", " world", "don't", "http://x.y/z?q=1&r=2", "@user", "a.b", "C++",
       "{}", "\"q\"", "$5.00", "%", "^", "~", "`", "<s>", "</s>", "<unk>", "[CLS]", "[MASK]", "<|end|>", "<|user|>",
       "<tool>", "keeper", "Lighthouse", "LIGHT"]


def texts():
    rng = random.Random(7)
    out = ["", " ", "a", "\n", "'", "Hello, world!", "\u0301", "<s>", " <s> ", "x<s>y", "<|user|>  \n hi<|end|>",
           "Hello<|end|> there", "a <tool> b", "a<tool>b", "<toolbox>", "under<tool>", "keeper", "the keeper, lightkeeper",
           "[MASK] it", "it [MASK].", "it   [MASK]", "<|end|><|end|>", "<|en", "<|end|", "  leading", "trailing  ",
           "tabs\tand\nlines\r\n\r\nend", "Grüße aus München", "1234567890", "a" * 700, " " * 700, "\n" * 70, "ab" * 350,
           "_" * 200 + "x", "\u0301" * 300, "\U0001f600" * 60]
    for n in (1, 2, 3, 5, 8, 13, 21):
        out += ["".join(rng.choice(ODD) for _ in range(n)) for _ in range(14)]
    lines = [line for line in TRAIN.split("\n") if line]
    out += [rng.choice(lines) for _ in range(12)] + ["\n".join(lines[:20])]
    return out


BYTES = pre.ByteLevel.alphabet()
SPECIALS = [AddedToken("<unk>", special=True, normalized=False), AddedToken("<s>", special=True, normalized=False),
            AddedToken("</s>", special=True, normalized=False)]
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
          r"\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
CHAT = [AddedToken("<|end|>", special=True, normalized=False),
        AddedToken("<|user|>", special=True, normalized=False, rstrip=True),
        AddedToken("<tool>", special=False, normalized=False)]


def bpe(t, size, specials=(), alphabet=(), **kw):
    t.train_from_iterator(TRAIN.split("\n"), trainers.BpeTrainer(
        vocab_size=size, special_tokens=list(specials), initial_alphabet=list(alphabet), show_progress=False, **kw))
    return t


def template(t, single, names):
    t.post_processor = processors.TemplateProcessing(single=single, special_tokens=[(n, t.token_to_id(n)) for n in names])


def byte_level(pre_tokenizer, normalizer=None, size=600, chat=True, **model):
    t = Tokenizer(models.BPE(**model))
    t.normalizer = normalizer
    t.pre_tokenizer = pre_tokenizer
    t.decoder = decoders.ByteLevel()
    bpe(t, size, ["<s>"], BYTES)
    if chat:
        t.add_tokens(CHAT)
    return t


def split(pattern):
    return pre.Sequence([pre.Split(Regex(pattern), "isolated"), pre.ByteLevel(add_prefix_space=False, use_regex=False)])


def gpt2():
    t = byte_level(pre.ByteLevel(add_prefix_space=False))
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    return t


def llama3():
    t = byte_level(split(LLAMA3), ignore_merges=True)
    tp = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", t.token_to_id("<s>"))])
    t.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), tp])
    return t


def deepseek():
    return byte_level(pre.Sequence([
        pre.Split(Regex(r"\p{N}{1,3}"), "isolated"), pre.Split(Regex("[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"), "isolated"),
        pre.Split(Regex(r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|"
                        r" ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"), "isolated"),
        pre.ByteLevel(add_prefix_space=False, use_regex=False)]))


def falcon():
    return byte_level(pre.Sequence([pre.Punctuation("contiguous"), pre.ByteLevel(add_prefix_space=False),
                                    pre.Digits(individual_digits=False), pre.Split(Regex("[0-9][0-9][0-9]"), "isolated")]))


def roberta():
    t = byte_level(pre.ByteLevel(add_prefix_space=True), chat=False)
    t.add_special_tokens(["</s>", AddedToken("[MASK]", lstrip=True, normalized=False)])
    t.post_processor = processors.RobertaProcessing(("</s>", t.token_to_id("</s>")), ("<s>", t.token_to_id("<s>")))
    return t


def clip():
    t = Tokenizer(models.BPE(unk_token="<|end|>", end_of_word_suffix="</w>"))
    t.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()])
    t.pre_tokenizer = pre.Sequence([pre.Split(Regex(r"<\|start\|>|<\|end\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"),
                                              "removed", invert=True), pre.ByteLevel(add_prefix_space=False)])
    t.decoder = decoders.BPEDecoder(suffix="</w>")
    return bpe(t, 900, ["<|end|>"], BYTES, end_of_word_suffix="</w>")


SP_DECODER = [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
FALLBACK = ["<0x%02X>" % i for i in range(256)]


def sentencepiece(normalizer=None, pre_tokenizer=None, strip=True, size=900, **model):
    """Trained on words, so that merges stay small; then used without cutting into words."""
    t = Tokenizer(models.BPE(**model))
    t.normalizer = normalizers.Replace(" ", "\u2581")
    t.pre_tokenizer = pre.Split("\u2581", "merged_with_next")
    bpe(t, size, ["<unk>", "<s>", "</s>"] + FALLBACK if model.get("byte_fallback") else ["<unk>", "<s>", "</s>"])
    spec = json.loads(t.to_str())
    spec["added_tokens"] = spec["added_tokens"][:3]
    spec["model"].update(model)
    t = Tokenizer.from_str(json.dumps(spec))
    t.normalizer, t.pre_tokenizer = normalizer, pre_tokenizer
    t.decoder = decoders.Sequence(SP_DECODER + ([decoders.Strip(" ", 1, 0)] if strip else []))
    template(t, "<s> $A", ["<s>"])
    t.add_tokens(CHAT)
    return t


def llama2():
    return sentencepiece(normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]),
                         unk_token="<unk>", fuse_unk=True, byte_fallback=True)


def mistral():
    return sentencepiece(None, pre.Metaspace("\u2581", "first", split=False), unk_token="<unk>", fuse_unk=True, byte_fallback=True)


def gemma():
    return sentencepiece(normalizers.Replace(" ", "\u2581"), pre.Split(" ", "merged_with_previous"), strip=False,
                         unk_token="<unk>", fuse_unk=True, byte_fallback=True)


def metaspace():
    t = sentencepiece(normalizers.NFKC(), pre.Metaspace("\u2581", "always", split=True), size=500, unk_token="<unk>", fuse_unk=False)
    t.decoder = decoders.Metaspace("\u2581", "always")
    return t


def unknowns():
    t = sentencepiece(normalizers.NFKD(), None, size=300, unk_token="<unk>", fuse_unk=True)
    t.decoder = None
    return t


def bert():
    t = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=30))
    t.normalizer = normalizers.BertNormalizer(lowercase=True)
    t.pre_tokenizer = pre.BertPreTokenizer()
    t.decoder = decoders.WordPiece()
    t.train_from_iterator(TRAIN.split("\n"), trainers.WordPieceTrainer(
        vocab_size=500, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], show_progress=False))
    template(t, "[CLS] $A [SEP]", ["[CLS]", "[SEP]"])
    return t


def bert_cased():
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents(), normalizers.Strip()])
    t.pre_tokenizer = pre.Sequence([pre.Whitespace(), pre.Digits(individual_digits=True)])
    t.decoder = decoders.WordPiece(cleanup=False)
    t.train_from_iterator(TRAIN.split("\n"), trainers.WordPieceTrainer(
        vocab_size=400, special_tokens=["[UNK]", "[CLS]", "[SEP]"], show_progress=False))
    t.post_processor = processors.BertProcessing(("[SEP]", t.token_to_id("[SEP]")), ("[CLS]", t.token_to_id("[CLS]")))
    return t


def words():
    t = Tokenizer(models.WordLevel(unk_token="<unk>"))
    t.pre_tokenizer = pre.Sequence([pre.WhitespaceSplit(), pre.Split(",", "merged_with_previous"), pre.Split("-", "merged_with_next"),
                                    pre.Split(".", "contiguous"), pre.Split("_", "removed")])
    t.train_from_iterator(TRAIN.split("\n"), trainers.WordLevelTrainer(vocab_size=120, special_tokens=["<unk>"], show_progress=False))
    return t


def prefixes():
    t = Tokenizer(models.BPE(unk_token="<unk>", continuing_subword_prefix="##"))
    t.pre_tokenizer = pre.Sequence([pre.CharDelimiterSplit(" "), pre.Punctuation("isolated")])
    t.normalizer = normalizers.NFC()
    t.decoder = decoders.WordPiece(cleanup=False)
    return bpe(t, 500, ["<unk>"], continuing_subword_prefix="##")


def added():
    """Added tokens with each of their flags, under a normalizer that changes them."""
    t = byte_level(pre.Sequence([pre.Digits(individual_digits=True), pre.ByteLevel(add_prefix_space=False)]),
                   normalizers.Lowercase(), chat=False)
    t.add_tokens([AddedToken("keeper", single_word=True), AddedToken("Lighthouse", normalized=True),
                  AddedToken("LIGHT", normalized=False), AddedToken("<tool>", lstrip=True, rstrip=True, normalized=False),
                  AddedToken("  ", normalized=True), AddedToken("lamp", single_word=True, normalized=True)])
    t.add_special_tokens([AddedToken("<|user|>", rstrip=True, normalized=False), AddedToken("<|end|>", normalized=True)])
    return t


KINDS = {"gpt2": gpt2, "llama3": llama3, "qwen2": lambda: byte_level(split(QWEN2), normalizers.NFC()), "deepseek": deepseek,
         "o200k": lambda: byte_level(split(O200K)), "falcon": falcon, "roberta": roberta, "clip": clip, "llama2": llama2,
         "mistral": mistral, "gemma": gemma, "metaspace": metaspace, "unknowns": unknowns, "bert": bert,
         "bert_cased": bert_cased, "words": words, "prefixes": prefixes, "added": added}


def case(t, text):
    t.encode_special_tokens = False
    ids = t.encode(text, add_special_tokens=False).ids
    whole = t.encode(text).ids
    t.encode_special_tokens = True
    plain = t.encode(text, add_special_tokens=False).ids
    out = {"ids": ids, "text": t.decode(ids, skip_special_tokens=False)}
    if plain != ids:
        out["plain"] = plain
    if out["text"] != t.decode(ids):
        out["skipped"] = t.decode(ids)
    if not text:
        out["around"] = whole
    return out


def dump(name, value, **kw):
    with open(os.path.join(HERE, name), "w", encoding="utf-8") as f:
        json.dump(value, f, **kw)
        f.write("\n")


def main():
    all_texts = texts()
    dump("texts.json", all_texts, indent=0)
    for name, make in KINDS.items():
        path = os.path.join(HERE, name + ".json")
        if not os.path.exists(path):
            dump(name + ".json", json.loads(make().to_str()), ensure_ascii=False, separators=(",", ":"))
        t = Tokenizer.from_file(path)
        dump(name + ".ids.json", [case(t, text) for text in all_texts], separators=(",", ":"))


main()
