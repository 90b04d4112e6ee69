#!/bin/sh
# Creates or updates .venv with packages of envs/lock/; called by make setup, setup-verl and setup-gpu.
#
#   envs/setup.sh base|verl|gpu   (see envs/install.sh)
#
# .venv/.rspo records what .venv was made from and is written last. If it is missing, an earlier
# setup was interrupted, and .venv is created again.
set -eu
cd "$(dirname "$0")/.."

packages=$1
stamp=.venv/.rspo

die() {
    echo "error: $*" >&2
    exit 1
}

# Setups of one checkout run one after another.
exec 9>.venv.lock
flock -n 9 || { echo "Waiting for another make setup" && flock 9; }

recorded() { sed -n "s/^$1=//p" $stamp 2>/dev/null || true; }

case $packages:$(recorded packages) in
base:verl | base:gpu) packages=$(recorded packages) ;; # they include base
verl:gpu) die ".venv has the GPU packages, which do not fit the test tools. Use another checkout" \
    "for make setup-verl, or run make clean-env first." ;;
esac
export TORCH_INDEX="${TORCH_INDEX:-$(recorded torch_index)}"
export FLASH_ATTN="${FLASH_ATTN:-$(recorded flash_attn)}"

record() {
    printf '%s\n' "packages=$packages" "checkout=$PWD" "torch_index=$TORCH_INDEX" \
        "flash_attn=$FLASH_ATTN"
    cat envs/lock/*.txt pyproject.toml envs/setup.sh envs/install.sh envs/nvcc.sh | cksum
}

version_of() { # prints the version, such as 3.11.7; fails if the command does not run
    "$1" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null
}

choose_python() { # sets $chosen
    seen=
    if [ -n "${PYTHON:-}" ]; then set -- "$PYTHON"; else set -- python3 python3.12 python3.11; fi
    for chosen in "$@"; do
        if version=$(version_of "$chosen"); then
            case $version in 3.11.* | 3.12.*) return 0 ;; esac
            seen="$seen, $chosen is Python $version"
        elif command -v "$chosen" >/dev/null 2>&1; then
            seen="$seen, $chosen does not run"
        else
            seen="$seen, $chosen was not found"
        fi
    done
    die "rspo requires Python 3.11 or 3.12, but ${seen#, }." \
        "Install one of them and name it: make setup PYTHON=/path/to/python3.11"
}

reason= # to create .venv again
if [ -n "${PYTHON:-}" ]; then
    choose_python
    [ "$version" = "$(version_of .venv/bin/python)" ] || reason="Another Python was requested"
fi
if [ ! -e $stamp ]; then
    reason="An earlier setup was interrupted"
elif [ "$(recorded checkout)" != "$PWD" ]; then
    reason="This checkout was moved"
elif ! version_of .venv/bin/python >/dev/null; then
    reason="The Python of .venv does not run"
fi
[ -z "$reason" ] && record | cmp -s - $stamp && exit 0

sh envs/install.sh "check-$packages"
if [ -n "$reason" ]; then
    choose_python
    "$chosen" -c 'import ensurepip, venv' 2>/dev/null ||
        die "$chosen cannot create a virtual environment (no module venv or ensurepip)." \
            "On Debian or Ubuntu: sudo apt install python${version%.*}-venv"
    [ ! -d .venv ] || echo "$reason: creating .venv again"
    rm -rf .venv
    "$chosen" -m venv .venv
fi
rm -f $stamp
sh envs/install.sh "$packages" .venv/bin/python
record >$stamp.new
mv $stamp.new $stamp
