#!/bin/sh
# Installs what a lock says into an environment that is there already: .venv (setup.sh), one that
# conda made (conda-*.post-deploy.sh), one in a container (rspo.def).
#
#   envs/install.sh base PYTHON       envs/cpu.lock, PyTorch, this package
#   envs/install.sh verl PYTHON       besides: envs/cpu-verl.lock
#   envs/install.sh gpu PYTHON        envs/gpu.lock, flash-attn, this package
#   envs/install.sh gpu-check PYTHON  can this machine and PYTHON take the step gpu?
#
# TORCH_INDEX (step base) and FLASH_ATTN (step gpu): see envs/README.md.
set -eu
cd "$(dirname "$0")/.."

step=$1
python=$2

die() {
    echo "error: $*" >&2
    exit 1
}

# -qq: nothing but errors. --no-build-isolation: the few packages without a wheel, and this one, are
# built with the setuptools of the lock, not with whatever is the newest one on the day.
# --no-compile: `compile` below does it with all cores.
install() {
    "$python" -m pip --disable-pip-version-check --no-input -qq \
        install --no-compile --no-build-isolation "$@" || die "pip failed (see above)"
}

# Hundreds of short jobs import PyTorch. Where Python may not write bytecode by itself (a read-only
# environment, PYTHONDONTWRITEBYTECODE), each would compile it again: four seconds instead of one.
# Some packages ship templates that are no Python; those fail, and nothing imports them.
compile() {
    echo "[$step] compiling"
    "$python" -m compileall -q -q -j 0 \
        "$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" || true
}

count() {
    grep -c == "$1"
}

# --- flash-attn, which has no wheel for this PyTorch ---------------------------------------------

check_flash_attn() {
    case ${FLASH_ATTN:-build} in
    none) return 0 ;;
    build)
        "$python" -c 'import flash_attn' 2>/dev/null && return 0 # compiled before
        nvcc=${CUDA_HOME:+$CUDA_HOME/bin/}nvcc
        release=$("$nvcc" --version 2>/dev/null | sed -n 's/.*release \([0-9]*\)\..*/\1/p') || true
        [ "$release" = 13 ] ||
            die "flash-attn is compiled here, with the nvcc of CUDA 13, but $nvcc is" \
                "${release:+of CUDA }${release:-not found}. Load that toolkit (module load, or" \
                "CUDA_HOME=...), or give a wheel that was compiled before: FLASH_ATTN=FILE, or do" \
                "without: FLASH_ATTN=none (see envs/README.md)"
        ;;
    *.whl) [ -f "$FLASH_ATTN" ] || die "FLASH_ATTN: there is no file $FLASH_ATTN" ;;
    *) die "FLASH_ATTN is '$FLASH_ATTN'; allowed: build, none, a file that ends in .whl" ;;
    esac
}

install_flash_attn() {
    case ${FLASH_ATTN:-build} in
    none)
        echo "[gpu] without flash-attn: set attn_implementation, see envs/README.md"
        return 0
        ;;
    build)
        echo "[gpu] compiling flash-attn, which may take an hour"
        install --no-deps "$(grep == envs/gpu-compiled.lock)"
        ;;
    *) install --no-deps "$FLASH_ATTN" ;;
    esac
    "$python" envs/check.py envs/gpu-compiled.lock flash_attn
}

# --- the steps -----------------------------------------------------------------------------------

case $step in
base)
    torch=$(grep '^torch==' envs/cpu.lock)
    rest=$(mktemp)
    trap 'rm -f "$rest"' EXIT
    grep -v '^torch==' envs/cpu.lock >"$rest"
    echo "[base] $(count envs/cpu.lock) packages of envs/cpu.lock"
    install "$(grep '^setuptools==' envs/cpu.lock)"
    install --no-deps -r "$rest"
    # With its dependencies: the CUDA build names the NVIDIA packages it needs, the CPU build none.
    echo "[base] PyTorch: $torch"
    install ${TORCH_INDEX:+-i "$TORCH_INDEX"} -c envs/cpu.lock "$torch"
    install --no-deps -e .
    compile
    "$python" envs/check.py envs/cpu.lock torch transformers snakemake rspo
    ;;
verl)
    echo "[verl] $(count envs/cpu-verl.lock) packages of envs/cpu-verl.lock"
    install --no-deps -r envs/cpu-verl.lock
    compile
    "$python" envs/check.py envs/cpu-verl.lock verl vllm ray tensordict transfer_queue pytest
    ;;
gpu-check)
    "$python" envs/gpu_machine.py || exit 1
    check_flash_attn
    ;;
gpu)
    "$python" envs/gpu_machine.py || exit 1
    check_flash_attn
    echo "[gpu] $(count envs/gpu.lock) packages of envs/gpu.lock"
    install "$(grep '^setuptools==' envs/gpu.lock)"
    install --no-deps -r envs/gpu.lock
    install_flash_attn
    install --no-deps -e .
    compile
    "$python" envs/check.py envs/gpu.lock torch transformers snakemake rspo verl vllm ray \
        tensordict transfer_queue
    ;;
*) die "unknown step $step; allowed: base, verl, gpu, gpu-check" ;;
esac
