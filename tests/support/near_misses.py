r"""Wrong predictions that look almost like the answer, made so that each is wrong by construction.

Each function of KINDS draws an answer and predictions that differ from it in one respect: a number,
a sign, the order, an item, an end, a unit, a letter, or an alternative that is added.
"""

import random
from collections.abc import Callable, Iterator
from math import gcd, prod

Pair = tuple[str, str]
Drawn = tuple[str, list[str]]  # an answer, and wrong predictions

UNITS = ("cm", "m", "km", "kg", "g", "hours", "minutes", "liters", "feet", "inches", "miles")
SEQUELS = ("?", "...", "..", r"\ldots", " ?", ", ...")  # an answer with these is none
NAMES = ("Maximum", "Minimum")
OPENING = {True: "(", False: "["}
CLOSING = {True: ")", False: "]"}


def near_misses(seed: int, rounds: int) -> Iterator[Pair]:
    """Pairs of an answer and a wrong prediction; each kind of answer is drawn `rounds` times."""
    draw = random.Random(seed)
    for _ in range(rounds):
        for kind in KINDS:
            answer, wrong = kind(draw)
            for prediction in wrong:
                if prediction != answer:
                    yield answer, prediction
            for sequel in SEQUELS:
                yield answer, answer + sequel
            other = draw.randint(800, 900)  # larger than any number below
            yield answer, rf"{answer} \text{{ or }} {other}"
            yield answer, f"{answer} or {other}"
            yield answer, rf"\text{{not }} {answer}"
            yield answer, f"The answer is either ${answer}$ or ${other}$."
            yield answer, f"The answer is ${answer}$?"
            yield answer, f"The answer is not ${answer}$."


def distinct(draw: random.Random, count: int) -> list[int]:
    """Numbers with different absolute values, none of which is 0 or 1."""
    numbers = draw.sample(range(2, 60), count)
    return [number * draw.choice((1, 1, -1)) for number in numbers]


def changed(draw: random.Random, numbers: list[int]) -> list[int]:
    """The numbers with one of them replaced."""
    place = draw.randrange(len(numbers))
    return numbers[:place] + [draw.randint(100, 200)] + numbers[place + 1 :]


def negated(draw: random.Random, numbers: list[int]) -> list[int]:
    """The numbers with the sign of one of them changed."""
    place = draw.randrange(len(numbers))
    return numbers[:place] + [-numbers[place]] + numbers[place + 1 :]


def listed(numbers: list[int], joint: str = ", ") -> str:
    return joint.join(map(str, numbers))


def integer(draw: random.Random) -> Drawn:
    n, m = distinct(draw, 2)
    wrong = [f"{-n}", f"{n + 1}", f"{n - 1}", f"{n}0", f"{n}1", f"{n}^2", f"{n}i"]
    if n != 2:
        wrong.append(f"{n}!")
    wrong += [f"{n}, {m}", f"{n} or {m}", rf"{n} \lor {m}", rf"{n}\text{{ and }}{m}", f"{n}/{m}"]
    wrong += [rf"\{{{n}, {m}\}}", f"({n}, {m})", f"[{n}, {m}]", rf"\pm {abs(n)}", rf"{n} \pm {m}"]
    wrong += [rf"\frac{{1}}{{{n}}}", f"x > {n}", rf"x \geq {n}", f"|x| = {n}", f"{n} = {m}"]
    wrong += [rf"{n}\text{{ million}}", rf"{n}\text{{ or more}}", rf"\text{{about }} {n}", f"{n}.5"]
    wrong += [
        f"It is {n} times as large.",
        f"The answer is less than {n}.",
        f"{n} + {m}",
        f"-({n})",
    ]
    wrong += [rf"{n}, \text{{ or }} {m}", f"either {n} or {m}", f"{n} vs {m}", f"{n}; {m}"]
    wrong += [rf"\sqrt{{{abs(n)}}}", f"?{n}", f"{n} and/or {m}", f"{n}|{m}", f"{n} mod {abs(m)}"]
    return str(n), wrong


def fraction(draw: random.Random) -> Drawn:
    p, q = draw.choice([(p, q) for p in range(2, 30) for q in range(2, 30) if gcd(p, q) == 1])
    wrong = [rf"\frac{{{q}}}{{{p}}}", rf"\frac{{{p + 1}}}{{{q}}}", rf"\frac{{{p}}}{{{q + 1}}}"]
    wrong += [
        rf"-\frac{{{p}}}{{{q}}}",
        rf"1\frac{{{p}}}{{{q}}}",
        f"{p}",
        f"{p}, {q}",
        f"({p}, {q})",
    ]
    wrong += [
        rf"\frac{{{p}}}{{{q}}}, \frac{{{p + 1}}}{{{q}}}",
        rf"\pm\frac{{{p}}}{{{q}}}",
        f"{q}:{p}",
    ]
    wrong += [f"{p}/{q} or {q}/{p}", f"{p}/{q}, {q}/{p}", f"{p}{q}", f"{p / q + 0.01:.4f}"]
    return rf"\frac{{{p}}}{{{q}}}", wrong


def decimal(draw: random.Random) -> Drawn:
    n = draw.randint(1, 99)
    digits = draw.randint(11, 98)
    wrong = [f"{n}.{digits + 1}", f"{n + 1}.{digits}", f"-{n}.{digits}", f"{n}{digits}", f"{n}"]
    wrong += [
        f"{n}.{digits}1",
        f"{n}.0{digits}",
        f"{n}.{digits}5",
        f"{n}:{digits}",
        f"({n}, {digits})",
    ]
    wrong += [rf"{n}.\overline{{{digits}}}", f"{n}.{digits}, {n}", f"{n} or {n}.{digits}"]
    return f"{n}.{digits}", wrong


def point(draw: random.Random) -> Drawn:
    numbers = distinct(draw, draw.choice((2, 2, 3, 4)))
    wrong = [f"({listed(numbers[::-1])})", f"({listed(changed(draw, numbers))})", str(numbers[0])]
    wrong += [f"({listed(negated(draw, numbers))})", f"({listed(numbers + [77])})"]
    wrong += [rf"\{{{listed(numbers)}\}}", listed(numbers, " or "), listed(numbers, r" \lor ")]
    wrong += [listed(numbers, r"\text{ or }"), f"({listed(numbers[1:] + numbers[:1])})"]
    wrong += [
        f"x = {listed(numbers, ' or x = ')}",
        listed(numbers[::-1]),
        f"({listed(numbers)}, ...)",
    ]
    wrong += [f"({listed(numbers)}) or ({listed(numbers[::-1])})", f"-({listed(numbers)})"]
    boxes = [rf"\boxed{{{number}}}" for number in numbers]
    wrong += [" or ".join(boxes), rf"({numbers[0]}, \pm {listed(numbers[1:])})"]
    return f"({listed(numbers)})", wrong


def opposite_coordinates(draw: random.Random) -> Drawn:
    n = draw.randint(2, 90)
    wrong = [rf"\pm {n}", rf"x = \pm {n}", rf"\{{{n}, -{n}\}}", f"(-{n}, {n})", f"{n} or -{n}"]
    return f"({n}, -{n})", wrong


def column(draw: random.Random) -> Drawn:
    numbers = distinct(draw, draw.choice((2, 3)))

    def written(entries: list[int]) -> str:
        rows = listed(entries, r" \\ ")
        return rf"\begin{{pmatrix}} {rows} \end{{pmatrix}}"

    wrong = [
        written(numbers[::-1]),
        written(changed(draw, numbers)),
        written(negated(draw, numbers)),
    ]
    wrong += [listed(numbers, " or "), rf"\{{{listed(numbers)}\}}", written(numbers + [77])]
    return written(numbers), wrong


def matrix(draw: random.Random) -> Drawn:
    a, b, c, d = distinct(draw, 4)

    def written(entries: tuple[int, int, int, int]) -> str:
        first, second, third, fourth = entries
        return rf"\begin{{pmatrix}} {first} & {second} \\ {third} & {fourth} \end{{pmatrix}}"

    wrong = [
        written((a, c, b, d)),
        written((c, d, a, b)),
        written((a, b, c, -d)),
        f"{a * d - b * c}",
    ]
    wrong += [written((a, b, c, 777)), f"({a}, {b}, {c}, {d})", f"[[{a}, {c}], [{b}, {d}]]"]
    return written((a, b, c, d)), wrong


def collected(draw: random.Random) -> Drawn:
    numbers = distinct(draw, draw.choice((2, 3, 4)))
    wrong = [rf"\{{{listed(changed(draw, numbers))}\}}", rf"\{{{listed(negated(draw, numbers))}\}}"]
    wrong += [rf"\{{{listed(numbers[1:])}\}}", rf"\{{{listed(numbers + [77])}\}}", str(numbers[0])]
    wrong += [rf"\{{{listed(numbers)}, ...\}}", rf"\{{{listed(numbers)}, \ldots\}}"]
    wrong += [rf"\mathbb{{R}} \setminus \{{{listed(numbers)}\}}", f"[{numbers[0]}, {numbers[1]}]"]
    return rf"\{{{listed(numbers)}\}}", wrong


def several(draw: random.Random) -> Drawn:
    numbers = distinct(draw, draw.choice((2, 3)))
    wrong = [listed(changed(draw, numbers)), listed(negated(draw, numbers)), listed(numbers[1:])]
    wrong += [listed(numbers + [77]), f"{listed(numbers)}, ...", f"..., {listed(numbers)}"]
    wrong += [f"{listed(numbers)}, \\ldots", f"x = {listed(numbers + [77])}", f"{numbers[0]}"]
    return listed(numbers), wrong


def interval(draw: random.Random) -> Drawn:
    low, high = sorted(distinct(draw, 2))
    left_open = draw.random() < 0.5
    right_open = draw.random() < 0.5

    def written(left: bool, first: int, last: int, right: bool) -> str:
        return f"{OPENING[left]}{first}, {last}{CLOSING[right]}"

    wrong = [written(left_open, low, high + 1, right_open), f"{low}", f"x > {low}", f"x < {high}"]
    wrong += [written(left_open, low - 1, high, right_open), f"x > {low} or x < {high}"]
    wrong += [rf"{written(left_open, low, high, right_open)} \cup \{{777\}}", f"{low} or {high}"]
    wrong += [rf"\mathbb{{R}} \setminus {written(left_open, low, high, right_open)}"]
    if not (left_open and right_open):  # otherwise, the answer may also be a point
        wrong += [written(not left_open, low, high, right_open), f"{low} < x < {high}"]
        wrong += [written(left_open, low, high, not right_open)]
    return written(left_open, low, high, right_open), wrong


def union(draw: random.Random) -> Drawn:
    a, b, c, d = sorted(distinct(draw, 4))
    wrong = [f"({a}, {b}]", f"[{c}, {d})", f"({a}, {d})", rf"({a}, {b}] \cap [{c}, {d})"]
    wrong += [rf"({a}, {b}) \cup [{c}, {d})", rf"({a}, {b}] \cup [{c}, {d}]", f"{a} < x < {d}"]
    wrong += [rf"({a}, {b}] \cup [{c}, {d + 1})", rf"({a}, {b}] \setminus [{c}, {d})"]
    return rf"({a}, {b}] \cup [{c}, {d})", wrong


def inequality(draw: random.Random) -> Drawn:
    (n,) = distinct(draw, 1)
    wrong = [f"x > {n}", rf"x \leq {n}", f"x < {n + 1}", f"x < {-n}", f"x = {n}", rf"x \neq {n}"]
    wrong += [
        f"{n}",
        f"(-\\infty, {n}]",
        f"({n}, \\infty)",
        f"x < {n} or x > {n}",
        f"|x| < {abs(n)}",
    ]
    return f"x < {n}", wrong


def quantity(draw: random.Random) -> Drawn:
    (n,) = distinct(draw, 1)
    unit, other = draw.sample(UNITS, 2)
    wrong = [
        rf"{n}\text{{ {other}}}",
        f"{n} {other}",
        f"${n}$ {other}",
        f"The answer is {n} {other}.",
    ]
    wrong += [rf"{n + 1}\text{{ {unit}}}", rf"{-n}\text{{ {unit}}}", rf"{n}\text{{ {unit}}}^2"]
    wrong += [
        rf"{n}\text{{ {unit} per {other}}}",
        rf"{n}\text{{ {unit} or }}{n + 1}\text{{ {unit}}}",
    ]
    wrong += [rf"{n}\text{{ square {unit}}}", f"The answer is ${n}$ {other}.", rf"\${abs(n)}"]
    return rf"{n}\text{{ {unit}}}", wrong


def money(draw: random.Random) -> Drawn:
    n = draw.randint(2, 500)
    wrong = [
        f"€{n}",
        f"£{n}",
        rf"{n}\text{{ euros}}",
        rf"{n}\text{{ pounds}}",
        rf"\${n}.50",
        rf"-\${n}",
    ]
    wrong += [
        rf"{n}\text{{ cents}}",
        rf"\${n + 1}",
        rf"\${n}\text{{ million}}",
        f"The answer is €{n}.",
    ]
    return rf"\${n}", wrong


def time(draw: random.Random) -> Drawn:
    hours = draw.randint(1, 12)
    minutes = draw.randint(10, 59)
    common = gcd(hours, minutes)
    wrong = [rf"\frac{{{hours}}}{{{minutes}}}", f"{hours}/{minutes}", f"{hours}.{minutes}"]
    wrong += [rf"\frac{{{hours // common}}}{{{minutes // common}}}", f"{hours / minutes:.4f}"]
    wrong += [
        f"{hours % 12 + 1}:{minutes}",
        f"{hours}:{minutes % 50 + 10}",
        f"{hours}:0{minutes % 10}",
    ]
    wrong += [f"{minutes}:{hours}", f"{hours}, {minutes}", f"({hours}, {minutes})", f"{hours}"]
    wrong = [prediction for prediction in wrong if prediction != f"{hours}:{minutes}"]
    return f"{hours}:{minutes}", wrong


def polynomial(draw: random.Random) -> Drawn:
    a, b, c = (abs(number) for number in distinct(draw, 3))
    wrong = [f"{a}x^2 - {b}x + {c}", f"{a}x^2 + {b}x - {c}", f"{a}x^2 + {b}x + {c + 1}"]
    wrong += [
        f"{a}x^3 + {b}x + {c}",
        f"{b}x^2 + {a}x + {c}",
        f"{a}y^2 + {b}y + {c}",
        f"{a}x^2 + {b}x",
    ]
    wrong += [f"-({a}x^2 + {b}x + {c})", f"({a}x^2 + {b}x) {c}", f"{a}x^2 + {b}x + {c} = 0", f"{a}"]
    wrong += [rf"{a}x^2 + {b}x \pm {c}", f"{a}x^2, {b}x, {c}", f"{a}x^2 + {b}x + {c}, x > 0"]
    return f"{a}x^2 + {b}x + {c}", wrong


def line(draw: random.Random) -> Drawn:
    a, b = (abs(number) for number in distinct(draw, 2))
    wrong = [
        f"y = {b}x + {a}",
        f"y = {a}x - {b}",
        f"y = -{a}x + {b}",
        f"x = {a}y + {b}",
        f"y = {b}",
    ]
    wrong += [f"y = {a}x + {b + 1}", f"y > {a}x + {b}", rf"y \neq {a}x + {b}", f"y = {a}x", f"{a}"]
    wrong += [f"{a}x + y + {b} = 0", f"y = {a}x + {b} or y = {b}x + {a}", f"y = {a}x^2 + {b}"]
    return f"y = {a}x + {b}", wrong


def complex_number(draw: random.Random) -> Drawn:
    a, b = (abs(number) for number in distinct(draw, 2))
    wrong = [f"{a} - {b}i", f"{b} + {a}i", f"-{a} + {b}i", f"{a} + {b + 1}i", f"{a} + {b}", f"{a}"]
    wrong += [rf"{a} \pm {b}i", f"({a} + {b})i", f"{a}.001 + {b}i", f"{a} + {b}i, {a} - {b}i"]
    return f"{a} + {b}i", wrong


def root(draw: random.Random) -> Drawn:
    a = draw.randint(2, 9)
    b = draw.choice((2, 3, 5, 6, 7, 10, 11, 13))
    wrong = [rf"{a + 1}\sqrt{{{b}}}", rf"{a}\sqrt{{{b + 1}}}", rf"-{a}\sqrt{{{b}}}", f"{a * b}"]
    wrong += [
        rf"\pm {a}\sqrt{{{b}}}",
        rf"{a} + \sqrt{{{b}}}",
        rf"{a}\sqrt[3]{{{b}}}",
        rf"\sqrt{{{a * b}}}",
    ]
    wrong += [
        f"{a * b**0.5 + 0.01:.3f}",
        f"{a * b**0.5 + 0.1:.1f}",
        rf"{a}\sqrt{{{b}}} + 10^{{-9}}",
        rf"{a}\sqrt{{-{b}}}",
    ]
    return rf"{a}\sqrt{{{b}}}", wrong


def two_roots(draw: random.Random) -> Drawn:
    a = draw.randint(2, 9)
    b = draw.choice((2, 3, 5, 6, 7))
    wrong = [rf"{a} + \sqrt{{{b}}}", rf"{a} - \sqrt{{{b}}}", rf"-{a} \pm \sqrt{{{b}}}", f"{a}"]
    wrong += [rf"{a} \pm \sqrt{{{b + 10}}}", rf"{a} \pm {b}", rf"{a} \pm \sqrt{{{b}}}, 99"]
    return rf"{a} \pm \sqrt{{{b}}}", wrong


def labelled(draw: random.Random) -> Drawn:
    low, high = sorted(distinct(draw, 2))
    wrong = [f"Maximum: {low}, Minimum: {high}", f"Minimum: {high}, Maximum: {low}", f"{high}"]
    wrong += [f"{low}, {high}", f"Maximum: {high}", f"Maximum: {high}, Minimum: {low + 1}"]
    wrong += [f"Maximum: {high}, Mean: {low}", f"{high} or {low}"]
    return f"Maximum: {high}, Minimum: {low}", wrong


def unknowns(draw: random.Random) -> Drawn:
    a, b = distinct(draw, 2)
    wrong = [f"x = {b}, y = {a}", f"y = {a}, x = {b}", f"x = {a} or y = {b}", f"({b}, {a})"]
    wrong += [f"x = {a}", f"x = {a}, z = {b}", f"x = {a}, y = {b + 1}", f"x = {-a}, y = {b}"]
    return f"x = {a}, y = {b}", wrong


def points(draw: random.Random) -> Drawn:
    a, b, c, d = distinct(draw, 4)
    wrong = [
        f"({a}, {d}), ({c}, {b})",
        f"({b}, {a}), ({d}, {c})",
        f"({a}, {b})",
        f"{a}, {b}, {c}, {d}",
    ]
    wrong += [
        f"({a}, {b}), ({c}, {-d})",
        f"({a}, {b}), ({c}, {d}), (0, 0)",
        f"({a}, {b}, {c}, {d})",
    ]
    return f"({a}, {b}), ({c}, {d})", wrong


def based(draw: random.Random) -> Drawn:
    n = draw.choice((12, 34, 41, 120, 204, 331))
    base = draw.choice((5, 6, 7))
    value = int(str(n), base)
    return f"{n}_{base}", [
        f"{n}_{base + 1}",
        f"{value}",
        f"{n + 1}_{base}",
        f"{n}_{{10}}",
        f"-{n}_{base}",
    ]


def choice(draw: random.Random) -> Drawn:
    letter, other = draw.sample("ABCDE", 2)
    wrong = [
        other,
        f"({other})",
        f"{letter} or {other}",
        f"{letter}, {other}",
        f"({letter})({other})",
    ]
    wrong += [f"not {letter}", rf"\text{{{other}}}", f"{letter}/{other}", f"{letter} and {other}"]
    wrong += [f"The answer is {other}", f"{letter}{other}", f"The answer is {letter} or {other}"]
    return letter, wrong


def option(draw: random.Random) -> Drawn:
    """The letter and value of an option, both in several kinds of type."""
    n, m = (abs(number) for number in distinct(draw, 2))
    letter, other = draw.sample("ABCDE", 2)
    fonts = (r"\textbf{(%s)}\ %s", r"\text{(%s) } %s", r"\mathrm{(%s)}\ %s", "(%s) %s", "%s. %s")
    wrong = [f"{m}", other, f"({other})", rf"\textbf{{({other})}}", f"{other} = {n}"]
    for font in fonts:
        wrong += [font % (other, n), font % (other, m), font % (letter, m)]
    return draw.choice(fonts) % (letter, n), wrong


def ratio(draw: random.Random) -> Drawn:
    """Ratios of several terms, which have no value."""
    terms = sorted(draw.sample((2, 3, 5, 7, 11, 13, 61, 67), draw.choice((3, 3, 4))))
    quotient = f"{terms[0]}/{terms[1]}"
    wrong = [listed(terms[::-1], ":"), listed(terms[1:] + terms[:1], ":"), listed(terms[1:], ":")]
    wrong += [listed(changed(draw, terms), ":"), listed(terms + [77], ":"), listed(terms, "/")]
    wrong += [f"{terms[0]}:{prod(terms[1:])}", rf"\frac{{{terms[0]}}}{{{prod(terms[1:])}}}"]
    wrong += [quotient, f"{quotient}:{terms[2]}", listed(terms), listed(terms, r"\cdot ")]
    return listed(terms, ":"), wrong


def mixed_quantity(draw: random.Random) -> Drawn:
    """Quantities side by side: a product would have the same factors in another order."""
    n, m = (abs(number) for number in distinct(draw, 2))
    first, second = draw.choice(
        (
            ("hours", "minutes"),
            ("feet", "inches"),
            ("kg", "g"),
            ("dollars", "cents"),
            ("red", "blue"),
            ("h", "min"),
            ("R", ""),
        )
    )

    def written(number: int, other: int, unit: str, other_unit: str, text: bool) -> str:
        if text:
            return rf"{number}\text{{ {unit} }}{other}\text{{ {other_unit} }}"
        return f"{number} {unit} {other} {other_unit}".strip()

    wrong = [f"{n * m} {first} {second}", f"{n}", f"{n} {first}", f"{n} {first} {m + 1} {second}"]
    for text in (False, True):
        wrong += [written(m, n, first, second, text), written(n, m + 1, first, second, text)]
        if second:
            wrong += [written(n, m, second, first, text), written(n * m, 1, first, second, text)]
    return written(n, m, first, second, bool(second) and draw.random() < 0.5), wrong


def anagram(draw: random.Random) -> Drawn:
    """Words and names of the same letters, which are no products of variables."""
    groups = (
        ("dog", "god"),
        ("listen", "silent"),
        ("left", "felt"),
        ("no", "on"),
        ("NaCl", "ClNa"),
        ("HT", "TH"),
        ("TTF", "FTT"),
        ("IX", "XI"),
        ("act", "cat"),
        ("A then B", "B then A"),
        ("north", "thorn"),
        ("red, blue", "der, blue"),
    )
    answer, other = draw.choice(groups)
    wrong = [other, rf"\text{{{other}}}", f"The answer is {other}.", f"x = {other}", other.upper()]
    return answer, wrong


def digits_in_a_row(draw: random.Random) -> Drawn:
    """A date, a range or a telephone number, which is no difference or quotient of its numbers."""
    year = draw.randint(1900, 2030)
    month = draw.randint(2, 11)
    day = draw.randint(13, 28)
    sign = draw.choice("-/")
    answer = f"{year}{sign}{month:02}{sign}{day}"
    wrong = [f"{year}{sign}{month + 1:02}{sign}{day - 1}", f"{year}{sign}{day}{sign}{month:02}"]
    wrong += [f"{year - 1}{sign}{month - 1:02}{sign}{day}", f"{year - month - day}", f"{year}"]
    wrong += [f"{year / month / day:.5f}", f"{year}{sign}{month:02}", f"{month}{sign}{day}"]
    if draw.random() < 0.5:
        return answer, wrong
    low, high = sorted(draw.sample(range(200, 999), 2))
    wrong = [f"{low - high}", f"{low + 1}-{high + 1}", f"{high}-{low}", f"{low}", f"{low}, {high}"]
    wrong += [f"{low}/{high}", f"{low}-{high + 1}", f"{low + 1}-{high}", f"-{high}+{low}"]
    return f"{low}-{high}", wrong


def names_of_values(draw: random.Random) -> Drawn:
    """Values in the order of their names, or in an order that a remark fixes."""
    numbers = distinct(draw, draw.choice((2, 3)))
    values = listed(numbers)
    exchanged = [numbers[1], numbers[0]] + numbers[2:]
    names = draw.choice(("x,y,z", "a,b,c", "p,q,r"))[: 2 * len(numbers) - 1]
    form, other = draw.sample(
        (f"{names}=%s", f"({names})=%s", f"({names})=(%s)", r"%s \text{ respectively}"), 2
    )
    wrong = [form % listed(exchanged), other % listed(exchanged), listed(exchanged)]
    wrong += [form % listed(changed(draw, numbers)), form % listed(numbers + [77])]
    wrong += [listed(numbers[1:]), f"({listed(exchanged)})", rf"\{{{values}\}}"]
    return form % values, wrong


def words_near_a_set(draw: random.Random) -> Drawn:
    """Phrases about one number, or about another set, that share words with the name of a set."""
    sets = (
        (r"\mathbb{R}", "real number", "integers"),
        (r"\mathbb{Z}", "integer", "real numbers"),
        (r"\mathbb{Z}^+", "positive integer", "integers"),
        (r"\mathbb{N}", "natural number", "integers"),
    )
    answer, noun, other = draw.choice(sets)
    wrong = [f"a {noun}", f"an {noun}", noun, f"there exists a {noun} x", f"is it an {noun}"]
    wrong += [
        f"there exist {noun}s",
        f"x is a {noun}",
        f"no {noun}",
        f"all {other}",
        f"some {noun}",
    ]
    wrong += [f"all {noun}s but one", "it does not", "does not", "exists", "there is", "the set"]
    return answer, wrong


def function(draw: random.Random) -> Drawn:
    name, other = draw.sample((r"\sin", r"\cos", r"\tan", r"\ln", r"\exp"), 2)
    a, b = (abs(number) for number in distinct(draw, 2))
    wrong = [rf"{a}{other}({b}x)", rf"{b}{name}({a}x)", rf"-{a}{name}({b}x)", rf"{a}{name}({b}y)"]
    wrong += [rf"{a}{name}({b}x) + 1", rf"{a}{name}^2({b}x)", rf"{a}{name}({b}x^2)", f"{a * b}x"]
    return rf"{a}{name}({b}x)", wrong


def series(draw: random.Random) -> Drawn:
    a, b = (abs(number) for number in distinct(draw, 2))
    wrong = [f"{a}n - {b}", f"{b}n + {a}", f"{a}n + {b}, n > 0", f"{a}^n + {b}", f"{a}k + {b + 1}"]
    return f"{a}n + {b}", wrong


def word(draw: random.Random) -> Drawn:
    words = ("even", "odd", "yes", "no", "true", "false", "parabola", "ellipse", "circle", "Monday")
    name, other = draw.sample(words, 2)
    wrong = [other, rf"\text{{{other}}}", f"{name} or {other}", f"not {name}", f"{name}, {other}"]
    return rf"\text{{{name}}}", wrong


def date(draw: random.Random) -> Drawn:
    month, other = draw.sample(("January", "March", "April", "June", "July", "October"), 2)
    day = draw.randint(2, 28)
    wrong = [
        f"{other} {day}",
        f"{month} {day + 1}",
        f"{month}",
        f"{day}",
        f"{month} {day} or {day + 1}",
    ]
    return f"{month} {day}", wrong


def percentage(draw: random.Random) -> Drawn:
    n = draw.randint(2, 99)
    wrong = [
        rf"{n + 1}\%",
        rf"-{n}\%",
        rf"{n}^\circ",
        rf"{n}.5\%",
        rf"{n}\% \text{{ or }} {n + 1}\%",
        f"{n}00",
    ]
    return rf"{n}\%", wrong


def number_in_words(draw: random.Random) -> Drawn:
    word, value, other = draw.choice(
        (("twelve", 12, "twenty"), ("six", 6, "sixty"), ("ten", 10, "two"))
    )
    wrong = [
        other,
        f"{value + 1}",
        f"{word} hundred",
        f"minus {word}",
        f"{word} or {other}",
        f"-{value}",
    ]
    return rf"\text{{{word}}}", wrong


KINDS: tuple[Callable[[random.Random], Drawn], ...] = (
    integer,
    fraction,
    decimal,
    point,
    opposite_coordinates,
    column,
    matrix,
    collected,
    several,
    interval,
    union,
    inequality,
    quantity,
    money,
    time,
    polynomial,
    line,
    complex_number,
    root,
    two_roots,
    labelled,
    unknowns,
    points,
    based,
    choice,
    option,
    ratio,
    mixed_quantity,
    anagram,
    digits_in_a_row,
    names_of_values,
    words_near_a_set,
    function,
    series,
    word,
    date,
    percentage,
    number_in_words,
)


def of_answers(answers: list[str]) -> Iterator[Pair]:
    """Pairs of an answer, perhaps in words, and the answer with an alternative or a restriction."""
    for answer in answers:
        for sequel in SEQUELS:
            yield answer, answer + sequel
        yield answer, rf"{answer} \text{{ or }} 987"
        yield answer, f"{answer} or 987"
        yield answer, f"{answer}, 987"
        yield answer, f"{answer} or more"
        yield answer, rf"{answer} \pm 987"
        yield answer, rf"{answer}\text{{ is wrong}}"
        yield answer, f"987 or {answer}"
        yield answer, f"987, {answer}"
        yield answer, f"not {answer}"
        yield answer, f"half of {answer}"
        yield answer, f"about {answer}"
        yield answer, f"987 + {answer}"
