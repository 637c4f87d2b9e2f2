#!/bin/bash
# links_cuda.sh BUILD: the links of CUDA cards, with a fake CUDA runtime and a fake NCCL (tests/gpu/fake).
build=${1:?usage: links_cuda.sh BUILD}
root=$(cd "$(dirname "$0")/../.." && pwd)
compiler=${CXX:-c++}
command -v "$compiler" >/dev/null || exit 77
work=$(mktemp -d "$build/links_cuda.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
options="-std=c++17 -O1 -g -Wall -Wextra -fPIC -I$root/tests/gpu/fake -I$root/src"
"$compiler" $options -shared "$root/tests/gpu/fake/nccl.cc" -o "$work/nccl.so" || exit 1
"$compiler" $options -x c++ "$root/src/device/cuda/links.cu" "$root/tests/gpu/fake/links.cc" -x none -o "$work/links" -ldl || exit 1
LOCKSTEP_NCCL=$work/nccl.so timeout 60 "$work/links"
