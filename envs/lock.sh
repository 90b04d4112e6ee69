#!/bin/sh
# Resolves the dependencies of pyproject.toml with uv and writes the result to envs/lock/. Called by
# `make lock`; arguments are passed to `uv lock`.
set -eu
cd "$(dirname "$0")/.."

uv=.venv/bin/uv
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# The extras need other versions of Python than the package without them, but uv resolves both for the
# same ones. So resolve a copy of pyproject.toml for those of the extras.
mkdir -p "$folder/project/rspo"
cp rspo/__init__.py "$folder/project/rspo" # has the version
sed 's/^requires-python = .*/requires-python = ">=3.11,<3.13"/' pyproject.toml \
    >"$folder/project/pyproject.toml"

# uv keeps the versions of an existing uv.lock where it can. uv.lock contains addresses of a package
# index and is not committed, so rebuild the part that uv needs from the files of envs/lock/.
{
    printf 'version = 1\nrequires-python = ">=3.11, <3.13"\n[options]\nfork-strategy = "fewest"\n'
    sed -n 's/^\([a-z0-9-]*\)==\([^ ]*\).*/\1 \2/p' envs/lock/*.txt | sort -u |
        while read -r name version; do
            printf '[[package]]\nname = "%s"\nversion = "%s"\n' "$name" "$version"
            printf 'source = { registry = "any" }\n'
        done
} >"$folder/project/uv.lock"
"$uv" lock --project "$folder/project" --python .venv/bin/python "$@"

locked() { "$uv" -q export --project "$folder/project" --frozen --no-header --no-annotate "$@"; }
base() { locked --extra paper --extra test-light "$@"; }
verl() { locked --extra verl --extra cpu --extra test "$@"; }
gpu() { locked --extra verl --extra gpu "$@"; }

gpu --no-emit-package flash-attn >"$folder/gpu.txt"
gpu --no-hashes >"$folder/all"
grep '^flash-attn==' "$folder/all" >"$folder/flash-attn.txt"

# Without hashes, because PyTorch has several builds with the same version.
for packages in base verl; do
    $packages --prune torch >"$folder/$packages.txt"
    $packages --prune torch --no-hashes >"$folder/pruned"
    $packages --no-hashes >"$folder/all"
    grep -vxFf "$folder/pruned" "$folder/all" >>"$folder/for-torch"
done
sort -u "$folder/for-torch" >"$folder/torch.txt"
mv "$folder"/*.txt envs/lock/
