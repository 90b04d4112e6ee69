#!/bin/sh
# Builds the documentation site into site/ and fails at any warning; called by make docs. Its packages
# (docs.txt) are in .venv-docs, apart from .venv. Arguments are passed to `mkdocs build`.
set -eu
cd "$(dirname "$0")/.."

python=.venv-docs/bin/python
stamp=.venv-docs/.rspo # written last: a copy of the docs.txt that was installed

exec 9>.venv-docs.lock
flock 9
if ! cmp -s envs/docs.txt $stamp || ! $python --version >/dev/null 2>&1; then
    echo "Installing the packages of envs/docs.txt"
    rm -rf .venv-docs
    "${PYTHON:-python3}" -m venv .venv-docs
    $python -m pip install -q --no-input --disable-pip-version-check --require-hashes \
        -r envs/docs.txt
    cp envs/docs.txt $stamp
fi

export NO_MKDOCS_2_WARNING=1 # an announcement of mkdocs-material about another program
$python -m mkdocs build --strict "$@" # with -q, it would not count warnings
