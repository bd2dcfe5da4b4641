#!/bin/sh
# build.sh MESA BUILD: compiles Mesa's OpenCL (rusticl), its compiler for Mali (panfrost) and the stand-in for the kernel's
# driver (drm-shim) in the folder BUILD. Needs what trixie.sh fetched at /trixie.
set -eu
mesa=$1
build=$2
llvm=/usr/lib/llvm-15
# What maintainer scripts would have made.
ln -sf gcc /usr/bin/cc
cat >/usr/local/bin/bindgen <<END
#!/bin/sh
library=/trixie/root/usr/lib/x86_64-linux-gnu
export LIBCLANG_PATH=$llvm/lib CLANG_PATH=$llvm/bin/clang
exec \$library/ld-linux-x86-64.so.2 --library-path \$library:$llvm/lib:/usr/lib/x86_64-linux-gnu /trixie/root/usr/bin/bindgen "\$@"
END
chmod +x /usr/local/bin/bindgen
printf "[binaries]\nllvm-config = '/usr/bin/llvm-config-15'\n" >/native.ini
export PYTHONPATH=/trixie/meson/usr/lib/python3/dist-packages PKG_CONFIG_PATH=$llvm/lib/pkgconfig
python3 /trixie/meson/usr/bin/meson setup "$build" "$mesa" --native-file /native.ini --libdir=lib \
  -Dbuildtype=plain -Doptimization=1 -Ddebug=false -Db_ndebug=true -Dgallium-drivers=panfrost -Dgallium-rusticl=true \
  -Dgallium-rusticl-enable-drivers=panfrost -Dtools=drm-shim -Dvulkan-drivers= -Dplatforms= -Dopengl=false \
  -Dgles1=disabled -Dgles2=disabled -Degl=disabled -Dglx=disabled -Dgbm=disabled -Dglvnd=disabled \
  -Dllvm=enabled -Dshared-llvm=enabled -Ddraw-use-llvm=false -Dxmlconfig=disabled -Dexpat=disabled -Dzstd=disabled \
  -Dshader-cache=disabled -Dvalgrind=disabled -Dlibunwind=disabled -Dlmsensors=disabled -Dbuild-tests=false \
  -Dvideo-codecs= -Dhtml-docs=disabled
ninja -C "$build" src/gallium/targets/rusticl/libRusticlOpenCL.so.1.0.0 src/panfrost/drm-shim/libpanfrost_noop_drm_shim.so
