"""The `rspo` command, which needs the extra `paper`; without it, one line that says so.

Ctrl-C may come at any time, also while modules are imported. So this file imports only `sys` before
`main` handles it.
"""

import sys

INTERRUPTED = 130  # the exit status after Ctrl-C


def main() -> int:
    """Run the command line of `rspo.cli` and return its exit status."""
    try:
        return _run()
    except KeyboardInterrupt:
        print("rspo: interrupted", file=sys.stderr, flush=True)
        return INTERRUPTED


def _run() -> int:
    """Import the command and run it. Ctrl-C ends the process at once until the command runs."""
    import signal

    handler = signal.getsignal(signal.SIGINT)
    # A process that was started with `nohup` or `&` ignores Ctrl-C, and stays so.
    if handler is signal.default_int_handler:
        # An exception would be lost where Python ignores those of imports, as in its import lock.
        signal.signal(signal.SIGINT, _end)
    from importlib.util import find_spec

    from rspo import __version__
    from rspo.core.checkout import install_hint

    if sys.argv[1:] == ["--version"]:
        print(f"rspo {__version__}")
        return 0
    try:
        from rspo.cli import main as run

        signal.signal(signal.SIGINT, handler)
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


def _end(signal_number: int, frame: object) -> None:
    """End this process, which has nothing to clean up yet."""
    import os

    os.write(2, b"rspo: interrupted\n")
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    sys.exit(main())
