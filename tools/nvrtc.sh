#!/bin/sh
# Prints where NVRTC, NVIDIA's run-time compiler, lies: as the loader finds it, in a CUDA toolkit, or unpacked from its
# Python package into a folder of the build. The tests that compile device text use it; no GPU is needed.
# Usage: tools/nvrtc.sh [FOLDER]       (default build/nvrtc)
version=13.0.88 # what tests/op/cuda_resources.txt was made with
dir=${1:-build/nvrtc}
found=$(ldconfig -p 2>/dev/null | sed -n 's/.*libnvrtc\.so\.1[23] .*=> //p' | head -1)
for file in "$found" /usr/local/cuda/lib64/libnvrtc.so "$dir"/nvidia/*/lib/libnvrtc.so.1[23]; do
    [ -n "$file" ] && [ -e "$file" ] && echo "$file" && exit 0
done
fail() {
    echo "cadre: $1" >&2
    exit 2
}
if ! python3 -m pip --version >/dev/null 2>&1; then
    [ "$(id -u)" = 0 ] || fail "NVRTC comes with a Python package: please install python3-pip"
    apt-get update -qq >/dev/null 2>&1
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-pip >/dev/null 2>&1
fi
mkdir -p "$dir" && dir=$(cd "$dir" && pwd) || fail "$dir cannot be made"
python3 -m pip download -q --no-deps --only-binary=:all: -d "$dir" "nvidia-cuda-nvrtc==$version" >&2 ||
    fail "nvidia-cuda-nvrtc $version could not be had"
for wheel in "$dir"/*.whl; do python3 -m zipfile -e "$wheel" "$dir" && rm "$wheel"; done
for file in "$dir"/nvidia/*/lib/libnvrtc.so.1[23]; do
    [ -e "$file" ] && echo "$file" && exit 0
done
fail "nvidia-cuda-nvrtc $version holds no libnvrtc"
