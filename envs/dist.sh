#!/bin/sh
# Builds the source distribution and the wheel into dist/, checks their metadata and installs each in an
# empty environment; called by make dist. Its packages are in .venv-dist, apart from .venv.
set -eu
cd "$(dirname "$0")/.."

"${PYTHON:-python3}" -m venv --clear .venv-dist
.venv-dist/bin/python -m pip install -q --disable-pip-version-check build==1.6.1 twine==7.0.0
rm -rf dist
.venv-dist/bin/python -m build --outdir dist .
.venv-dist/bin/twine check --strict dist/*

for file in dist/*; do
    rm -rf .venv-dist/empty
    "${PYTHON:-python3}" -m venv .venv-dist/empty
    python="$PWD/.venv-dist/empty/bin/python"
    $python -m pip install -q --disable-pip-version-check "$file"
    (cd / && $python -c "
import sys
from importlib.metadata import files
import rspo
others = {file.parts[0] for file in files('rspo')} - {'rspo'}
if added := [name for name in others if not name.startswith('..') and not name.endswith('.dist-info')]:
    sys.exit(f'$file installs more than the package rspo: {added}')
from rspo.objectives import assert_unbiased
assert_unbiased('rspo_pass_at_k', k=4, n=8)
print('$file: rspo', rspo.__version__, 'works with numpy only')
")
done
