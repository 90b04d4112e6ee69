r"""Makes notation canonical: text -> tokens.

This module changes notation, never meaning. It unifies spellings such as `≤`, `<=` and `\leqslant`,
or `\frac` and `\dfrac`, and removes `\left`, thin spaces, fonts and `\text{...}`. It keeps signs,
brackets, units, words and case.

A token is one of

    \name       a command; commands for fonts, spaces and sizes are removed
    "word       a word of running text, as in \text{cm}
    abc         adjacent letters of a formula; the parser splits them
    12.5        a decimal number without sign, also in scientific notation
    \{  (  +    a single sign

No text is evaluated, and every pattern takes time linear in the length of the text.
"""

import re

Tokens = tuple[str, ...]

TEXT = '"'  # prefix of a token of running text
LONGEST = 2000  # tokens that are read of a text; answers need fewer

# Each item is a sign and the name of the command that replaces it: ≤ becomes \leq.
_COMMANDS_OF_SIGNS = (
    "×times ⋅cdot ·cdot ∙cdot ≤leq ⩽leq ≥geq ⩾geq ≠neq ≈approx ∈in ∪cup ∩cap ∅emptyset ∞infty "
    "±pm ∓mp √sqrt °degree ºdegree πpi θtheta αalpha βbeta γgamma λlambda μmu φphi ωomega …ldots "
    "∀forall ℝmathbb{R} ℤmathbb{Z} ℕmathbb{N} ½frac{1}{2} ⅓frac{1}{3} ⅔frac{2}{3} ¼frac{1}{4} "
    "¾frac{3}{4}"
)
_SIGNS = {
    **{sign[0]: f" \\{sign[1:]} " for sign in _COMMANDS_OF_SIGNS.split()},
    **dict(zip("−–—÷∕’′＞＜＝，（）：？。、；", "---//''><=,():?.,;", strict=True)),
    "｛": r"\{",
    "｝": r"\}",
    "²": "^{2}",
    "³": "^{3}",
    "⁻": "^-",
    **{chr(0x2460 + index): f" {index + 1}, " for index in range(9)},  # ① to ⑨
    # Commands whose backslash and first letter became one control character.
    "\f": r"\f",
    "\b": r"\b",
    "\v": r"\v",
    "\a": r"\a",
    **dict.fromkeys("\u00a0\u2009\u202f", " "),  # no-break and thin spaces
    **dict.fromkeys("\u2061\u200b", ""),  # signs without width
}
_SIGNS_TABLE = str.maketrans(_SIGNS)

# Patterns and their replacements, which `tokens` applies in this order.
_SPELLINGS = [
    # A command with a doubled backslash. Not applied to matrices, where \\ ends a row.
    (re.compile(r"\\\\(?=[a-zA-Z])(?!begin|end)"), "\\\\"),
    (re.compile(r"\\n(?![a-zA-Z])"), " "),  # an escaped newline
    (re.compile(r"(?<![0-9)!}])!="), r"\\neq "),  # after a number, ! is a factorial: 3!=6
    (re.compile(r"<="), r"\\leq "),
    (re.compile(r">="), r"\\geq "),
    (re.compile(r"=="), "="),
    (re.compile(r"\*\*"), "^"),
    (re.compile(r"\bnp\."), ""),  # NumPy's functions in code
    (re.compile(r"(?<![a-zA-Z])([aApP])\.[ ]?([mM])\b\.?"), r"\1\2"),  # a.m. as am
    (re.compile(r"\.{2,}|\.(?:[ ]\.){2,}"), r"\\ldots "),  # an omission, which is no punctuation
    (re.compile(r"\\q?quad"), r" "),
    (re.compile(r"(?<!\\)\\[,;:! ]|~"), " "),
    (re.compile(r"\\not\s*="), r"\\neq "),
    # Colours, frames and sizes.
    (re.compile(r"\\(?:text)?color(?:box)?[ ]?\{[^{}]*\}"), " "),
    (re.compile(r"\\fcolorbox[ ]?\{[^{}]*\}[ ]?\{[^{}]*\}"), " "),
    (re.compile(r"\\(?:framebox|bbox)(?:\[[^\[\]]*\]|(?![a-zA-Z]))"), " "),
    # What is not visible, or no part of the answer.
    (re.compile(r"\\(?:[hv]?phantom|[hv]space|tag|label)\*?[ ]?\{[^{}]*\}"), " "),
    (re.compile(r"\{:\}"), ":"),
    # A derivative by x, as y'.
    (re.compile(r"\\[dt]?frac\{d([a-wyz])\}\{dx\}|\bd([a-wyz])/dx\b"), r"\1\2'"),
    (re.compile(r"\\(?:tiny|small|normalsize|large|Large|LARGE|huge|Huge)(?![a-zA-Z])"), " "),
    # Binomial coefficients: {10 \choose 3}, _{10}C_3, ^{10}C_3.
    (re.compile(r"\{([^{}\\]{1,40})\\choose(?![a-zA-Z])([^{}\\]{1,40})\}"), r"\\binom{\1}{\2}"),
    (re.compile(r"^([^{}\\]{1,40})\\choose(?![a-zA-Z])([^{}\\]{1,40})$"), r"\\binom{\1}{\2}"),
    (
        re.compile(
            r"(?<![^\s(=+*-])(?:\{\})?[_^](?:\{([0-9a-z]{1,9})\}|([0-9a-z]))[ ]?"
            r"(?:\\mathrm\{C\}|C)_(?:\{([0-9a-z]{1,9})\}|([0-9a-z]))"
        ),
        r"\\binom{\1\2}{\3\4}",
    ),
    # Other ends of a row: \\[2pt], \cr, \newline.
    (re.compile(r"\\\\\[[0-9.]+[a-z]{2}\]|\\(?:cr|newline|tabularnewline)(?![a-zA-Z])"), r"\\\\ "),
    (re.compile(r"\\not\s*\\in(?![a-zA-Z])"), r"\\notin "),
    (re.compile(r"\\(?:left|right)\s?\.(?![0-9])"), " "),  # an invisible bracket
]

# Groups of three digits: 12{,}000, 12,\!000, 12 000 and 12'000 are one number in any context.
_COMMA_WITHIN = re.compile(r"(?<=[0-9])(?:\{,\}|,\\!)[ ]?(?=[0-9]{3}(?![0-9]))")
_SPACED_THOUSANDS = re.compile(
    r"(?<![0-9.,^_{])[1-9][0-9]{0,2}(?:(?:\\[,;: ]|[ '_])[0-9]{3})+(?![0-9/])"
)
# 1.000.000, which is no decimal number.
_TWO_POINTS = re.compile(r"(?<![0-9.,])[1-9][0-9]{0,2}(?:\.[0-9]{3}){2,}(?![0-9.,])")
# Plain commas may also separate a list or, in brackets, a point.
_THOUSANDS = re.compile(r"(?<![0-9.,])[1-9][0-9]{0,2}(?:,[0-9]{3})+(?![0-9]|,[0-9])")
# (1,234) in any brackets, which is a point, an interval or a set.
_PAIR_IN_BRACKETS = re.compile(r"[(\[][ ]?[0-9]{1,3},[0-9]{3}[ ]?[)\]]|\\\{[0-9]{1,3},[0-9]{3}\\\}")
# 1.234,5 as some countries write 1234.5.
_POINTED_THOUSANDS = re.compile(r"(?<![0-9.,])[1-9][0-9]{0,2}(?:\.[0-9]{3})+,[0-9]+(?![0-9.,])")
# 0,5 or 2,74: a decimal number with a comma, or two numbers.
_DECIMAL_COMMA = re.compile(r"(?<![0-9.,])(?:0,[0-9]+|[0-9]+,[0-9]{2})(?![0-9.,])")

# In this order: the begin or end of an environment, running text with its argument, a command with
# a name, a command that is a sign, a number, letters, and any other sign.
_TOKEN = re.compile(
    r"\\(?:begin|end)\{[a-zA-Z]+\*?\}"
    r"|\\(?:text(?:rm|bf|it|sf|tt|up|normal)?|math(?:rm|sf)|mbox|hbox|operatorname)\*?"
    r"[ ]?\{[^{}]*\}"
    r"|\\[a-zA-Z]+"
    r"|\\[^a-zA-Z]"
    r"|(?:[0-9]+(?:\.[0-9]+|\.(?=\\overline|/))?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
    r"|[a-zA-Z]+"
    r"|\S"
)
# The beginning of running text in a token.
_OF_TEXT = re.compile(r"\\(?:text|math|mbox|hbox|operatorname)[a-z]*\*?[ ]?\{")

# The canonical name of a token, and its other names.
_NAMES = {
    r"\frac": r"\dfrac \tfrac \cfrac \rac",
    r"\binom": r"\dbinom \tbinom",
    r"\leq": r"\le \leqslant",
    r"\geq": r"\ge \geqslant",
    "<": r"\lt",
    ">": r"\gt",
    r"\neq": r"\ne",
    r"\{": r"\lbrace",
    r"\}": r"\rbrace",
    "[": r"\lbrack",
    "]": r"\rbrack",
    "(": r"\lparen",
    ")": r"\rparen",
    "|": r"\mid \vert \lvert \rvert",
    ":": r"\colon",
    "*": r"\times \cdot \ast",
    "/": r"\div",
    r"\infty": r"\infin",
    r"\circ": r"\textcirc",
    "'": r"\prime",
    r"\cup": r"\cupdot \sqcup",
    r"\setminus": r"\backslash",
    r"\emptyset": r"\varnothing",
    r"\degree": r"\degrees",
    r"\epsilon": r"\varepsilon",
    r"\phi": r"\varphi",
    "e": r"\exponentialE",
    r"\ldots": r"\dots \cdots",
    "or": r"\lor \vee",
    "and": r"\land \wedge",
    r"\approx": r"\simeq \sim",
    r"\%": "%",
    TEXT + "dollar": r"\$",
    TEXT + "euro": "€",
    TEXT + "GBP": "£",
}
_CANONICAL = {name: canonical for canonical, names in _NAMES.items() for name in names.split()}
# Commands and signs that do not change what a text means.
_DROPPED_COMMANDS = (
    r"\left \right \middle \big \Big \bigg \Bigg \bigl \bigr \Bigl \Bigr \biggl \biggr \Biggl "
    r"\Biggr \displaystyle \textstyle \scriptstyle \limits \nolimits \hfill \mathbf \mathit "
    r"\boldsymbol \bm \mathcal \boxed \fbox \rm \bf \it \text \mathrm \mbox \( \) \[ \] $ ` "
    r"\ensuremath \emph \mathsf \mathtt \pmb \enspace \checkmark \centering "
    r"\nonumber \hline \operatorname \therefore \implies \/ \underline"
)
_DROPPED = set(_DROPPED_COMMANDS.split()) | {"\\"}
_FUNCTIONS = (
    "sin cos tan cot sec csc arcsin arccos arctan arccot sinh cosh tanh ln log lg exp sqrt gcd lcm "
    "max min cis"
)
# Words that stand for a command, in a formula or in running text.
_WORDS = {
    **{name: "\\" + name for name in _FUNCTIONS.split()},
    **dict.fromkeys(("infinity", "infty", "inf", "oo"), r"\infty"),
    **dict.fromkeys(("percent", "percentage", "pct"), r"\%"),
    **dict.fromkeys(("degree", "degrees", "deg"), r"\degree"),
    **{name: "\\" + name for name in ("pi", "theta", "alpha", "beta", "gamma", "lambda")},
    "approximately": r"\approx",
    "asin": r"\arcsin",
    "acos": r"\arccos",
    "atan": r"\arctan",
    "and": "and",
    "or": "or",
}


_REPAIRS = [
    # Commands whose backslash and first letter became a tab or a carriage return.
    (re.compile(r"\t(?=ext|imes|heta|an|frac|riangle)"), r"\\t"),
    (re.compile(r"\r(?=ight|ho)"), r"\\r"),
    # Styles of formulas. They precede an answer, so that later patterns find its beginning.
    (re.compile(r"\\(?:display|text|script)style(?![a-zA-Z])[ ]?"), ""),
    (re.compile(r"^\s*#{2,6}[ ]*"), ""),  # the mark of an answer in GSM8K
    (re.compile(r"<sup>([^<>]*)</sup>"), r"^{\1}"),
    (re.compile(r"<sub>([^<>]*)</sub>"), r"_{\1}"),
    (re.compile(r"^\s*\*{1,2}([^*]+)\*{1,2}\s*$"), r"\1"),  # bold and italic type of Markdown
    (re.compile(r"^\s*<([^<>=]+,[^<>=]+)>\s*$"), r"(\1)"),  # a vector <1,2>
    (re.compile(r"\\text\{([^{}]*[\u4e00-\u9fff][^{}]*)\}"), r"\1"),  # Chinese words
]
# Chinese words with a meaning of their own, and units as words and exponents.
_CHINESE_WORDS = {
    "无解": r"\text{no solution}",
    "不存在": r"\text{does not exist}",
    "全体实数": r"\mathbb{R}",
    "所有实数": r"\mathbb{R}",
    "以及": " and ",
    "及": " and ",
    "和": " and ",
    "与": " and ",
    "且": " and ",
    "或": " or ",
    "个": " ",  # after a number, 个 and 种 only count things
    "种": " ",
    "度": r"^\circ",
}
_CHINESE_UNITS = (
    ("平方千米", "km", "^2"),
    ("平方厘米", "cm", "^2"),
    ("平方毫米", "mm", "^2"),
    ("平方米", "m", "^2"),
    ("立方厘米", "cm", "^3"),
    ("立方米", "m", "^3"),
    ("千米", "km", ""),
    ("公里", "km", ""),
    ("厘米", "cm", ""),
    ("公分", "cm", ""),
    ("毫米", "mm", ""),
    ("米", "m", ""),
    ("千克", "kg", ""),
    ("公斤", "kg", ""),
    ("克", "g", ""),
    ("毫升", "mL", ""),
    ("升", "L", ""),
    ("小时", "hours", ""),
    ("分钟", "minutes", ""),
    ("秒", "s", ""),
    ("天", "days", ""),
    ("年", "years", ""),
    ("元", "yuan", ""),
)
_CHINESE_WORDS |= {name: rf"\text{{ {unit}}}" + power for name, unit, power in _CHINESE_UNITS}
# A single character may also be a part of another word, as 米 is of 玉米 and 米饭. It stands alone
# after a sign that is not Chinese; a unit also before such a sign.
_UNITS_OF_ONE = "".join(name for name, _, _ in _CHINESE_UNITS if len(name) == 1) + "度"
_JOINTS_OF_ONE = "及和与且或个种"
_CHINESE = re.compile(
    "|".join(name for name in _CHINESE_WORDS if len(name) > 1)
    + rf"|(?<=[!-~])[{_UNITS_OF_ONE}](?![\u4e00-\u9fff])"
    + rf"|(?<=[!-~][ ])[{_UNITS_OF_ONE}](?![\u4e00-\u9fff])"
    + rf"|(?<=[!-~])[{_JOINTS_OF_ONE}]|(?<=[!-~][ ])[{_JOINTS_OF_ONE}]"
)


def repaired(text: str) -> str:
    """Convert non-ASCII signs, HTML and damaged escapes to LaTeX."""
    text = text.translate(_SIGNS_TABLE)
    for pattern, latex in _REPAIRS:
        text = pattern.sub(latex, text)
    if not text.isascii():
        text = _CHINESE.sub(lambda word: _CHINESE_WORDS[word[0]], text)
    return text


def spellings(text: str) -> list[Tokens]:
    """The sequences of tokens that a text may mean.

    There are several only if digits and commas are ambiguous: `1,234, 5` is two numbers or three,
    and 2,74 at the beginning is a decimal number or two numbers.
    """
    text = _COMMA_WITHIN.sub("", text)
    for pattern in (_SPACED_THOUSANDS, _TWO_POINTS):
        text = pattern.sub(lambda number: re.sub(r"[^0-9]", "", number[0]), text)
    if not any(bracket in text for bracket in "([{"):
        text = _POINTED_THOUSANDS.sub(
            lambda number: number[0].replace(".", "").replace(",", "."), text
        )
    if _THOUSANDS.fullmatch(text.strip(" .$")):
        texts = [text.replace(",", "")]
    elif _THOUSANDS.search(text) and not _PAIR_IN_BRACKETS.search(text):
        texts = [_THOUSANDS.sub(lambda number: number[0].replace(",", ""), text), text]
    else:
        texts = [text]
    if text.count(",") == 1 and _DECIMAL_COMMA.match(text.lstrip(" $-")):
        texts.append(text.replace(",", "."))
    return [tokens(spelling) for spelling in texts]


def tokens(text: str) -> Tokens:
    """The canonical tokens of a text, without the punctuation around it."""
    for pattern, canonical in _SPELLINGS:
        if canonical == "\\\\" and r"\begin" in text:  # see the first spelling
            continue
        text = pattern.sub(canonical, text)
    items = _canonical(text, in_text=False)[:LONGEST]
    return trimmed(tuple(_braced(_scripts(items))))


def trimmed(items: Tokens) -> Tokens:
    """Tokens without the punctuation at their beginning and end."""
    start = 0
    end = len(items)
    while start < end and items[start] in _PUNCTUATION:
        start += 1
    while start < end and items[end - 1] in _PUNCTUATION:
        end -= 1
    return items[start:end]


# A question mark is not punctuation: `7?` leaves open whether the answer is 7.
_PUNCTUATION = {".", ",", ";", ":", "\\\\", "&"}


def _canonical(text: str, in_text: bool) -> list[str]:
    r"""Split a text into tokens with canonical names.

    Args:
        in_text: whether letters are words, as in \text{...}, instead of variables.
    """
    items = []
    for token in _TOKEN.findall(text):
        opening = _OF_TEXT.match(token)
        if opening and not token.startswith((r"\mathbb", r"\mathbf")):
            items += _canonical(token[opening.end() : -1], in_text=True)
        elif token.isalpha():
            items.append(_WORDS.get(token.lower(), TEXT + token if in_text else token))
        elif token not in _DROPPED:
            items.append(_CANONICAL.get(token, token))
    return items


def _braced(items: list[str]) -> list[str]:
    r"""Add braces to \frac12, \frac1{2} and \frac ab: a bare argument is one digit or letter."""
    # From the end, so that the arguments of a command have their own braces already.
    following: list[str] = []  # the tokens after the current one, in reverse
    for token in reversed(items):
        if token in (r"\frac", r"\binom"):
            first = _argument(following)
            second = _argument(following)
            following += ["}"] + second[::-1] + ["{"]
            following += ["}"] + first[::-1] + ["{"]
        following.append(token)
    return following[::-1]


def _argument(following: list[str]) -> list[str]:
    """Remove the next argument from the tokens that follow, and return it without braces.

    Args:
        following: the tokens in reverse order. If the argument is the first digit or letter of a
            token, the rest of the token stays.
    """
    if not following:
        return []
    token = following.pop()
    if token != "{":
        if not token.isalnum():
            return [token]
        if len(token) > 1:
            following.append(token[1:])
        return [token[0]]
    argument: list[str] = []
    depth = 1
    while following:
        token = following.pop()
        depth += (token == "{") - (token == "}")
        if depth == 0:
            break
        argument.append(token)
    return argument


# Exponents that are no powers: x^{\circ} is x degrees, f^{\prime} is f'.
_MARKS = {r"\circ": r"\degree", r"\degree": r"\degree", "'": "'"}


def _scripts(items: list[str]) -> list[str]:
    r"""Write a_{n} as a_n, \pmod{3} as \pmod 3, ^{\circ} as \degree and ^\prime as a prime."""
    text: list[str] = []
    # Each slice compares the tokens before the current one; it is empty at the beginning.
    for token in items:
        text.append(token)
        if token in _MARKS and text[-2:-1] == ["^"]:
            text[-2:] = [_MARKS[token]]
        elif token == "}" and text[-3:-2] == ["{"]:
            argument = text[-2]
            if text[-4:-3] == ["^"] and argument in _MARKS:
                text[-4:] = [_MARKS[argument]]
            elif text[-4:-3] in (["_"], [r"\pmod"]):
                text[-3:] = [argument]
    return text
