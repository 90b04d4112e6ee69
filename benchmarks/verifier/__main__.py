"""python -m benchmarks.verifier: measure the tables of docs/verification.md and write them.

This takes about five minutes on two cores. All labelled answers are needed; the two sets that are
not in a clone must be in the folder shared/verification beside the checkout.
"""

import argparse
import sys

from benchmarks.verifier import tables
from rspo.core.errors import InputError


def main(words: list[str]) -> int:
    """Write the tables. Returns: the exit status."""
    style = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        "python -m benchmarks.verifier", description=__doc__, formatter_class=style
    )
    parser.parse_args(words)
    try:
        tables.write()
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
