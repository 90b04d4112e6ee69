"""Questions in the words of reasoning-gym, for tests without the package."""

import math
import random
from collections.abc import Iterator

# The parameters of the package: two digits, and numbers up to 1,000 and up to 200.
TERMS = {"sums_2": 2, "sums_3": 3, "sums_4": 4}
DRAWS = 40_000


def drawn(task: str) -> Iterator[tuple[str, object]]:
    """Stands in for `rspo.datasets.reasoning_gym._drawn`."""
    draw = random.Random(task)
    for _ in range(DRAWS):
        if task == "gcd":
            numbers = [draw.randint(1, 1000) for _ in range(2)]
            text = ", ".join(map(str, numbers))
            yield (
                f"Find the Greatest Common Divisor (GCD) of these numbers: {text}. "
                "Give only the GCD as your final answer.",
                str(math.gcd(*numbers)),
            )
        elif task == "lcm":
            numbers = [draw.randint(1, 200) for _ in range(2)]
            text = ", ".join(map(str, numbers))
            yield (
                f"Find the Least Common Multiple (LCM) of these numbers: {text}",
                str(numbers[0] * numbers[1] // math.gcd(*numbers)),
            )
        elif task == "products_2":
            numbers = [draw.randint(10, 99) for _ in range(2)]
            yield (
                f"Solve the following multiplication: {numbers[0]} * {numbers[1]}. "
                "Give only the result as your final answer.",
                str(numbers[0] * numbers[1]),
            )
        else:
            expression = str(draw.randint(10, 99))
            for _ in range(TERMS[task] - 1):
                expression += f" {draw.choice('+-')} {draw.randint(10, 99)}"
            answer = sum(map(int, expression.replace(" ", "").replace("-", "+-").split("+")))
            yield (
                f"State the final answer to the following arithmetic problem: {expression} =",
                str(answer),
            )
