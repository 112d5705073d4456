#!/usr/bin/env python3
"""Makes the golden vectors of tokenizers: small tokenizer.json files and what the tokenizers library does with them.

    golden_tokenizers.py                 write tests/golden/tokenizers/<variant>/ from merges.json
    golden_tokenizers.py --learn CORPUS  first learn merges.json again from a text
    golden_tokenizers.py --check         encode every committed case again with the committed files
    golden_tokenizers.py --demo DIR      write tests/golden/tokenizers/demo.jsonl with DIR/tokenizer.json

The files are written here by hand, key by key, as the spelling matters too; the library only reads them.
"""
import argparse
import collections
import hashlib
import json
import os
import shutil
import sys
import unicodedata

import tokenizers

import golden_texts

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(os.path.dirname(HERE), "tests", "golden", "tokenizers")
MERGES = os.path.join(ROOT, "merges.json")

# ------------------------------------------------------------------------------------------------ the patterns
CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
QWEN = CONTRACTIONS + (r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN_MARKS = CONTRACTIONS + (r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+"
                             r"|\s+(?!\S)|\s+")
LLAMA3 = QWEN.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
DEEPSEEK3 = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
             r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
WORDS = [rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+", rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*"]
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
TEKKEN = "|".join(WORDS) + r"|\p{N}" + REST
O200K = "|".join(w + CONTRACTIONS + "?" for w in WORDS) + r"|\p{N}{1,3}" + REST
# The letters DeepSeek-V2 lists one by one, as code points: an editor must not compose them.
DEEPSEEK_LETTERS = "".join("-".join(chr(int(end, 16)) for end in part.split("-")) for part in (
    "41-5A 61-7A B5 C0-D6 D8-F6 F8-1BA 1BC-1BF 1C4-293 295-2AF 370-373 376 377 37B-37D 37F 386 388-38A 38C "
    "38E-3A1 3A3-3F5 3F7-481 48A-52F 531-556 10A0-10C5 13A0-13F5 13F8-13FD 1C90-1CBA 1CBD-1CBF 1D00-1D2B "
    "1D6B-1D77 1D79-1D9A 1E00-1F15 1F18-1F1D 1F20-1F45 1F48-1F4D 1F50-1F57 1F59 1F5B 1F5D 1F5F-1F7D 1F80-1FB4 "
    "1FB6-1FBC 1FBE 1FC2-1FC4 1FC6-1FCC 1FD0-1FD3 1FD6-1FDB 1FE0-1FEC 1FF2-1FF4 1FF6-1FFC 2102 2107 210A-2113 "
    "2115 2119-211D 2124 2126 2128 212A-212D 212F-2134 2139 213C-213F 2145-2149 214E 2183 2184 2C00-2C7B "
    "2C7E-2CE4 2CEB-2CEE 2CF2 2CF3 A640-A66D A680-A69B A722-A76F A771-A787 A78B-A78E AB70-ABBF FB00-FB06 "
    "FB13-FB17 FF21-FF3A FF41-FF5A 10400-1044F 104B0-104D3 104D8-104FB 10C80-10CB2 10CC0-10CF2 118A0-118DF "
    "1E900-1E943").split())
DEEPSEEK2 = ["[\r\n]", r"\s?[" + DEEPSEEK_LETTERS + "]+", "\\s?[!-/:-~！-／：-～\u2018-\u201f\u3000-\u3002]+", r"\s+$",
             "[一-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"]


# -------------------------------------------------------------------------------------------------- the merges
def printable():
    """byte -> the character that stands for it in byte-level files."""
    plain = [*range(0x21, 0x7f), *range(0xa1, 0xad), *range(0xae, 0x100)]
    table, other = {b: chr(b) for b in plain}, 0
    for b in range(256):
        if b not in table:
            table[b] = chr(256 + other)
            other += 1
    return table


BYTE_CHAR = printable()


def to_bytes_text(text):
    return "".join(BYTE_CHAR[b] for b in text.encode())


def learn(seq, merges, count):
    """Appends merges of the most frequent neighbours (ties: the smaller pair) and returns the merged sequence."""
    for _ in range(count):
        pairs = collections.Counter(zip(seq, seq[1:]))
        best = min(pairs.items(), key=lambda kv: (-kv[1], kv[0]))[0]
        merges.append(best)
        seq = merge(seq, best)
    return seq


def merge(seq, pair):
    out, i = [], 0
    while i < len(seq):
        if i + 1 < len(seq) and (seq[i], seq[i + 1]) == pair:
            out.append(seq[i] + seq[i + 1])
            i += 2
        else:
            out.append(seq[i])
            i += 1
    return out


def reach(merges, word):
    """Adds what is missing until the merges make one token of the word."""
    seq = list(word)
    for m in merges:
        seq = merge(seq, m)
    while len(seq) > 1:
        merges.append((seq[0], seq[1]))
        seq[:2] = [seq[0] + seq[1]]


def learn_file(corpus):
    with open(corpus, encoding="utf-8") as f:
        prose = f.read(400000).replace("<|endoftext|>", "")[100000:160000]
    # No pre-tokenizer while learning: tokens shall reach across the cuts.
    by_bytes, by_chars = [], []
    learn(list(to_bytes_text(prose)), by_bytes, 100)
    seq = list(to_bytes_text(golden_texts.MULTILINGUAL))
    for m in by_bytes:
        seq = merge(seq, m)
    learn(seq, by_bytes, 100)
    for word in golden_texts.ACROSS:
        reach(by_bytes, to_bytes_text(word))
    text = prose.replace(" ", "▁")
    across = ["▁▁", "▁▁▁▁", "12", "aa", "aaaa", "é▁", "中文", "▁中"]
    letters = {c for c in text if c.isascii() and c.isprintable()} | set("▁éèüß三个ё’“”\u0301").union(*across)
    learn([c for c in text if c in letters], by_chars, 120)
    for word in across:
        reach(by_chars, word)
    with open(MERGES, "w", encoding="utf-8") as f:
        f.write("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v, ensure_ascii=False)}" for k, v in (
            ("bytes", by_bytes), ("letters", sorted(letters)), ("chars", by_chars))) + "\n}\n")


# ------------------------------------------------------------------------------------------ parts of the files
def split(pattern, behavior="Isolated", invert=False, kind="Regex"):
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}


def byte_level(prefix=False, regex=False):
    out = {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": regex}
    return {k: v for k, v in out.items() if v is not None}


def seq(*parts, key="pretokenizers"):
    return {"type": "Sequence", key: list(parts)}


def added(content, special=True, normalized=False, **flags):
    return dict(dict(content=content, single_word=False, lstrip=False, rstrip=False, normalized=normalized,
                     special=special), **flags)


def template(bos, ids, eos=None):
    def part(token):
        return {"SpecialToken": {"id": token, "type_id": 0}}
    single = [part(bos), {"Sequence": {"id": "A", "type_id": 0}}] + ([part(eos)] if eos else [])
    pair = single + [part(bos), {"Sequence": {"id": "B", "type_id": 1}}]
    return {"type": "TemplateProcessing", "single": single, "pair": pair,
            "special_tokens": {t: {"id": t, "ids": [ids[t]], "tokens": [t]} for t in (bos, eos) if t}}


LLAMA_DECODER = seq({"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"},
                    {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}, key="decoders")


def file(vocab, merges, tokens, model=None, **parts):
    """One tokenizer.json as a dictionary. Added tokens that the vocabulary lacks get the next ids."""
    ids, listed = dict(vocab), []
    for t in tokens:
        ids.setdefault(t["content"], len(ids))
        listed.append(dict({"id": ids[t["content"]]}, **t))
    post = parts.pop("post_processor", None)
    out = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": listed,
           "normalizer": parts.pop("normalizer", None), "pre_tokenizer": parts.pop("pre_tokenizer", None),
           "post_processor": post(ids) if callable(post) else post, "decoder": parts.pop("decoder", byte_level(True, True))}
    assert not parts, parts
    base = dict(type="BPE", dropout=None, unk_token=None, continuing_subword_prefix=None, end_of_word_suffix=None,
                fuse_unk=False, byte_fallback=False, ignore_merges=False)
    out["model"] = dict(base, **(model or {}), vocab=vocab, merges=merges)
    return out


class Words:
    """The two small vocabularies every variant is made from."""

    def __init__(self):
        with open(MERGES, encoding="utf-8") as f:
            data = json.load(f)
        self.byte_merges, self.char_merges, self.letters = data["bytes"], data["chars"], data["letters"]

    def bytes(self, first=(), extra=()):
        names = [*first, *sorted(BYTE_CHAR.values()), *(a + b for a, b in self.byte_merges), *extra]
        return {t: i for i, t in enumerate(dict.fromkeys(names))}

    def chars(self, byte_tokens=range(256), first=("<unk>", "<s>", "</s>")):
        names = [*first, *(f"<0x{b:02X}>" for b in byte_tokens), *self.letters, *(a + b for a, b in self.char_merges)]
        return {t: i for i, t in enumerate(dict.fromkeys(names))}


END = [added("<|endoftext|>")]
QWEN_TOKENS = END + [added("<|im_start|>"), added("<|im_end|>"), added("<think>", special=False),
                     added("</think>", special=False), added("<tool_call>", special=False)]
LLAMA_TOKENS = [added("<unk>"), added("<s>"), added("</s>")]
DEEPSEEK_TOKENS = [added("<｜begin▁of▁sentence｜>"), added("<｜end▁of▁sentence｜>"), added("<｜User｜>"),
                   added("<｜Assistant｜>", special=False)]
# Reached by no merge: only ignore_merges can give them.
UNREACHABLE = ["Once", "Ġkingdom", "qzx", "123456789"]


def variants(w):
    """name -> (file, texts of its own, add_special on)."""
    pairs = [list(m) for m in w.byte_merges]
    legacy = [f"{a} {b}" for a, b in w.byte_merges]
    out = {}

    def put(name, data, special=False, own=()):
        out[name] = (data, list(own), special)

    def plain(pre, tokens=END, **more):
        return file(w.bytes(), pairs, tokens, pre_tokenizer=pre, **more)

    def isolated(*patterns):
        return seq(*(split(p) for p in patterns), byte_level())

    def chars(model=None, tokens=LLAMA_TOKENS, byte_tokens=range(256), **more):
        return file(w.chars(byte_tokens), [list(m) for m in w.char_merges], tokens,
                    dict(dict(unk_token="<unk>", fuse_unk=True, byte_fallback=True), **(model or {})),
                    **dict(dict(decoder=LLAMA_DECODER), **more))

    nfc = {"type": "NFC"}
    put("gpt2", plain(byte_level(False, True), post_processor=byte_level(True, True)))
    put("gpt2_no_key", plain(byte_level(False, None)))
    put("gpt2_prefix", plain(byte_level(True, True)), own=["<|endoftext|> a", "a<|endoftext|>b", "<|endoftext|>\nb"])
    put("gpt2_no_decoder", plain(byte_level(False, True), decoder=None))
    put("qwen", plain(isolated(QWEN), QWEN_TOKENS, normalizer=nfc, post_processor=byte_level(False, False)))
    put("qwen_legacy", file(w.bytes(), ["#version: 0.2", *legacy], QWEN_TOKENS, normalizer=nfc,
                            pre_tokenizer=isolated(QWEN)))
    put("qwen_marks", plain(isolated(QWEN_MARKS), QWEN_TOKENS, normalizer=nfc))
    own = ["Once upon", " kingdom", "the kingdom of", "qzx", "qzxq", "123456789", "Once", " Once"]
    bos3 = [added("<|begin_of_text|>"), added("<|end_of_text|>"), added("<|eot_id|>")]
    for name, ignore in (("llama3", True), ("llama3_merges", False)):
        put(name, file(w.bytes(extra=UNREACHABLE), pairs, bos3, {"ignore_merges": ignore}, pre_tokenizer=isolated(LLAMA3),
                       post_processor=lambda ids: seq(byte_level(True, True), template("<|begin_of_text|>", ids),
                                                      key="processors")), True, own)
    bos = DEEPSEEK_TOKENS[0]["content"]
    put("deepseek_v2", plain(seq(*(split(p) for p in DEEPSEEK2), {"type": "Digits", "individual_digits": True},
                                 byte_level()), DEEPSEEK_TOKENS, normalizer=seq(key="normalizers"),
                             post_processor=lambda ids: template(bos, ids)), True)
    put("deepseek_v3", plain(isolated(r"\p{N}{1,3}", "[一-\u9fa5\u3040-\u309f\u30a0-\u30ff]+", DEEPSEEK3), DEEPSEEK_TOKENS,
                             post_processor=lambda ids: template(bos, ids)), True)
    first = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]"]
    put("tekken", file(w.bytes(first, UNREACHABLE), pairs, [added(t) for t in first] + [
        added("<|im_end|>"), added("<think>", special=False)], {"ignore_merges": True}, pre_tokenizer=isolated(TEKKEN),
        post_processor=lambda ids: template("<s>", ids, "</s>")), True, own)
    put("o200k", plain(isolated(O200K), [added("<|endoftext|>"), added("<|start|>"), added("<|channel|>")]))
    put("superbpe", plain(isolated(r"(?=(\d{3})+(?!\d))")))
    put("superbpe_words", plain(isolated(r"(?=(\d{3})+(?!\d))", QWEN)))

    # ----------------------------------------------------------------- how a Split treats what it finds
    for name, part in {
        "split_removed": split(r"\s+", "Removed"), "split_merged_previous": split(r"\s+", "MergedWithPrevious"),
        "split_merged_next": split(r"\s", "MergedWithNext"), "split_contiguous": split(r"[\s,.!]", "Contiguous"),
        "split_removed_invert": split(r" ?\p{L}+|\p{N}", "Removed", True),
        "split_isolated_invert": split(r"\p{L}+", "Isolated", True),
        "split_string": split("e", "MergedWithPrevious", kind="String"),
        "split_string_dot": split(".", "Removed", kind="String"),
        # ^ and $ are about lines here, as in Ruby, not about the whole text
        "split_lines": split(r"\s+$|^\w", "Isolated"),
    }.items():
        put(name, plain(seq(part, byte_level())), own=["12 \n12\n\n12  ", "12  \r\n12\r12", "aa aa"])
    put("digits_runs", plain(seq({"type": "Digits", "individual_digits": False}, byte_level())))
    put("digits_single", plain(seq({"type": "Digits", "individual_digits": True}, byte_level(False, True))))
    put("punctuation", plain(seq({"type": "Punctuation", "behavior": "Isolated"}, {"type": "WhitespaceSplit"}, byte_level())))
    put("whitespace", plain(seq({"type": "Whitespace"}, byte_level())))

    # ------------------------------------------------------------------------------- normalizers, added tokens
    put("lowercase_strip", plain(byte_level(False, True), normalizer=seq(
        {"type": "Strip", "strip_left": True, "strip_right": True}, {"type": "Lowercase"},
        {"type": "Replace", "pattern": {"Regex": r"\s{2,}"}, "content": " "},
        {"type": "Replace", "pattern": {"String": "king"}, "content": "queen"}, {"type": "Prepend", "prepend": ">"},
        key="normalizers")), own=["The KING, king", "  Two  KINGS  "])
    flags = [added("<l>", lstrip=True), added("<r>", rstrip=True), added("<lr>", lstrip=True, rstrip=True),
             added("cat", single_word=True, special=False), added("abc", special=False), added("ab", special=False),
             added("bcde", special=False), added("Café", special=False, normalized=True),
             added("KING", special=False, normalized=True, single_word=True), added(" two ", special=False)]
    put("added_flags", plain(isolated(QWEN), flags, normalizer=seq(nfc, {"type": "Lowercase"}, key="normalizers")), own=[
        "a <l> b <r> c <lr> d", "a \n<l>\t b \u00a0<lr>\u3000\n x", "<l><r><lr>", "  <r>  ", "a  <l><l>  b", "cat cats cat.",
        "concat cat_ cat1 (cat) écat caté", "abcde abcd bcde abbcde", "CAFÉ Cafe\u0301 café CAFE\u0301S", "king King KINGS aking",
        "one two  two two three", "a<lr> <lr>b", "cat<r> cat"])

    # -------------------------------------------------------------------------------- SentencePiece-like files
    space = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
    prepend = seq({"type": "Prepend", "prepend": "▁"}, space, key="normalizers")
    own = ["<s>[INST] hi [/INST]", "<s> [INST] hi [/INST] answer</s>", "a</s>b", "▁▁ literal ▁", "<0x41> text", "日<unk>本"]
    put("mixtral", chars(normalizer=prepend, post_processor=lambda ids: template("<s>", ids)), True, own)
    put("unk_fused", chars({"byte_fallback": False}, normalizer=prepend), own=own)
    put("unk_single", chars({"byte_fallback": False, "fuse_unk": False}, normalizer=prepend), own=own)
    put("unk_dropped", chars({"byte_fallback": False, "unk_token": None}, normalizer=prepend), own=own)
    some = [b for b in range(256) if b not in (0x93, 0x9f, 0x0a)]
    put("bytes_missing", chars(byte_tokens=some, normalizer=prepend), own=[*own, "a\nb", "ⓓⓔ x", "日ⓓ本", "ⓓ\n\U0001f7e3 \n", "\nⓓa"])

    def metaspace(scheme, cut=True, **more):
        return dict({"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": cut}, **more)

    for scheme in ("first", "always", "never"):
        put(f"metaspace_{scheme}", chars(pre_tokenizer=metaspace(scheme), decoder=metaspace(scheme),
                                         post_processor=lambda ids: template("<s>", ids)), True, own)
    put("metaspace_no_split", chars(pre_tokenizer=metaspace("always", False), decoder=metaspace("always", False)), own=own)
    old = {"type": "Metaspace", "replacement": "▁", "add_prefix_space": True}
    put("metaspace_old", chars(pre_tokenizer=old, decoder=old), own=own)
    old_off = {"type": "Metaspace", "replacement": "▁", "add_prefix_space": False, "prepend_scheme": "never"}
    put("metaspace_old_off", chars(pre_tokenizer=old_off, decoder=old_off), own=own)
    return out


# ---------------------------------------------------------------------------------------------------- the cases
LONG_IDS, LONG_RUNS, LONG_TEXT = 200, 40, 700


def pack_ids(ids):
    if len(ids) <= LONG_IDS:
        return ids
    runs = []
    for i in ids:
        if runs and runs[-1][0] == i:
            runs[-1][1] += 1
        else:
            runs.append([i, 1])
    if len(runs) <= LONG_RUNS:
        return {"runs": runs}
    raw = b"".join(i.to_bytes(4, "little") for i in ids)
    return {"count": len(ids), "sha256": hashlib.sha256(raw).hexdigest()}


def pack_text(text):
    raw = text.encode()
    return text if len(raw) <= LONG_TEXT else {"bytes": len(raw), "sha256": hashlib.sha256(raw).hexdigest()}


def line(case):
    """JSON with every character escaped that a person could not see."""
    text = json.dumps(case, ensure_ascii=False, separators=(",", ":"))
    hidden = lambda c: c != " " and (unicodedata.ucd_3_2_0.category(c)[0] in "CZ" or unicodedata.category(c)[0] in "CZM")
    return "".join(json.dumps(c)[1:-1] if hidden(c) else c for c in text) + "\n"


def encode_case(tok, text, add_special):
    whole = text[0] * text[1] if isinstance(text, tuple) else text
    ids = tok.encode(whole, add_special_tokens=add_special).ids
    return {"text": {"repeat": list(text)} if isinstance(text, tuple) else text, "ids": pack_ids(ids),
            "decoded": pack_text(tok.decode(ids, skip_special_tokens=False)), "add_special": add_special}


def decode_cases(tok):
    """Ids no text gave: halves of characters, unknown ids, special tokens kept and skipped. `text` is null."""
    size = tok.get_vocab_size()
    lists = [[], [size], [size + 7, 5, size + 1000]]
    state = 12345
    for length in (1, 2, 3, 5, 8, 13, 21, 34):
        ids = []
        for _ in range(length):
            state = (state * 1103515245 + 12345) % 2**31
            ids.append((state >> 8) % size)
        lists.append(ids)
    lists.append(list(range(size - 12, size)))
    out = []
    for ids in lists:
        out.append({"text": None, "ids": ids, "decoded": tok.decode(ids, skip_special_tokens=False), "skip_special": False})
        if tok.decode(ids, skip_special_tokens=True) != out[-1]["decoded"]:
            out.append(dict(out[-1], decoded=tok.decode(ids, skip_special_tokens=True), skip_special=True))
    return out


# These get every text; the others, which differ from one of these in one thing, every second one.
WHOLE = {"gpt2", "qwen", "llama3", "deepseek_v2", "deepseek_v3", "tekken", "o200k", "mixtral", "metaspace_first", "demo"}


def cases(tok, name, tokens, own, add_special):
    step = slice(None) if name in WHOLE else slice(len(name) % 2, None, 2)
    inside = golden_texts.special(tokens[:4]) if name in WHOLE else golden_texts.special(tokens[:2])[step]
    texts = golden_texts.PLAIN[step] + own + inside + golden_texts.random_texts(6, 40)[step]
    out = [encode_case(tok, t, add_special) for t in [*texts, *golden_texts.REPEATS[step]]]
    if add_special:
        out += [encode_case(tok, t, False) for t in ["", " ", "Once upon a time", *tokens[:2], *own[:2]]]
    return "".join(line(c) for c in out + decode_cases(tok))


def user_cases(tok, tokens):
    """Special tokens in the text are text: what a server does with a user's message. Others still match."""
    tok.encode_special_tokens = True
    out = [encode_case(tok, t, False) for t in golden_texts.special(tokens[:4])[::3]]
    tok.encode_special_tokens = False
    return "".join(line(c) for c in out)


def write(path, text):
    with open(path, "w", encoding="utf-8", newline="\n") as f:
        f.write(text)


def file_text(data):
    """One merge list and one vocabulary per line, so that a change shows in a diff."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace(
        '"vocab":', '\n"vocab":').replace(',"merges":', ',\n"merges":').replace(',"model":', ',\n"model":') + "\n"


def make():
    for name, (data, own, add_special) in variants(Words()).items():
        folder = os.path.join(ROOT, name)
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        text = file_text(data)
        assert json.loads(text) == data
        write(os.path.join(folder, "tokenizer.json"), text)
        tok = tokenizers.Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
        tokens = [t["content"] for t in data["added_tokens"]]
        assert all(tok.token_to_id(t["content"]) == t["id"] for t in data["added_tokens"]), name
        write(os.path.join(folder, "cases.jsonl"), cases(tok, name, tokens, own, add_special))
        if name in WHOLE or name == "added_flags":
            write(os.path.join(folder, "user.jsonl"), user_cases(tok, tokens))


def demo(folder):
    path = os.path.join(folder, "tokenizer.json")
    tok = tokenizers.Tokenizer.from_file(path)
    with open(path, encoding="utf-8") as f:
        tokens = [t["content"] for t in json.load(f)["added_tokens"]]
    write(os.path.join(ROOT, "demo.jsonl"), cases(tok, "demo", tokens, [], True))


def check_file(cases_path, tokenizer_path):
    tok, bad = tokenizers.Tokenizer.from_file(tokenizer_path), 0
    tok.encode_special_tokens = os.path.basename(cases_path) == "user.jsonl"
    with open(cases_path, encoding="utf-8", newline="\n") as f:
        for number, text in enumerate(f, 1):
            c = json.loads(text)
            if c["text"] is None:
                again = dict(c, decoded=tok.decode(c["ids"], skip_special_tokens=c["skip_special"]))
            else:
                source = tuple(c["text"]["repeat"]) if isinstance(c["text"], dict) else c["text"]
                again = encode_case(tok, source, c["add_special"])
            if again != c:
                bad += 1
                print(f"{cases_path}:{number}: now {again}", file=sys.stderr)
    return bad


def check(demo_dir):
    bad, files = 0, 0
    for name in sorted(os.listdir(ROOT)):
        folder = os.path.join(ROOT, name)
        for file_name in ("cases.jsonl", "user.jsonl"):
            if os.path.exists(os.path.join(folder, file_name)):
                files += 1
                bad += check_file(os.path.join(folder, file_name), os.path.join(folder, "tokenizer.json"))
    if demo_dir:
        files += 1
        bad += check_file(os.path.join(ROOT, "demo.jsonl"), os.path.join(demo_dir, "tokenizer.json"))
    print(f"check: {files} files, {bad} cases differ")
    return 1 if bad else 0


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--learn", metavar="CORPUS")
    p.add_argument("--check", action="store_true", help="with --demo DIR also demo.jsonl")
    p.add_argument("--demo", metavar="DIR")
    a = p.parse_args()
    if a.check:
        return check(a.demo)
    if a.demo:
        return demo(a.demo)
    os.makedirs(ROOT, exist_ok=True)
    if a.learn:
        learn_file(a.learn)
    return make()


if __name__ == "__main__":
    sys.exit(main())
