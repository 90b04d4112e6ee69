#!/bin/sh
# Installs the packages of envs/lock/ and this package into an existing environment (setup.sh).
#
#   envs/install.sh base PYTHON   what the tiny scale and the light tests need
#   envs/install.sh verl PYTHON   also verl, vLLM for CPU and the test tools
#   envs/install.sh gpu PYTHON    base and verl, with vLLM and flash-attn for CUDA 13
#   envs/install.sh check-gpu     can this machine install gpu? (also check-base, check-verl)
#
# TORCH_INDEX (base and verl), FLASH_ATTN (gpu) and WHEELS, a folder of packages: see envs/README.md.
set -eu
cd "$(dirname "$0")/.."

die() {
    echo "error: $*" >&2
    exit 1
}

packages=$1
python=${2:-python}
machine=$(uname -sm)
case $machine in "Linux "*) ;; *) die "rspo supports Linux only; this is $machine" ;; esac

# flash-attn has no wheel for this PyTorch. Check before the long installation what it needs.
if [ "${packages#check-}" = gpu ]; then
    [ "$machine" = "Linux x86_64" ] || die "the GPU packages are for x86_64; this is $machine"
    case ${FLASH_ATTN:=build} in
    none) ;;
    build)
        command -v "${CXX:-g++}" >/dev/null ||
            die "compiling flash-attn requires a C++ compiler, but ${CXX:-g++} was not found. Load one" \
                "(module load gcc, or CXX=...), use a compiled wheel (FLASH_ATTN=FILE.whl) or install" \
                "without flash-attn (FLASH_ATTN=none); see envs/README.md"
        ;;
    *.whl) [ -f "$FLASH_ATTN" ] || die "FLASH_ATTN: no such file: $FLASH_ATTN" ;;
    *) die "FLASH_ATTN is '$FLASH_ATTN'; allowed: build, none, a file name ending in .whl" ;;
    esac
fi

wheels=
if [ -n "${WHEELS:-}" ]; then
    wheels=$(cd "$WHEELS" 2>/dev/null && pwd) || die "WHEELS: no such folder: $WHEELS"
fi

case $packages in
base | verl | gpu) ;;
check-base | check-verl | check-gpu) exit ;;
*) die "unknown packages: $packages; allowed: base, verl, gpu" ;;
esac

# Without a network, pip prints a screen of retries; what to do about it comes first.
[ -n "$wheels" ] ||
    echo "Downloading packages, which needs a network or a package index that this machine reaches"
said=$("$python" -m pip install -q --no-input --disable-pip-version-check \
    ${wheels:+--no-index --find-links "$wheels"} uv==0.13.9 2>&1) || {
    [ -z "$wheels" ] || die "pip cannot install uv from $wheels: $said"
    echo "error: pip cannot download uv. Without a network, name an index or a proxy that this" \
        "machine reaches (pip config set global.index-url URL, or HTTPS_PROXY). What pip said:" >&2
    echo "$said" >&2
    exit 1
}

# uv does not read the configuration of pip: pass on its package indexes. The variables of uv win.
pip_options=$("$python" -m pip config list)
use_pip_option() { # VARIABLE OPTION SEPARATOR
    value=$(printf '%s\n' "$pip_options" | sed -n "s/^[a-z:]*\.$2='\(.*\)'\$/\1/p" | head -n 1 |
        sed 's/\\n/ /g; s/^ *//' | tr -s ' ' "$3")
    [ -z "$value" ] || eval "export $1=\"\${$1:-\$value}\""
}
use_pip_option UV_DEFAULT_INDEX index-url ' '
use_pip_option UV_INDEX extra-index-url ' '
use_pip_option UV_FIND_LINKS find-links ','
use_pip_option UV_INSECURE_HOST trusted-host ' '
use_pip_option SSL_CERT_FILE cert ' '
export UV_INDEX_STRATEGY="${UV_INDEX_STRATEGY:-unsafe-best-match}" # compare all indexes, as pip does

uv_pip() { # COMMAND ARGUMENTS...
    command=$1
    shift
    [ -z "$wheels" ] || set -- --offline --no-index --find-links "$wheels" "$@"
    "$python" -m uv -q pip "$command" --python "$python" --compile-bytecode "$@"
}

# uv prints nothing until it has finished.
case $packages in
base) size="170 MB and PyTorch (190 MB for its CPU build, several GB for CUDA), one to two minutes" ;;
verl) size="640 MB and PyTorch (190 MB for its CPU build), less after make setup, two to three minutes" ;;
gpu) size="several GB, several minutes" ;;
esac
echo "Installing the packages of envs/lock/$packages.txt: $size with a fast network. This prints" \
    "nothing until it has finished"

# uv compares the hash of each file with the lock files, except for PyTorch and flash-attn.
if [ "$packages" = gpu ]; then
    uv_pip sync envs/lock/gpu.txt
    case $FLASH_ATTN in
    none) echo "Not installing flash-attn; see envs/README.md for attn_implementation" ;;
    build)
        echo "Compiling flash-attn; this can take an hour"
        # shellcheck source=envs/nvcc.sh
        . envs/nvcc.sh
        # By default, its setup.py looks for a compiled one among its releases, without a hash, and
        # compiles for more GPUs: 80 is the A100, 90 the H100, the H800 and the H200.
        export FLASH_ATTENTION_FORCE_BUILD=TRUE
        export FLASH_ATTN_CUDA_ARCHS="${FLASH_ATTN_CUDA_ARCHS:-80;90}"
        uv_pip install --no-deps --no-build-isolation -r envs/lock/flash-attn.txt
        ;;
    *) uv_pip install --no-deps -c envs/lock/flash-attn.txt "$FLASH_ATTN" ;;
    esac
    modules="verl, vllm, ray, tensordict, transfer_queue, pytest_timeout"
else
    # The CUDA build of PyTorch requires the NVIDIA packages of torch.txt, the CPU build none of them.
    uv_pip sync "envs/lock/$packages.txt"
    torch_index=${TORCH_INDEX:-}
    [ -z "$wheels" ] || torch_index= # the folder has the build of PyTorch
    uv_pip install ${torch_index:+--default-index "$torch_index"} -c envs/lock/torch.txt torch
    modules="rspo, pytest"
    [ "$packages" = base ] || modules="verl, vllm, ray, tensordict, transfer_queue, pytest"
fi
"$python" -c "import torch, transformers, snakemake, rspo, $modules" ||
    die "the installed packages cannot be imported (see above)"
