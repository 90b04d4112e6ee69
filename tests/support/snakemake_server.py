"""Runs `snakemake` in forks of a process that has imported it, which takes most of a dry run.

Each line of input is a request; the exit status is a line of output.
"""

import json
import os
import sys

import snakemake.cli


def run(
    arguments: list[str], folder: str, environment: dict[str, str], output: str, errors: str
) -> None:
    """Become `snakemake ARGUMENTS` in a folder, with output and errors in files."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for number, path in enumerate((os.devnull, output, errors)):
        file = os.open(path, os.O_RDWR | os.O_CREAT)
        os.dup2(file, number)
        os.close(file)
    sys.argv = ["snakemake", *arguments]
    snakemake.cli.main()


if __name__ == "__main__":
    for line in sys.stdin:
        if (child := os.fork()) == 0:
            run(**json.loads(line))
            sys.exit()
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
