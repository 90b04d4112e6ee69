"""The `rspo` command, which needs the extra `paper`; without it, one line that says so."""

import sys
from importlib.util import find_spec

from rspo import __version__
from rspo.core.checkout import install_hint


def main() -> int:
    """Run the command line of `rspo.cli` and return its exit status."""
    if sys.argv[1:] == ["--version"]:
        print(f"rspo {__version__}")
        return 0
    try:
        from rspo.cli import main as run

        return run()
    except ModuleNotFoundError as error:
        if find_spec("snakemake"):  # the extra is installed: this is another error
            raise
        print(
            f"rspo: no module {error.name!r}. With Python 3.11 or 3.12, run "
            f"`{install_hint('paper')}`",
            file=sys.stderr,
        )
        return 2


if __name__ == "__main__":
    sys.exit(main())
