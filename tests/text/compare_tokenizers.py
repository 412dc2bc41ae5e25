"""Compares lamina's tokenizers with PyPI `tokenizers`, and writes the expected results that tokenizer_test reads.

  pip install tokenizers
  python tests/text/compare_tokenizers.py TOOL [--strings 20000] [--write tests/text/tokenizers]

TOOL is the program tokenizer_tool. Differences are printed, and the script exits with 1.
"""
import argparse
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import time
import unicodedata

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

ROOT = pathlib.Path(__file__).resolve().parents[2]
WIDE = ["Die Straße führt über die Brücke, naïve café — “quoted” text…", "東京は日本の首都です。中文字符 한국어 텍스트",
        "Привет, мир! Γειά σου Κόσμε", "हिन्दी ภาษาไทย العربية עברית", "a\u0301e\u0308 \u1e9b\u0323 ﬁ ① ½ Å İstanbul ΣΑΣ",
        "👩‍👩‍👧‍👦 🇩🇪 👍🏽 🙂🙃", "x\u200by\u00a0z\u3000w\tv\r\nu\x00\x01\x7f\x85", "don't we'll I'm they've you're he'd it's"]


def corpus():
    lines = []
    for name in ("README.md", "docs/architecture.md", "CHANGELOG.md"):
        lines += (ROOT / name).read_text().split("\n")
    return lines + WIDE * 3


def bpe_bytes(text, **options):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=options.get("prefix", False))
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(text, trainers.BpeTrainer(
        vocab_size=options.get("size", 700), show_progress=False, special_tokens=options.get("special", ["<|endoftext|>"]),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return t


def roberta(text):
    t = bpe_bytes(text, prefix=True, size=600, special=["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    t.normalizer = normalizers.NFC()
    t.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True)])
    t.add_tokens([AddedToken("Über", single_word=True), AddedToken("tensor", rstrip=True, lstrip=True), "[new]", "[new]er"])
    t.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return t


def bert(text, **options):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer(**options)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    t.train_from_iterator(text, trainers.WordPieceTrainer(vocab_size=600, show_progress=False, special_tokens=special))
    t.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return t


def bert_template(text):
    t = bert(text, lowercase=False, handle_chinese_chars=False, strip_accents=True)
    t.add_tokens(["Café", AddedToken("naïve", normalized=True), AddedToken("ÜBER", normalized=False, single_word=True)])
    t.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    t.decoder = decoders.WordPiece(cleanup=False)
    return t


def words(text):
    t = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    t.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.Lowercase(), normalizers.StripAccents()])
    t.pre_tokenizer = pre_tokenizers.Whitespace()
    t.train_from_iterator(text, trainers.WordLevelTrainer(vocab_size=400, show_progress=False, special_tokens=["[UNK]"]))
    return t


def ends(text):
    t = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    t.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase(), normalizers.Strip()])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation("contiguous"),
                                               pre_tokenizers.Digits(individual_digits=True)])
    t.decoder = decoders.BPEDecoder(suffix="</w>")
    t.train_from_iterator(text[:400], trainers.BpeTrainer(
        vocab_size=500, show_progress=False, special_tokens=["<unk>"], end_of_word_suffix="</w>", limit_alphabet=80))
    return t


def fallback(text):
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    t.normalizer = normalizers.Sequence([normalizers.NFKD(), normalizers.Replace("e\u0301", "E"), normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    special = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    t.train_from_iterator([l[:60] for l in text], trainers.BpeTrainer(vocab_size=600, show_progress=False, special_tokens=special, limit_alphabet=90))
    doc = __import__("json").loads(t.to_str())
    doc["added_tokens"] = doc["added_tokens"][:3]
    t = Tokenizer.from_str(__import__("json").dumps(doc))
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    t.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B:1", special_tokens=[("<s>", 1)])
    return t


def metaspace(text):
    t = Tokenizer(models.BPE(unk_token="<unk>"))
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    t.decoder = decoders.Metaspace(prepend_scheme="first")
    t.train_from_iterator(text, trainers.BpeTrainer(vocab_size=500, show_progress=False, special_tokens=["<unk>", "</s>"], limit_alphabet=100))
    t.add_tokens([AddedToken("<x>", normalized=False)])
    return t


def splits(text):
    t = Tokenizer(models.BPE(unk_token="<unk>", continuing_subword_prefix="@@"))
    t.normalizer = normalizers.Strip(left=True, right=False)
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split("an", "merged_with_previous"), pre_tokenizers.Split("e", "merged_with_next"),
        pre_tokenizers.Split(" ", "contiguous", invert=True), pre_tokenizers.CharDelimiterSplit("-"), pre_tokenizers.Punctuation("removed"),
        pre_tokenizers.Digits(), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    t.train_from_iterator(text, trainers.BpeTrainer(vocab_size=500, show_progress=False, special_tokens=["<unk>"], continuing_subword_prefix="@@"))
    return t


CASES = {"gpt2": bpe_bytes, "roberta": roberta, "bert": bert, "bert_template": bert_template, "words": words, "ends": ends,
         "fallback": fallback, "metaspace": metaspace, "splits": splits}


def settled(c):
    """Whether a character had its properties in Unicode 3.2: the libraries' tables have different later versions."""
    old, new = (database.category(chr(c)) for database in (unicodedata.ucd_3_2_0, unicodedata))
    return old == new and old != "Cn"


def character(rng, first, last):
    while True:
        c = rng.randrange(first, last)
        if settled(c):
            return chr(c)


def random_strings(text, t, count, seed):
    """Strings of words, tokens, and characters of all kinds; some with bytes that are not UTF-8."""
    rng = random.Random(seed)
    vocab = [a.content for a in t.get_added_tokens_decoder().values()]
    pools = [lambda: rng.choice(rng.choice(text).split() or [" "]), lambda: rng.choice(vocab or ["x"]),
             lambda: chr(rng.randrange(32, 127)), lambda: chr(rng.randrange(0, 32)),
             lambda: chr(rng.choice([0x300, 0x301, 0x308, 0x327, 0x323, 0x1161, 0x11A8, 0x200D, 0x3099, 0x5B4])),
             lambda: character(rng, 0x80, 0x600), lambda: character(rng, 0x600, 0x2000), lambda: character(rng, 0x2000, 0x3100),
             lambda: character(rng, 0x3100, 0xD800), lambda: character(rng, 0xE000, 0x10000),
             lambda: character(rng, 0x1D000, 0x1D800), lambda: character(rng, 0x20000, 0x2FA20), lambda: character(rng, 0xF0000, 0x10FFFE),
             lambda: chr(rng.randrange(0x1F300, 0x1F5FF)),
             lambda: rng.choice(WIDE), lambda: " " * rng.randrange(1, 4), lambda: rng.choice(["'s", "'re", "'ll", "'", " '"]),
             lambda: rng.choice(text)]
    made = []
    for i in range(count):
        some = rng.sample(pools, rng.randrange(1, 6))
        s = "".join(rng.choice(some)() + rng.choice(["", " ", ""]) for _ in range(rng.randrange(0, 14)))
        b = s.encode()
        if i % 10 == 9 and b:
            broken = bytearray(b)
            for _ in range(rng.randrange(1, 4)):
                broken[rng.randrange(len(b))] = rng.randrange(256)
            if all(settled(ord(c)) or 0x1F000 <= ord(c) < 0x1FB00 for c in broken.decode("utf-8", "replace")):
                b = bytes(broken)
        made.append(b)
    return made


def expected(t, strings):
    texts = [s.decode("utf-8", "replace") for s in strings]
    lines = []
    for i, s in enumerate(texts):
        ids = t.encode(s).ids
        lines.append("|".join(["".join(f"{x} " for x in v) for v in (
            ids, t.encode(s, add_special_tokens=False).ids, t.encode(s, texts[(i + 1) % len(texts)]).ids)]
            + [t.decode(ids).encode().hex(), t.decode(ids, skip_special_tokens=False).encode().hex()]))
    return lines


def pack(strings):
    return b"".join(struct.pack("<I", len(s)) + s for s in strings)


def compare(tool, name, t, text, count, folder):
    json = folder / f"{name}.json"
    t.save(str(json), pretty=False)
    strings = random_strings(text, t, count, name)
    (folder / "strings").write_bytes(pack(strings))
    found = subprocess.run([tool, "encode", json, folder / "strings"], capture_output=True, text=True)
    if found.returncode:
        print(f"{name}: {found.stderr}")
        return 1
    wrong = 0
    for s, a, b in zip(strings, expected(t, strings), found.stdout.split("\n")):
        if a != b:
            wrong += 1
            if wrong <= 3:
                print(f"{name}: {s!r}\n  expected {a}\n  found    {b}")
    print(f"{name}: {len(strings)} strings, {wrong} differ", flush=True)
    return wrong


def compare_training(tool, text, folder):
    """Compares vocabularies and merges after training, for models whose training is deterministic in the other library."""
    import json
    wrong = 0
    (folder / "text").write_text("\n".join(text))
    lines = (folder / "text").read_text().split("\n")
    plain = Tokenizer(models.BPE(unk_token="<unk>"))
    plain.pre_tokenizer = pre_tokenizers.Whitespace()
    plain.train_from_iterator(lines, trainers.BpeTrainer(vocab_size=900, show_progress=False, special_tokens=["<unk>"]))
    level = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    level.normalizer, level.pre_tokenizer = normalizers.Lowercase(), pre_tokenizers.Whitespace()
    level.train_from_iterator(lines, trainers.WordLevelTrainer(vocab_size=900, show_progress=False, special_tokens=["[UNK]"]))
    for kind, t in (("bytes", bpe_bytes(lines, size=900, special=["<s>"])), ("plain", plain), ("words", level)):
        out = folder / "trained.json"
        subprocess.run([tool, "train", kind, "900", out, folder / "text"], check=True)
        a, b = json.loads(t.to_str())["model"], json.loads(out.read_text())["model"]
        Tokenizer.from_file(str(out))
        same = a["vocab"] == b["vocab"] and a.get("merges") == b.get("merges")
        print(f"training {kind}: {'equal' if same else 'DIFFERS'}, {len(b['vocab'])} tokens")
        wrong += not same
    out = folder / "trained.json"
    subprocess.run([tool, "train", "wordpiece", "900", out, folder / "text"], check=True)
    return wrong + compare(tool, "trained_wordpiece", Tokenizer.from_file(str(out)), text, 2000, folder)


def measure(tool, folder, cases):
    source = "\n".join(corpus())
    while len(source.encode()) < 1 << 20:
        source += "\n" + "\n".join(p.read_text() for p in sorted((ROOT / "docs").glob("*.md")))
    source = source.encode()[:1 << 20].decode("utf-8", "ignore")
    (folder / "long").write_text(source)
    for name in ("gpt2", "bert"):
        t = cases[name]
        t.save(str(folder / "t.json"))
        mine = subprocess.run([tool, "time", folder / "t.json", folder / "long"], capture_output=True, text=True).stdout.split()
        best = 1e30
        for _ in range(5):
            begin = time.perf_counter()
            n = len(t.encode(source).ids)
            best = min(best, time.perf_counter() - begin)
        print(f"{name}: 1 MiB in {float(mine[0]) / 1e3:.1f} ms ({mine[1]} ids); tokenizers {best * 1e3:.1f} ms ({n} ids)")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tool")
    parser.add_argument("--strings", type=int, default=20000)
    parser.add_argument("--write", type=pathlib.Path)
    parser.add_argument("--time", action="store_true")
    parser.add_argument("--only")
    o = parser.parse_args()
    text, wrong = corpus(), 0
    cases = {name: make(text) for name, make in CASES.items() if o.only in (None, name)}
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for name, t in cases.items():
            wrong += compare(o.tool, name, t, text, o.strings // len(cases), folder)
        if not o.only:
            wrong += compare_training(o.tool, text, folder)
        if o.time:
            measure(o.tool, folder, cases)
    if o.write:
        o.write.mkdir(exist_ok=True)
        for name, t in cases.items():
            t.save(str(o.write / f"{name}.json"), pretty=False)
            strings = random_strings(text, t, 20, name + " stored")
            lines = [s.hex() + "|" + e for s, e in zip(strings, expected(t, strings))]
            (o.write / f"{name}.vectors").write_text("\n".join(lines) + "\n")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
