"""The texts of the tokenizer vectors: what a tokenizer meets, and what breaks one."""
import random
import unicodedata

# Merges are learned from this too, so that other scripts have tokens of several bytes.
MULTILINGUAL = """\
Es war einmal ein König, der hatte drei Söhne; der jüngste aber hieß der Dummling.
Il était une fois une petite fille, la plus jolie qu'on eût su voir; sa mère en était folle.
Érase una vez un molinero muy pobre: «¡Nada me queda!», decía. ¿Quién lo habría pensado?
Жил-был старик со старухою у самого синего моря; они жили в ветхой землянке.
Μια φορά κι έναν καιρό ήταν ένας βασιλιάς που είχε τρεις κόρες.
كان يا ما كان في قديم الزمان ملك له ثلاث بنات، وكانت الصغرى أجملهن.
היה היה מלך זקן ולו שלושה בנים, והצעיר שבהם יצא לדרך.
एक समय की बात है, एक राजा था। उसकी तीन बेटियाँ थीं और छोटी बहुत दयालु थी।
从前有一个国王，他有三个儿子。最小的儿子走进了森林，遇见了一只会说话的狐狸。
むかしむかし、あるところに、おじいさんとおばあさんがいました。カラスが鳴いた。
옛날 옛적에 한 임금님이 살았습니다. 임금님에게는 세 아들이 있었습니다.
Ngày xửa ngày xưa, ở một làng nọ có hai anh em, người anh tham lam, người em hiền lành.
กาลครั้งหนึ่งนานมาแล้ว มีพระราชาองค์หนึ่ง
Bir varmış bir yokmuş, ıssız bir köyde İhsan adında bir çoban yaşarmış.
"""

# Tokens that reach across the cuts a pre-tokenizer makes: only a right cut gives the right ids.
ACROSS = ["12", "123", "1234", "12345", "000", "00000", "56", "2026", "3.", ".5", "\n\n", "\r\n", "\r\n\r\n", " \n", "\n ",
          "  ", "    ", "        ", "\t\t", " \t", "'s", "'S", "'ll", "'LL", "n't", "’s", "s'", "e'", "aa", "aaaa", "aaaaaaaa",
          "!!", "!!!", "...", "),", ");", "(x", " (", "x1", "1x", "_a", "a_", "//", "e.g", "a-", "-b", "\u00a0\u00a0",
          "\u3000\u3000", "三个", "。最", "한 임", "ा।", "ё1", "²", "½", "é", "e\u0301", "\u1112\u1161", "👩\u200d", "🙂🙂", "。”",
          "<|", "|>", "ABC", "aB", "Ba", "HTTP", "McD", "eB",
          "ſt", "राजा", "की", "ती", "بَ", "مُ", "z\u0335", "0x", "n\"", "re's", "I'm", "K\u212a", "¿Q", " «", ", y", "d!", "o^", "a/"]

PLAIN = [
    "",
    " ",
    "  ",
    "   \t  ",
    "\n",
    "\n\n\n",
    "\r\n",
    " \n \n",
    "a",
    " a",
    "a ",
    "Once upon a time there was a king who had three sons.",
    "The old woman said: \"Go home, my child, and be good.\"",
    "trailing spaces   ",
    "   leading spaces",
    "two  spaces   three    four     five",
    "line one\nline two\n\nline four\n",
    "para one.\r\n\r\npara two.\r\n",
    "mixed\n\r\n\r\rends \n  x\n\t y",
    "tab\tand\t\ttabs\t\t\tand \t mixed \t\t x",
    "def f(x1, y_2):\n\tif x1 >= 0x1F:\n\t\treturn {'a': [1, 2.50, -3e-10]}  # done\n",
    "for (int i=0;i<n;++i){ a[i]+=b[i]*c; }\r\n// e.g. path/to/file.c\r\n",
    "<div class=\"a-b\">&amp; text</div>",
    "https://example.org/a/b?c=1&d=%20#e",
    "1",
    "12 123 1234 12345 123456 1234567 0001000",
    "In 2026, 1,234,567.89 of 10^6 -- 50% ... v1.2.3",
    "x1 1x a1b2c3 ½ ² ³ Ⅷ ٣٤٥ १२३ １２３ ①②",
    "I'm you're he's we'll they'd I've don't",
    "I'M YOU'RE HE'S WE'LL THEY'D I'VE DON'T",
    "it’s we’ll ’s 's 'S 'll 'LL 'Ll '' 'x s' ' s",
    "'\u017f \u212a K\u212a 'ſtraße",
    "HTTPServer McDonald iPhone ABCdef aBcD XMLHttp ÀÉÎ Éa",
    "snake_case _lead trail_ __init__ a__b",
    "hello!!! what?!? (yes), [no]; {maybe}... -- — – • …",
    "!a !!a ?B .net #tag @user $x ^y ~z `code`",
    "从前有一个国王，他有三个儿子。“最小的”儿子",
    "日本語とカタカナ、ひらがな。ｶﾀｶﾅ ㌔ 々〆",
    "中文English混合123数字，标点！",
    "옛날 옛적에 한 임금님이",
    "\u1112\u1161\u11ab\u1100\u1173\u11af",
    "كان يا ما كان، في قديم الزمان ١٢٣",
    "مُحَمَّدٌ",
    "היה היה מלך",
    "एक समय की बात है। क्षत्रिय ज़िंदगी",
    "กาลครั้งหนึ่งนานมาแล้ว",
    "Ngày xửa ngày xưa",
    "Nga\u0300y xu\u031b\u0309a nga\u0300y xu\u031ba",
    "cafe\u0301 caf\u00e9 A\u030a \u212b \u00c5 \u1e9b\u0323",
    "a\u0323\u0307 a\u0307\u0323 \u0344 \u0958 \u2126 \u2000\u2001x",
    "\u0301lone mark, e\u0301\u0301\u0301\u0301 z\u0335\u0336\u0489",
    "Жил-был старик Ёё Йй",
    "Μια φορά κι έναν καιρό ΣΑΣ",
    "İstanbul ıssız",
    "👩‍👩‍👧‍👦 🙂🙂 👍🏽 🇩🇪🇫🇷 ❤️ 1️⃣",
    "\U0001f9d9\u200d\u2642\ufe0f\U0001f3fb",
    "nbsp\u00a0here\u00a0\u00a0two \u00a0mixed",
    "ideographic\u3000space\u3000\u3000 x \u2003em\u202f \u205f",
    "zero\u200bwidth \ufeffbom \u2060 \u00ad soft",
    "nel\u0085x ls\u2028x ps\u2029x vt\x0bx ff\x0cx fs\x1cx",
    "nul\x00inside \x01\x7f",
    "\ufffd replacement \ufffe \U0010ffff \ue000",
    "\U0001d54f\U0001d400 \U00020000\U0002a6d6",
    "a\n ",
    "a \n b  \n\n  c",
    "x   \n",
    "   \n   x",
    " \u00a0 \t x",
]

REPEATS = [("a", 10000), (" ", 3000), ("\n", 1000), ("ab", 2000), ("1", 1000), ("é", 500), ("!", 700), ("\u0301", 300),
           ("从", 400), (" a", 600)]


def special(tokens):
    """Texts with the added tokens of one tokenizer inside prose."""
    out = []
    for t in tokens:
        out += [t, f"before{t}after", f" {t} ", t + t, f"x {t}\n{t}y", t[:-1], t[1:]]
    if len(tokens) > 1:
        out.append("The king " + " said ".join(tokens) + " end.")
        out.append("".join(tokens) + "  two")
    return out


def random_texts(count, length):
    """Seeded code points that were already assigned in Unicode 3.2: every library knows them alike."""
    draw = random.Random(20)
    known = unicodedata.ucd_3_2_0
    ranges = [(0x20, 0x7f), (0x00, 0x20), (0xa0, 0x250), (0x300, 0x370), (0x370, 0x600), (0x600, 0x780), (0x900, 0xe80),
              (0x1100, 0x1200), (0x1e00, 0x2000), (0x2000, 0x2800), (0x3000, 0x3400), (0x4e00, 0x9fa0), (0xac00, 0xd7a4),
              (0xf900, 0xfb00), (0xfb00, 0x10000), (0x10300, 0x10430), (0x1d400, 0x1d800), (0x20000, 0x2a6d0)]
    out = []
    for _ in range(count):
        text = ""
        while len(text) < length:
            low, high = ranges[0] if draw.random() < 0.3 else draw.choice(ranges)
            c = chr(draw.randrange(low, high))
            if known.category(c) not in ("Cn", "Cs"):
                text += c
        out.append(text)
    return out
