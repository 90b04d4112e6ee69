#!/bin/sh
# Makes .venv what the lock files say; `make setup`, `setup-verl` and `setup-gpu` call it.
#
#   envs/setup.sh base   Python 3.11 or 3.12, envs/cpu.lock, PyTorch, this package
#   envs/setup.sh verl   the same .venv plus envs/cpu-verl.lock
#   envs/setup.sh gpu    Python 3.12, envs/gpu.lock, flash-attn, this package
#
# .venv/.rspo-base, -verl and -gpu hold a copy of everything the step depends on and are written
# last, so a step is finished exactly when its copy still fits. .venv/.rspo-busy stands while a step
# runs: found again, it tells of an interrupted step, and .venv is made from nothing. A .venv with
# .venv/.rspo-flash-attn is for GPUs.
set -eu
cd "$(dirname "$0")/.."

step=$1
venv=.venv
python=$venv/bin/python
busy=$venv/.rspo-busy

die() {
    echo "error: $*" >&2
    exit 1
}

# --- which step ----------------------------------------------------------------------------------

flash=$venv/.rspo-flash-attn # holds the FLASH_ATTN that .venv is made with
if [ "$step" != gpu ] && [ -e $flash ]; then
    [ "$step" = base ] || die ".venv is that of make setup-gpu, which has no tools for tests." \
        "Make the other one in another checkout, or here after make clean-env."
    step=gpu # has all of base
fi
stamp=$venv/.rspo-$step
first=base
if [ "$step" = gpu ]; then
    first=gpu
    FLASH_ATTN=${FLASH_ATTN:-$(cat $flash 2>/dev/null || echo build)}
    export FLASH_ATTN
fi

# --- what the finished step depends on -----------------------------------------------------------

inputs() {
    echo "$PWD"
    cat envs/setup.sh envs/install.sh envs/check.py pyproject.toml
    case $step in
    base) cat envs/cpu.lock ;;
    verl) cat envs/cpu.lock envs/cpu-verl.lock ;;
    gpu) cat envs/gpu.lock envs/gpu-compiled.lock && echo "$FLASH_ATTN" ;;
    esac
}

# --- choosing a Python ---------------------------------------------------------------------------

version_of() { # prints such as "3.11.7"; fails if the command does not run
    "$1" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null
}

choose_python() { # sets $chosen
    found=
    if [ -n "${PYTHON:-}" ]; then set -- "$PYTHON"; else set -- python3 python3.12 python3.11; fi
    for chosen in "$@"; do
        if v=$(version_of "$chosen"); then
            case $step:$v in gpu:3.12.* | base:3.1[12].* | verl:3.1[12].*) return 0 ;; esac
            found="$found, $chosen is Python $v"
        elif command -v "$chosen" >/dev/null 2>&1; then
            found="$found, $chosen does not run"
        else
            found="$found, there is no $chosen"
        fi
    done
    [ "$step" != gpu ] || die "envs/gpu.lock is for Python 3.12, but ${found#, }." \
        "Install it and name it: make setup-gpu PYTHON=/path/to/python3.12"
    die "rspo needs Python 3.11 or 3.12 (Snakemake 9 needs >= 3.11, verl < 3.13), but ${found#, }." \
        "Install one of the two and name it: make setup PYTHON=/path/to/python3.11"
}

# --- is there a .venv to keep? -------------------------------------------------------------------

wanted_elsewhere() { # the user names a Python or a PyTorch index that this .venv was not made with
    if [ -n "${PYTHON:-}" ]; then
        choose_python
        [ "$(version_of "$chosen")" = "$(version_of $python)" ] || return 0
    fi
    [ "$step" = gpu ] || [ -z "${TORCH_INDEX:-}" ] && return 1
    [ "$TORCH_INDEX" != "$(cat $venv/.rspo-torch-index 2>/dev/null)" ]
}

reason= # to make it anew
if [ -e $busy ]; then
    other=$(cat $busy)
    if [ -n "$other" ] && kill -0 "$other" 2>/dev/null; then
        die "another make setup (process $other) is at work on .venv; wait for it to end." \
            "If that process is something else, run make clean-env first."
    fi
    reason="An earlier setup was interrupted"
elif [ -d $venv ]; then
    if [ "$(head -n 1 $venv/.rspo-$first 2>/dev/null)" != "$PWD" ]; then
        reason=".venv was not made here by this make setup"
    elif ! version_of $python >/dev/null; then
        reason="The Python of .venv is gone"
    elif wanted_elsewhere; then
        reason="Another Python or PyTorch index is asked for"
    fi
fi
[ -z "$reason" ] && inputs | cmp -s - "$stamp" 2>/dev/null && exit 0

# --- making it -----------------------------------------------------------------------------------

# What cannot be made is said before anything that is there goes.
chosen=$python
if [ -n "$reason" ] || [ ! -d $venv ]; then choose_python; fi
[ "$step" != gpu ] || sh envs/install.sh gpu-check "$chosen"

if [ -n "$reason" ]; then
    echo "$reason: making .venv anew."
    rm -rf $venv
fi
if [ ! -d $venv ]; then
    [ "$step" != verl ] || exec sh -c 'sh envs/setup.sh base && exec sh envs/setup.sh verl'
    "$chosen" -c 'import ensurepip, venv' 2>/dev/null ||
        die "$chosen cannot make a virtual environment (no module venv or ensurepip). On Debian or" \
            "Ubuntu: sudo apt install python$(version_of "$chosen" | cut -d. -f1,2)-venv"
    mkdir $venv
fi
(set -C && echo $$ >$busy) 2>/dev/null || die "another make setup has just begun work on .venv"
rm -f "$stamp"

if [ ! -x $python ]; then
    echo "[$step] .venv with Python $(version_of "$chosen")"
    "$chosen" -m venv $venv
fi

[ "$step" != gpu ] || echo "$FLASH_ATTN" >$flash
sh envs/install.sh "$step" $python
[ "$step" != base ] || echo "${TORCH_INDEX:-}" >$venv/.rspo-torch-index

inputs >"$stamp.new"
mv "$stamp.new" "$stamp"
rm -f $busy
