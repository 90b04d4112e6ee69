# Selects the CUDA compiler of envs/lock/gpu.txt, which flash-attn is compiled with. To be sourced by a
# shell script that has set `python`, an interpreter with these packages.
#
# The locked compiler (13.2) is newer than the locked headers (13.0), which PyTorch requires. CUDA 13
# allows that, but CCCL refuses it, unless a macro says otherwise. The packages have the library of CUDA
# under its full name only, but linkers look for the short one.
CUDA_HOME=$("$python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')/nvidia/cu13
[ -x "$CUDA_HOME/bin/nvcc" ] || {
    echo "error: $CUDA_HOME has no nvcc, which the packages of envs/lock/gpu.txt have" >&2
    exit 1
}
ln -sf libcudart.so.13 "$CUDA_HOME/lib/libcudart.so"
NVCC_APPEND_FLAGS="-DCCCL_DISABLE_CTK_COMPATIBILITY_CHECK ${NVCC_APPEND_FLAGS:-}"
export CUDA_HOME NVCC_APPEND_FLAGS
