r"""What the rules of `math_verify` accept as the same answer, and what they do not.

Each line is `answer  ~~  prediction`. docs/verification.md explains them.
"""

import subprocess
import sys

import pytest

from rspo.config.names import VERIFIER_VERSIONS
from rspo.core.files import fingerprint
from rspo.rewards import is_correct
from tests.support import ROOT
from tests.support.attacks import boxed


def pairs(lines: str) -> list[tuple[str, str]]:
    split = [line.split("  ~~  ") for line in lines.strip().splitlines()]
    return [(answer, prediction) for answer, prediction in split]


ACCEPTED = {
    "numbers": r"""
1000  ~~  1,000
12345678  ~~  12{,}345{,}678
11111111100  ~~  11,\! 111,\! 111,\! 100
12345  ~~  12\,345
0.5  ~~  .5
0.5  ~~  0,5
2.74  ~~  2,74
142  ~~  142.0
025  ~~  25
5  ~~  5.
\frac12  ~~  \dfrac{1}{2}
\frac{7}{2}  ~~  3\frac12
\frac{7}{2}  ~~  3 1/2
-\frac{7}{3}  ~~  -2\frac{1}{3}
\frac13  ~~  0.\overline{3}
\frac16  ~~  0.1\overline{6}
""",
    "powers of ten": r"""
4.5e33  ~~  4.5\times10^{33}
4.5e33  ~~  4.5 \cdot 10^33
4.5e33  ~~  4.50E+33
1.6e-19  ~~  1.6 \times 10^{-19}
1e11  ~~  10^{11}
3e8  ~~  300000000
4.5e33  ~~  4.5 \times 10^{33} \mathrm{~erg} \mathrm{~s}^{-1}
""",
    "decimals as roundings of exact values": r"""
\frac13  ~~  0.33
\frac13  ~~  0.333
\frac23  ~~  0.67
\frac23  ~~  0.66666
\frac{600}{7}  ~~  85.71
\pi  ~~  3.14159
21.93  ~~  21 \frac{13}{14}
41.4\%  ~~  \sqrt{2}-1
165.47  ~~  165.5
\frac23  ~~  0.6666
-\frac23  ~~  -0.6666
\frac23  ~~  66.67\%
\sqrt2  ~~  1.4142
-\sqrt2  ~~  -1.41421
""",
    "number words": r"""
4  ~~  \text{four}
25  ~~  \text{twenty-five}
\mbox{four}  ~~  4
3000000  ~~  3 \text{ million}
\infty  ~~  \text{infinitely many}
""",
    "units": r"""
5  ~~  5\text{ cm}
5\text{ cm}  ~~  5
5\text{ cm}  ~~  5 \text{ centimeters}
15\mbox{ cm}^2  ~~  15 \text{ square centimeters}
12 \text{ mph}  ~~  12 \text{ miles per hour}
120  ~~  120\text{ ways.}
15  ~~  \text{15th day}
\$32.50  ~~  32.5
7  ~~  \$7
336^\circ  ~~  336
45^\circ  ~~  \frac{\pi}{4}
50\%  ~~  50
50\%  ~~  \frac12
28\%  ~~  28 percent
6.67  ~~  20:3
204_5  ~~  204_{5}
204_5  ~~  204
120  ~~  120\text{ distinct ways}
7  ~~  7\text{ hours}
7  ~~  7\text{ seconds}
7  ~~  7\text{ months}
7  ~~  7\text{ g}
90  ~~  90^\circ\text{C}
7  ~~  \underline{7}
\text{11:30 a.m.}  ~~  11:30 \text{ AM}
""",
    "algebra": r"""
(x-1)(x+1)  ~~  x^2-1
\frac{x+1}{2}  ~~  \frac12 x + \frac12
\cos(2x)  ~~  2\cos^2 x - 1
\frac{\log 2}{\log 2-\log 3}  ~~  -\frac{\ln 2}{\ln 3-\ln 2}
\sqrt[3]{-8}  ~~  -2
\frac{1}{\sqrt2}  ~~  \frac{\sqrt2}{2}
\sin 30^\circ  ~~  \frac12
\tan^{-1}(1)  ~~  \frac{\pi}{4}
np.arcsin(10/13)  ~~  \sin^{-1}\left(\frac{10}{13}\right)
\frac{100!}{2^{50}}  ~~  100!/2^{50}
(n+1)!  ~~  (n+1) n!
\binom{5}{2}  ~~  10
3+4i  ~~  4i+3
\lfloor 3.7 \rfloor  ~~  3
sqrt(2)/2  ~~  \frac{\sqrt{2}}{2}
\frac{n(n+1)}{2}  ~~  \sum_{k=1}^{n} k
\frac12  ~~  \int_0^1 x dx
1  ~~  \lim_{x \to 0} \frac{\sin x}{x}
\begin{pmatrix}2 \\ 4\end{pmatrix}  ~~  2\begin{pmatrix}1 \\ 2\end{pmatrix}
1  ~~  \cosh^2 x - \sinh^2 x
\frac{e^x}{e^x+1}  ~~  \frac{1}{1+e^{-x}}
|x-1|  ~~  |1-x|
\ln(x^2)  ~~  2\ln|x|
x^{1/3}  ~~  \sqrt[3]{x}
""",
    "names": r"""
5  ~~  x=5
x=5  ~~  5
5  ~~  x = 2 + 3 = 5
m_{\max}=n^2-n-1  ~~  n^2-n-1
f(x)=x-1  ~~  f(n) = n-1
x^2  ~~  f(x)=x^2
7:32  ~~  S_{MBCN}:S=7:32
\frac13  ~~  x = \frac13 \approx 0.3
(1,2)  ~~  (x,y)=(1,2)
f(n)=n, g(n)=1  ~~  (f(n), g(n)) = (n, 1) \text{ for all positive integers } n
\frac{\pi}{4}+k\pi, k\in\mathbb{Z}  ~~  x=\frac{\pi}{4}+n\pi \text{ for any integer } n
7  ~~  a+b=7
7  ~~  x=y=7
\frac12  ~~  \frac{S_1}{S_2}=\frac12
\frac12  ~~  S_1/S_2=\frac12
\frac12  ~~  \frac{AB}{CD}=\frac12
7  ~~  m+n=3+4=7
""",
    "equations and inequalities": r"""
y=2x+3  ~~  2x - y + 3 = 0
\frac{x^2}{4}+\frac{y^2}{3}=1  ~~  \frac{x^2}{16}+\frac{y^2}{12}=\frac14
x \leq 1  ~~  -x >= -1
x \leq 5  ~~  5 \geq x
x \neq 5  ~~  x != 5
f(2) < f(1) < f(4)  ~~  f(4) > f(1) > f(2)
""",
    "lists, sets and points": r"""
-6,-8,-10  ~~  -10, -8, -6
1,2  ~~  \{2, 1\}
$69$,$84$  ~~  84 \text{ and } 69
2,3  ~~  x=2 \text{ or } x=3
2,3  ~~  x_1=3, x_2=2
a=4,-8,-10  ~~  -10,-8,4
p=5,q=2;p=7,q=2  ~~  (5,2),(7,2)
b=-3, c=0  ~~  c=0, b=-3
1 \pm \sqrt{19}  ~~  1-\sqrt{19}, 1+\sqrt{19}
\{1\pm\sqrt5,-2\}  ~~  -2, 1+\sqrt5, 1-\sqrt5
(3,2),(-3,2)  ~~  \{(-3, 2), (3, 2)\}
\left( 3, \frac{\pi}{2} \right)  ~~  (3, \pi/2)
(1, 4.5)  ~~  (1, \frac92)
1,2,3  ~~  (x,y,z)=(1,2,3)
\begin{pmatrix} -7 \\ 16 \end{pmatrix}  ~~  (-7, 16)
\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}  ~~  \begin{bmatrix} 1 & 2 \\ 3 & 4 \end{bmatrix}
\emptyset  ~~  \{\}
x<1 or x>3  ~~  x>3 or x<1
(1,2)  ~~  x=1,y=2
(x,y)=(1,2)  ~~  y=2, x=1
(-\infty,1)\cup(3,\infty)  ~~  x<1 or x>3
""",
    "intervals": r"""
(-\infty,-5)  ~~  k < -5
[\frac12, 8]  ~~  0.5 \leq x \leq 8
(0,1)  ~~  0 < x < 1
[2,3)  ~~  3 > x \ge 2
[-2,7]  ~~  x \in [-2,7]
k\in(-\infty,2)  ~~  k<2
(-\infty,-2] \cup \{1\}  ~~  a \leqslant -2 \text{ or } a = 1
(-\infty,1)\cup(1,\infty)  ~~  x \neq 1
(-\infty,1)\cup(1,\infty)  ~~  \mathbb{R} \setminus \{1\}
(-\infty,-6)\cup(-6,\frac32)  ~~  \{x | x < \frac32\} - \{-6\}
(1,3)  ~~  \{x \in \mathbb{R} : 1 < x < 3\}
(1,\infty)  ~~  (1, +∞)
""",
    "words and choices": r"""
\text{Even}  ~~  even
\text{no solution}  ~~  No solution
\text{October 30}  ~~  October 30
C  ~~  (C)
\text{(C)}  ~~  C. Paris
D  ~~  The answer: D, it doesn't make sense for it to be A
""",
    "sentences": r"""
x > 5  ~~  Therefore $x \gt 5$ is the solution.
12000023  ~~  Final Answer: The final answer is 12,000,023. I hope it is correct.
7.78  ~~  So what Anna pays is approximately $7.78 for her fudge.
7  ~~  The answer is 7.
7  ~~  Therefore, there are 7 distinct ways that meet the three conditions.
7  ~~  The volume of the prism is $7$ cubic feet.
1000.99  ~~  so the number is 10 which is 1,000.99€
7  ~~  The answer is: 7
x > 5  ~~  Therefore $x > 5$ is the solution.
x \neq 3  ~~  We find that $x \neq 3$.
7.78  ~~  The price is approximately $7.78 for her.
7  ~~  The area is equal to 7 square meters
7  ~~  Final Answer: Jane started growing it 7 hours ago.
""",
    "wrappings": r"""
$5$  ~~  5
\[ \boxed{5} \]  ~~  5
so \boxed{\frac12} it is  ~~  0.5
\boxed{1} papers and \boxed{2} bins  ~~  1, 2
\frac{1}{2}  ~~  \\frac{1}{2}
\mathbf{5}  ~~  \textbf{5}
""",
}

REFUSED = {
    "numbers": r"""
4.5e33  ~~  4.5\times10^{32}
1e-7  ~~  2e-7
3e-33  ~~  5e-33
0.25  ~~  0.2499
0.5  ~~  0.6
7  ~~  7.0001
7  ~~  7 + 10^{-40}
7  ~~  7\frac12
1234  ~~  1
7  ~~  -7
7  ~~  7i
7  ~~  7!
0  ~~  e^{-200}
1  ~~  \tanh 200
\pi  ~~  \pi+e^{-200}
e^{200}  ~~  e^{200}+1
7  ~~  five two
7  ~~  seven zero
50  ~~  twenty thirty
7  ~~  7 \mod 8
""",
    "decimals that are no roundings": r"""
\frac13  ~~  0.3
\frac13  ~~  0.34
\frac{600}{7}  ~~  86
\frac{600}{7}  ~~  85.7\overline{2}
\pi  ~~  3
\pi  ~~  3.1
10.25  ~~  10.3
1.5  ~~  2
1000  ~~  1.00 \times 10^{2}
\frac14  ~~  0.2499
\frac14  ~~  0.2501
\frac14  ~~  25.01\%
\frac12  ~~  0.4999
\frac12  ~~  0.5001
2^{10}  ~~  1023.9
2^{10}  ~~  1024.1
\sqrt{16}  ~~  4.001
\frac{100}{3}  ~~  33.34
\sqrt2  ~~  1.415
-\sqrt2  ~~  -1.415
12.50  ~~  12.499
2024.0  ~~  2024.03
1234.5  ~~  1234.46
""",
    "units": r"""
5\text{ cm}  ~~  5\text{ m}
5\text{ cm}^2  ~~  5\text{ cm}
5\text{ hours}  ~~  5 \text{ minutes}
5\text{ feet}  ~~  -5\text{ feet}
a-b\text{ feet}  ~~  ab\text{ feet}
\$5  ~~  5 \text{ euros}
7  ~~  7\text{ million}
7  ~~  7\text{ dozen}
7  ~~  70\%
45^\circ  ~~  45\%
204_5  ~~  204_6
204_5  ~~  54
10  ~~  10_2
204_5  ~~  __5
7  ~~  7\text{k}
7  ~~  7\text{ M}
7  ~~  7\text{ tenths}
7  ~~  7\text{ thousandths}
7  ~~  7\text{ thousands}
7  ~~  7\text{ millions}
7  ~~  7\text{ dozens}
7  ~~  7\text{ halves}
7  ~~  7\text{ thirds}
7  ~~  7\text{ twentieths}
7  ~~  7\text{ googol}
7  ~~  7\text{ crore}
7  ~~  7\text{ factorials}
7  ~~  7\text{ root}
7  ~~  7\text{ reciprocal}
7  ~~  7xyza
5 m per second  ~~  5 seconds
5\text{ m per second}  ~~  5\text{ seconds}
60 mph  ~~  60 hours
2A\text{ meters}  ~~  2a\text{ meters}
""",
    "algebra": r"""
x+1  ~~  x-1
abc  ~~  -abc
\lceil n/2 \rceil + 1  ~~  \lceil n/9 \rceil + 1
\lfloor\sqrt{n-1}\rfloor  ~~  \lfloor\sqrt{n+1}\rfloor
I(0) e^{-t}  ~~  -I(0) e^{-t}
C_1 e^{t} + C_2 \cos t  ~~  C_1 e^{t} - C_2 \cos t
3^{1010} + \sqrt2  ~~  3^{1010} + 1 + \sqrt2
abc  ~~  ABC
x^2  ~~  x^9
x+1  ~~  y+1
x  ~~  X
x  ~~  \sqrt{x^2}
\log x  ~~  \ln x
f(2x)  ~~  2f(x)
2^{10}  ~~  1023
1\sqrt{19}  ~~  1
x+2n+1  ~~  x+1
\sum_{k=0}^{n-1} k^2  ~~  \sum_{k=0}^{n} k^2
""",
    "names": r"""
7  ~~  7 = x
7  ~~  x = x
7  ~~  8 = 7
7  ~~  x + 7 = 7
7  ~~  |x| = 7
7  ~~  x \neq 7
x=5  ~~  y=5
f(x)=x^2  ~~  g(x)=x^2
2x+z=1  ~~  1
x^2+y^2=4  ~~  4
3\sqrt2  ~~  3\sqrt2 \approx 9
7  ~~  -x=7
7  ~~  \sqrt{x}=7
7  ~~  x+x=7
7  ~~  x/x=7
7  ~~  x^n=7
7  ~~  \ln x=7
7  ~~  x \in 7
7  ~~  x=8=7
7  ~~  8=x=7
7  ~~  2x=7
x=7  ~~  x=8=7
x=7  ~~  x \in 7
x+y=7  ~~  7
""",
    "equations and inequalities": r"""
2x+3y=1  ~~  2x+3y=2
x<1  ~~  x \le 1
x>5  ~~  x<5
x \neq 1  ~~  x = 1
f(2) < f(1) < f(4)  ~~  f(1) < f(2) < f(4)
""",
    "lists, sets and points": r"""
1,2  ~~  1,2,3
7  ~~  7 \text{ or } 8
7  ~~  \{7, 8\}
7  ~~  7 \pm 100
1 \pm \sqrt{19}  ~~  1 + \sqrt{19}
(1,2)  ~~  (2,1)
(3,1)  ~~  \{1,3\}
(3,1,2)  ~~  (3,1,2]
31,250  ~~  250,31
b=-3, c=0  ~~  b=0, c=-3
b=-3, c=0  ~~  0, -3
p=5,q=2;p=7,q=3  ~~  p=5,q=3;p=7,q=2
\begin{pmatrix} 1 & 2 \end{pmatrix}  ~~  \begin{pmatrix} 2 & 1 \end{pmatrix}
x>1 and x<3  ~~  x>1 or x<3
(-\infty,1)\cup(3,\infty)  ~~  x<1 and x>3
x=1,y=2  ~~  x=1 or y=2
(x,y)=(1,2)  ~~  y=1, x=2
(1,2)  ~~  y=1,x=2
(0,5)  ~~  0.5
(0,5)  ~~  \frac12
(3,14)  ~~  3.14
[0,12]  ~~  0.12
(1,234)  ~~  1234
(0,50)  ~~  50\%
""",
    "intervals": r"""
(1,2)  ~~  [1,2]
[0,\infty)  ~~  x > 0
(1,2]  ~~  1 < x < 2
7  ~~  [7, 7.5]
7  ~~  x \ge 0
7  ~~  \mathbb{R}
(-\infty,1)\cup(1,\infty)  ~~  x \neq 2
x < 1 \text{ or } x > 2  ~~  x < 1 \text{ or } y > 2
""",
    "words and choices": r"""
\text{even}  ~~  \text{odd}
\text{god}  ~~  dog
C  ~~  C \text{ or } D
C  ~~  D
12:00  ~~  1:00
C  ~~  (C) (D)
""",
    "sentences": r"""
7  ~~  The answer is not 7
7  ~~  It is either 8 or 7
7  ~~  the answer is one of 1, 2, 3, 4, 5, 6, 7
7  ~~  7 \text{ is wrong}
2  ~~  3x + 2 \text{ cm}
The bus drives 16 km/h, and the car 48 km/h.  ~~  48
x > 5  ~~  Therefore $x < 5$ is the solution.
7  ~~  the answer is minus 7
7  ~~  The answer is the square root of 7
7  ~~  the answer is twice 7
7  ~~  the answer is one more than 7
7  ~~  it is more than 7
7  ~~  the answer is at most 7
7  ~~  The answer is less than $7$
7  ~~  it is a multiple of 7
7  ~~  the answer is 1 minus $7$
7  ~~  the value is $-$ $7$
7  ~~  the value is $-$7
7  ~~  the answer is 7 million
7  ~~  the answer is 7 squared
7  ~~  the answer is 7 pi
7  ~~  the answer is 7 over 2
7  ~~  the answer is 7 plus 1
7  ~~  the answer is 7 hundred
7  ~~  the answer is 7!
7  ~~  the answer is $7$!
7  ~~  the answer is $7$ $+1$
7  ~~  the answer is 7 3/4
7  ~~  So $7$ is a lower bound
7  ~~  the answer is $7$ million
7  ~~  the answer is 7, maybe
12  ~~  There are fewer than 12
7  ~~  There are 7 or more of them
7  ~~  The answer is 7 times as large
7  ~~  Final Answer: it took less than 7 hours
7  ~~  Final Answer: it took twice 7 hours
""",
    "formulas that agree only in places": r"""
|x-1|  ~~  1-x
|x^2-1|  ~~  1-x^2
\ln|x-1|  ~~  \ln(1-x)
\arcsin(\sin x)  ~~  x
|\cos x|  ~~  \cos x
e^x+x^{2024}  ~~  e^x
y=|x-1|  ~~  y=1-x
|x-3|  ~~  3-x
|x-100|  ~~  100-x
|x-2024|  ~~  2024-x
|x+5|  ~~  x+5
|x+2024|  ~~  x+2024
a+b+c+|d|  ~~  a+b+c+d
|a-b|  ~~  a-b
|a-b|  ~~  b-a
y=|x|  ~~  y=x
""",
}


@pytest.mark.parametrize("kind", ACCEPTED)
def test_the_same_answer_in_another_writing(kind: str) -> None:
    written = pairs(ACCEPTED[kind])
    found = is_correct([boxed(prediction) for _, prediction in written], [a for a, _ in written])
    assert [pair for pair, verdict in zip(written, found, strict=True) if not verdict] == []


@pytest.mark.parametrize("kind", REFUSED)
def test_another_answer_in_nearly_the_same_writing(kind: str) -> None:
    written = pairs(REFUSED[kind])
    found = is_correct([boxed(prediction) for _, prediction in written], [a for a, _ in written])
    assert [pair for pair, verdict in zip(written, found, strict=True) if verdict] == []


FIRST_INTEGRAL = r"""
from rspo.rewards.rules.equivalence import equivalent
row = [r"\sqrt{\pi}"], [r"\int_{-\infty}^{\infty} e^{-x^2} dx"]
assert [equivalent(*row), equivalent(*row)] == [True, True]
"""


def test_the_first_integral_of_a_process_is_judged_like_the_later_ones() -> None:
    """SymPy reads tables of its own then, which it writes as text; text is never evaluated."""
    subprocess.run([sys.executable, "-c", FIRST_INTEGRAL], check=True, cwd=ROOT, timeout=120)


# The answer says what was asked for: only there a base may be left out, digits may be more than
# needed, every number counts, and a sum is an equation of its own.
ASYMMETRIC = {
    ("7", "a+b=7"),
    ("7", "m+n=3+4=7"),
    ("x+y=7", "7"),
    ("7", "x=8=7"),
    ("7", "8=x=7"),
    ("x=7", "x=8=7"),
    ("165.47", "165.5"),
    ("1000.99", "so the number is 10 which is 1,000.99€"),
    ("12.50", "12.499"),
    ("2024.0", "2024.03"),
    ("1234.5", "1234.46"),
    ("204_5", "204"),
    ("10", "10_2"),
    ("The bus drives 16 km/h, and the car 48 km/h.", "48"),
}


def test_answer_and_prediction_may_change_places() -> None:
    written = [
        pair for kind in (ACCEPTED, REFUSED) for lines in kind.values() for pair in pairs(lines)
    ]
    written = [pair for pair in written if pair not in ASYMMETRIC and "box" not in pair[0]]
    there = is_correct([boxed(prediction) for _, prediction in written], [a for a, _ in written])
    back = is_correct([boxed(answer) for answer, _ in written], [p for _, p in written])
    differ = [pair for pair, one, other in zip(written, there, back, strict=True) if one != other]
    assert differ == []


def test_a_verdict_depends_on_nothing_but_its_row() -> None:
    written = [pair for lines in ACCEPTED.values() for pair in pairs(lines)]
    responses, answers = [boxed(p) for _, p in written], [a for a, _ in written]
    wrong = answers[1:] + answers[:1]
    there = is_correct(responses * 2, answers + wrong)
    back = is_correct(responses[::-1] * 2, wrong[::-1] + answers[::-1])
    assert there == back[::-1]


def test_several_boxes() -> None:
    r"""The last one counts; those that it is joined to may belong to the answer."""
    joined = r"$\boxed{1}$, $\boxed{2}$ and $x = \boxed{3}$"
    rows = [
        (joined, "1, 2, 3", True),
        (joined, "3", True),
        (joined, "1", False),
        (r"\boxed{1} and \boxed{2}", "1, 2", True),
        (r"\boxed{6} or \boxed{7}", "6, 7", True),
        (r"\boxed{6} or \boxed{7}", "7", False),
        (r"\boxed{1}! \boxed{2}", "1, 2", False),
        (r"\boxed{1} => \boxed{2}", "1, 2", False),
        (r"\boxed{1}, or rather \boxed{2}", "2", True),
        (r"\boxed{1}, or rather \boxed{2}", "1, 2", False),
        (r"\boxed{7} no, \boxed{8}", "7", False),
    ]
    found = is_correct([response for response, _, _ in rows], [answer for _, answer, _ in rows])
    assert found == [right for _, _, right in rows]


CODE = {
    "exact": ["exact.py", "extraction.py"],
    "math_verify": ["rules/*.py", "extraction.py", "sandbox_worker.py"],
}
DIGESTS = {("exact", 1): "e5c582096365", ("math_verify", 2): "6f8520038e20"}


@pytest.mark.parametrize("verifier", CODE)
def test_a_change_of_the_rules_has_a_number_of_its_own(verifier: str) -> None:
    """Scores know the rules by their number alone: one that was forgotten leaves old verdicts.

    Fails after every change of this code. If it changes a verdict, raise the verifier's number in
    VERIFIER_VERSIONS; in any case, write the new digest here.
    """
    folder = ROOT / "rspo" / "rewards"
    files = sorted({file for pattern in CODE[verifier] for file in folder.glob(pattern)})
    digest = fingerprint([file.read_text() for file in files])
    assert DIGESTS[verifier, VERIFIER_VERSIONS[verifier]] == digest
