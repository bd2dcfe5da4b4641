#!/bin/sh
# slim-cuda.sh INSTALLED FOLDER: of the wheels' files, what compiles kernels goes into FOLDER.
set -eu
mkdir -p "$2/opt" "$2/opt/venv/lib/python3.11"
mv "$1/nvidia/cu13" "$2/opt/cuda"
rm -rf "$1/nvidia"
mv "$1" "$2/opt/venv/lib/python3.11/site-packages"

# Kernels are compiled here; what is linked with them is linked where they run.
cd "$2/opt/cuda"
rm -rf .metadata lib/cmake lib/*.a lib/*.alt.so* lib/libnvvm.so* bin/nvlink bin/bin2c bin/__nvcc_device_query
# TVM looks for headers below targets/, where NVIDIA's installer puts them.
mkdir -p targets/x86_64-linux
ln -s ../../include targets/x86_64-linux/include

# cuda-bindings: the sources that its modules were made from.
cd "$2/opt/venv/lib/python3.11/site-packages"
find cuda \( -name '*.cpp' -o -name '*.pyx' -o -name '*.pyx.in' -o -name '*.pxd' -o -name '*.pxi' -o -name tests \) \
    -prune -exec rm -r {} +
python3.11 -m compileall -q --invalidation-mode unchecked-hash cuda
