#!/bin/sh
# Makes .venv what the lock files say; `make setup` and `make setup-verl` call it.
#
#   envs/setup.sh base   Python 3.11 or 3.12, envs/cpu.lock, PyTorch, this package
#   envs/setup.sh verl   the same .venv plus envs/cpu-verl.lock
#
# .venv/.rspo-base and .venv/.rspo-verl hold a copy of everything the step depends on and are
# written last, so a step is finished exactly when its copy still fits. .venv/.rspo-busy stands
# while a step runs: found again, it tells of an interrupted step, and .venv is made from nothing.
set -eu
cd "$(dirname "$0")/.."

step=$1
venv=.venv
python=$venv/bin/python
stamp=$venv/.rspo-$step
busy=$venv/.rspo-busy

die() {
    echo "error: $*" >&2
    exit 1
}

# --- what the finished step depends on -----------------------------------------------------------

inputs() {
    echo "$PWD"
    cat envs/setup.sh envs/check.py envs/cpu.lock pyproject.toml
    [ "$step" = base ] || cat envs/cpu-verl.lock
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
            case $v in 3.11.* | 3.12.*) return 0 ;; esac
            found="$found, $chosen is Python $v"
        elif command -v "$chosen" >/dev/null 2>&1; then
            found="$found, $chosen does not run"
        else
            found="$found, there is no $chosen"
        fi
    done
    die "rspo needs Python 3.11 or 3.12 (Snakemake 9 needs >= 3.11, verl < 3.13), but ${found#, }." \
        "Install one of the two and name it: make setup PYTHON=/path/to/python3.11"
}

# --- is there a .venv to keep? -------------------------------------------------------------------

wanted_elsewhere() { # the user names a Python or a PyTorch index that this .venv was not made with
    if [ -n "${PYTHON:-}" ]; then
        choose_python
        [ "$(version_of "$chosen")" = "$(version_of $python)" ] || return 0
    fi
    [ -n "${TORCH_INDEX:-}" ] && [ "$TORCH_INDEX" != "$(cat $venv/.rspo-torch-index 2>/dev/null)" ]
}

if [ -e $busy ]; then
    other=$(cat $busy)
    if [ -n "$other" ] && kill -0 "$other" 2>/dev/null; then
        die "another make setup (process $other) is at work on .venv; wait for it to end." \
            "If that process is something else, run make clean-env first."
    fi
    echo "An earlier setup was interrupted: making .venv anew."
    rm -rf $venv
elif [ -d $venv ]; then
    if [ "$(head -n 1 $venv/.rspo-base 2>/dev/null)" != "$PWD" ]; then
        echo ".venv was not made here by make setup: making it anew."
        rm -rf $venv
    elif ! version_of $python >/dev/null; then
        echo "The Python of .venv is gone: making .venv anew."
        rm -rf $venv
    elif wanted_elsewhere; then
        echo "Another Python or PyTorch index is asked for: making .venv anew."
        rm -rf $venv
    fi
fi
inputs | cmp -s - "$stamp" 2>/dev/null && exit 0

# --- making it -----------------------------------------------------------------------------------

if [ ! -d $venv ]; then
    [ "$step" = base ] || exec sh -c 'sh envs/setup.sh base && exec sh envs/setup.sh verl'
    choose_python
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

# -qq: nothing but errors. --no-build-isolation: the few packages without a wheel, and this one, are
# built with the setuptools of the lock, not with whatever is the newest one on the day.
# --no-compile: `compile` below does it with all cores.
install() {
    $python -m pip --disable-pip-version-check --no-input -qq \
        install --no-compile --no-build-isolation "$@" || die "pip failed (see above)"
}

# Hundreds of short jobs import PyTorch. Where Python may not write bytecode by itself (a read-only
# .venv, PYTHONDONTWRITEBYTECODE), each would compile it again: four seconds instead of one.
# Some packages ship templates that are no Python; those fail, and nothing imports them.
compile() {
    echo "[$step] compiling"
    $python -m compileall -q -q -j 0 $venv/lib || true
}

case $step in
base)
    torch=$(grep '^torch==' envs/cpu.lock)
    echo "[base] $(grep -c == envs/cpu.lock) packages of envs/cpu.lock"
    install "$(grep '^setuptools==' envs/cpu.lock)"
    grep -v '^torch==' envs/cpu.lock >$venv/.rspo-without-torch
    install --no-deps -r $venv/.rspo-without-torch
    # With its dependencies: the CUDA build names the NVIDIA packages it needs, the CPU build none.
    echo "[base] PyTorch: $torch"
    install ${TORCH_INDEX:+-i "$TORCH_INDEX"} -c envs/cpu.lock "$torch"
    echo "${TORCH_INDEX:-}" >$venv/.rspo-torch-index
    install --no-deps -e .
    compile
    $python envs/check.py envs/cpu.lock torch transformers snakemake rspo
    ;;
verl)
    echo "[verl] $(grep -c == envs/cpu-verl.lock) packages of envs/cpu-verl.lock"
    install --no-deps -r envs/cpu-verl.lock
    compile
    $python envs/check.py envs/cpu-verl.lock verl vllm ray tensordict transfer_queue pytest
    ;;
esac

inputs >"$stamp.new"
mv "$stamp.new" "$stamp"
rm -f $busy
