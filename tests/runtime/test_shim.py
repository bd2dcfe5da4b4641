"""The headers that the wheels lack, as we wrote them, against numpy and Python."""

from __future__ import annotations

import base64
import ctypes
import os

import numpy as np
import pytest

from toolchain.linking.zig import run_zig
from toolchain.runtime.fingerprint import NATIVE

pytestmark = pytest.mark.slow  # zig's first C++ of a machine takes seconds

SOURCE = """
#include <builtin_fp16.h>
#include <support/base64.h>
#include <support/bytes_io.h>

using namespace tvm::support;

struct Buffer : Stream {  // std::string would need libc++, which takes a minute to build
  char* at;
  size_t size = 0;
  explicit Buffer(char* at) : at(at) {}
  size_t Read(void*, size_t) override { return 0; }
  size_t Write(const void* data, size_t n) override {
    std::memcpy(at + size, data, n);
    size += n;
    return n;
  }
};
struct View {
  const char* at;
  size_t count;
  const char* data() const { return at; }
  size_t size() const { return count; }
};

extern "C" {
uint16_t narrow(float x) { return __truncXfYf2__<float, uint32_t, 23, uint16_t, uint16_t, 10>(x); }
uint16_t narrow64(double x) { return __truncXfYf2__<double, uint64_t, 52, uint16_t, uint16_t, 10>(x); }
float widen(uint16_t x) { return __extendXfYf2__<uint16_t, uint16_t, 10, float, uint32_t, 23>(x); }

size_t encode(const char* data, size_t size, char* out) {
  Buffer buffer(out);
  Base64OutStream stream(&buffer);
  stream.Write(static_cast<const void*>(data), size / 2);
  stream.Write(static_cast<const void*>(data + size / 2), size - size / 2);
  stream.Finish();
  return buffer.size;
}
size_t decode(const char* data, size_t size, char* out, size_t room) {
  BytesInStream bytes(View{data, size});
  Base64InStream stream(&bytes);
  stream.InitPosition();
  return stream.Read(static_cast<void*>(out), room);
}
}
void operator delete(void*) noexcept {}
void operator delete(void*, unsigned long) noexcept {}
"""


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("shim")
    (folder / "shim.cc").write_text(SOURCE)
    built, out = folder / "shim.o", folder / "shim.so"
    flags = ["-std=c++20", "-O1", "-fno-rtti", "-fno-exceptions", "-fPIC", f"-I{NATIVE / 'shim'}"]
    target = ["-target", "x86_64-linux-gnu.2.27"]
    ended = run_zig(["c++", *target, *flags, "-c", str(folder / "shim.cc"), "-o", str(built)], 120)
    assert ended.returncode == 0, ended.output
    ended = run_zig(["ld.lld", "-shared", str(built), "-o", str(out)], 60)
    assert ended.returncode == 0, ended.output
    library = ctypes.CDLL(str(out))
    library.narrow.restype = library.narrow64.restype = ctypes.c_uint16
    library.narrow.argtypes, library.narrow64.argtypes = [ctypes.c_float], [ctypes.c_double]
    library.widen.restype, library.widen.argtypes = ctypes.c_float, [ctypes.c_uint16]
    library.encode.restype = library.decode.restype = ctypes.c_size_t
    return library


def test_float16_widening_matches_numpy(shim: ctypes.CDLL) -> None:
    halves = np.arange(1 << 16, dtype="uint16")
    widened = np.array([shim.widen(int(half)) for half in halves], dtype="float32")
    np.testing.assert_array_equal(widened, halves.view("float16").astype("float32"))


def test_float16_rounding_matches_numpy(shim: ctypes.CDLL) -> None:
    halves = np.arange(1 << 16, dtype="uint16").view("float16").astype("float32")
    finite = np.sort(halves[np.isfinite(halves)])
    ties = (finite[:-1] + finite[1:]) / 2
    random = np.random.default_rng(0).integers(0, 1 << 32, 20_000, dtype="uint32").view("float32")
    values = np.concatenate([ties, np.nextafter(ties, np.float32(0)), random, halves])
    with np.errstate(over="ignore"):
        expected = values.astype("float16")
    for function in (shim.narrow, shim.narrow64):
        narrowed = np.array([function(float(x)) for x in values], dtype="uint16").view("float16")
        np.testing.assert_array_equal(narrowed, expected)


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 57, 58, 1000])
def test_base64_matches_python(shim: ctypes.CDLL, size: int) -> None:
    data = os.urandom(size)
    out = ctypes.create_string_buffer(2 * size + 8)
    written = shim.encode(data, ctypes.c_size_t(size), out)
    text = base64.b64encode(data)
    assert out.raw[:written] == text
    back = ctypes.create_string_buffer(size + 8)
    length = shim.decode(text, ctypes.c_size_t(len(text)), back, ctypes.c_size_t(size + 8))
    assert back.raw[:length] == data


def test_refuses_invalid_base64(shim: ctypes.CDLL) -> None:
    for text in (b"A", b"AAA", b"A=AA", b"A*AA", b"===="):
        out = ctypes.create_string_buffer(8)
        assert shim.decode(text, ctypes.c_size_t(len(text)), out, ctypes.c_size_t(8)) == 0
