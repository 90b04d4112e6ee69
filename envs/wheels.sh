#!/bin/sh
# Downloads the packages of envs/lock/ into a folder, with which `make setup WHEELS=FOLDER` needs no
# network on another machine.
#
#   envs/wheels.sh base|verl|gpu FOLDER   (see envs/install.sh)
#
# Run it after `make setup` with the other machine's version of Python, on Linux and x86_64. TORCH_INDEX
# selects the build of PyTorch for base and verl, as for `make setup`.
set -eu
cd "$(dirname "$0")/.."

die() {
    echo "error: $*" >&2
    exit 1
}

packages=$1
folder=$2
python=.venv/bin/python
case $packages in
base | verl | gpu) ;;
*) die "unknown packages: $packages; allowed: base, verl, gpu" ;;
esac
[ -x $python ] || die "there is no $python: run make setup first"
mkdir -p "$folder"

download() {
    "$python" -m pip download -q --no-input --disable-pip-version-check -d "$folder" "$@"
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The lock files have this package too, which is not downloaded.
grep -v '^-e ' "envs/lock/$packages.txt" >"$work/locked"
download --no-deps --require-hashes -r "$work/locked"

# What envs/install.sh installs first, and what builds this package and others without a wheel.
download --no-deps "$(grep -o 'uv==[0-9.]*' envs/install.sh)" -c envs/lock/torch.txt setuptools

if [ "$packages" = gpu ]; then
    # Only the source: pip reads the name and the version by running its setup.py, which needs PyTorch.
    FLASH_ATTENTION_SKIP_CUDA_BUILD=TRUE download --no-deps --no-build-isolation \
        --no-binary flash-attn -r envs/lock/flash-attn.txt
else
    # With what this build of PyTorch requires, in the locked versions.
    sed -n 's/^\([a-z0-9-]*==[^ ]*\).*/\1/p' "$work/locked" >"$work/versions"
    download ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} -c envs/lock/torch.txt -c "$work/versions" torch
fi
echo "$folder has $(ls "$folder" | wc -l) packages. Next, on the other machine:" \
    "make setup$([ "$packages" = base ] || echo "-$packages") WHEELS=$folder"
