"""Libraries that must not reach a board, made for real; each is refused for the right reason."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.linking.conftest import Workshop, zig
from toolchain.architectures.table import ARCHITECTURES
from toolchain.errors import ToolchainError
from toolchain.linking import ZigLinker, check_library
from toolchain.linking.linker import flags_for
from toolchain.linking.lld import ensure_stubs
from toolchain.profiles import Profile, load_profile

pytestmark = pytest.mark.slow

CALLED = ("expf", "memcpy", "TVMFFIErrorSetRaisedFromCStrParts", "TVMBackendParallelLaunch")


class Case:
    """Objects, the flags of a right link, and what the gate says of another one."""

    def __init__(self, workshop: Workshop, called: Sequence[str] = CALLED) -> None:
        self.workshop = workshop
        self.objects = workshop.objects(*called)
        self.stubs = ensure_stubs(workshop.arch, workshop.profile.glibc)
        # What is linked in is judged, be it used or not.
        self.flags = (*flags_for(workshop.profile, self.objects)[1:], "--no-gc-sections")

    def with_text(self, text: str) -> Case:
        self.objects.append(self.workshop.assemble(text, "more.o"))
        return self

    def link(
        self, *more: object, flags: Sequence[str] | None = None, stubs: Sequence[Path] | None = None
    ) -> Path:
        inputs = [*self.objects, *more, *(self.stubs if stubs is None else stubs)]
        return self.workshop.lld(*(self.flags if flags is None else flags), *inputs)

    def refusal(self, library: Path, profile: Profile | None = None) -> str:
        with pytest.raises(ToolchainError) as caught:
            check_library(library, profile or self.workshop.profile, self.objects)
        assert str(library) in caught.value.message and caught.value.exit_code == 1
        assert "expected" in caught.value.message
        return caught.value.message


@pytest.fixture
def case(workshop: Workshop) -> Case:
    return Case(workshop)


def test_valid_library_passes(case: Case) -> None:
    check_library(case.link(), case.workshop.profile, case.objects)


def test_library_without_calls_passes(workshop: Workshop) -> None:
    case = Case(workshop, called=())
    check_library(case.link(), workshop.profile, case.objects)


def test_refuses_another_machine(case: Case) -> None:
    other = {"aarch64": "x86_64", "armv7a": "rk3399", "x86_64": "pynq"}[case.workshop.profile.arch]
    message = case.refusal(case.link(), load_profile(other))
    assert f"e_machine is {case.workshop.arch.elf_machine}, expected EM_" in message


def test_refuses_text_relocations(case: Case) -> None:
    case.with_text(f".text\n{case.workshop.word} expf\n")
    assert "DT_TEXTREL" in case.refusal(case.link("-z", "notext"))


def test_refuses_an_executable_stack(case: Case) -> None:
    assert "executable stack" in case.refusal(case.link("-z", "execstack"))


def test_refuses_a_newer_glibc(glibc_workshop: Workshop) -> None:
    case = Case(glibc_workshop, called=("exp", "expf"))
    message = case.refusal(case.link(stubs=ensure_stubs(glibc_workshop.arch, "2.29")))
    assert "needs GLIBC_2.29 of libm.so.6 for exp, expected GLIBC_2.27 at most" in message
    check_library(case.link(), glibc_workshop.profile, case.objects)


def test_refuses_the_c_plus_plus_library(case: Case) -> None:
    case.with_text(case.workshop.function("__tvm_ffi_new", "_Znwm"))
    text = case.workshop.assemble(case.workshop.function("_Znwm"), "cxx.o")
    library = case.workshop.lld(text, "-soname", "libstdc++.so.6", name="libstdc++.so.6")
    message = case.refusal(case.link(library))
    assert f"it needs libstdc++.so.6, expected none but {', '.join(s.name for s in case.stubs)}" in message
    assert "it calls _Znwm, expected symbols of the runtime" in message


def test_refuses_gccs_start_up_symbols(case: Case) -> None:
    text = case.workshop.function("_init", "__gmon_start__") + case.workshop.function(
        "_fini", "__cxa_finalize"
    )
    text += ".weak __gmon_start__, __cxa_finalize, _ITM_registerTMCloneTable\n.hidden _init, _fini\n"
    started = case.workshop.assemble(
        text + f".data\n{case.workshop.word} _ITM_registerTMCloneTable", "crti.o"
    )
    message = case.refusal(case.link(started))
    assert "DT_INIT (start-up code)" in message and "DT_FINI (exit code)" in message
    assert "calls _ITM_registerTMCloneTable, __cxa_finalize, __gmon_start__, expected" in message


def test_refuses_constructors(case: Case) -> None:
    case.with_text(f'.section .init_array,"aw",%init_array\n{case.workshop.word} __tvm_ffi_f\n')
    assert "DT_INIT_ARRAY (start-up code)" in case.refusal(case.link())


def test_refuses_libraries_of_plain_lld(case: Case) -> None:
    message = case.refusal(case.link(flags=[], stubs=[]))
    assert "bound at the first call" in message
    libm, libc = (stub.name for stub in case.stubs)
    assert f"it calls expf but does not need {libm}" in message
    assert f"it calls memcpy but does not need {libc}" in message
    assert ("it calls expf, memcpy of any version" in message) == (libc == "libc.so.6")
    assert ("it has no DT_SONAME" in message) == (libc == "libc.so")


def test_refuses_replaced_c_functions(case: Case) -> None:
    text = case.workshop.function("expf") + case.workshop.function("memcpy")
    object_file = case.workshop.assemble(text + ".hidden expf, memcpy\n.weak expf, memcpy\n", "compiler_rt.o")
    message = case.refusal(case.link(object_file))
    assert "its objects call expf, memcpy but it does not: something took their place" in message


def test_refuses_calls_that_no_object_makes(case: Case) -> None:
    more = case.workshop.assemble(case.workshop.function("__tvm_ffi_more", "sinf"), "more.o")
    assert "it calls sinf, expected no symbols but those that its objects call" in case.refusal(
        case.link(more)
    )


def test_refuses_segments_for_small_pages(case: Case) -> None:
    small = case.workshop.arch.page // 16
    message = case.refusal(case.link("-z", f"max-page-size={small}"))
    assert f"is aligned to {small:#x}, expected {case.workshop.arch.page:#x}" in message


@pytest.mark.parametrize(
    ("flag", "tag"), [("--enable-new-dtags", "DT_RUNPATH"), ("--disable-new-dtags", "DT_RPATH")]
)
def test_refuses_a_search_path(case: Case, flag: str, tag: str) -> None:
    assert tag in case.refusal(case.link(flag, "-rpath", "/opt/lib"))


def test_refuses_writable_executable_segments(case: Case) -> None:
    case.with_text('.section .both,"awx"\n.quad 0\n')
    assert "is writable and executable" in case.refusal(case.link())


@pytest.mark.parametrize(
    ("section", "segment"), [('.interp,"a"', "PT_INTERP"), ('.tdata,"awT",%progbits', "PT_TLS")]
)
def test_refuses_interpreter_and_tls_segments(case: Case, section: str, segment: str) -> None:
    case.with_text(f".section {section}\n.quad 0\n")
    assert f"it has a {segment} segment, expected none" in case.refusal(case.link())


def test_refuses_foreign_exports(case: Case) -> None:
    case.with_text(case.workshop.function("main") + case.workshop.function("malloc"))
    assert "it exports main, malloc, expected __tvm_ffi_*" in case.refusal(case.link())


@pytest.mark.parametrize("flag", ["--auxiliary=other.so", "--filter=other.so"])
def test_refuses_a_preempting_library(case: Case, flag: str) -> None:
    assert "a library in its place" in case.refusal(case.link(flag))


def test_reports_all_violations_at_once(case: Case) -> None:
    case.with_text(case.workshop.function("main"))
    message = case.refusal(case.link("-z", "execstack", "-rpath", "/opt/lib", "-z", "lazy"))
    assert message.count("\n  - ") == 4


def glibc_stubs(_case: Case) -> Sequence[Path]:
    return ensure_stubs(ARCHITECTURES["aarch64"], "2.27")


def versioned_stubs(case: Case) -> Sequence[Path]:
    """Stubs as an NDK has them: Android's names, with versions."""
    script = case.workshop.folder / "libc.map"
    script.write_text("LIBC { memcpy; };\n")
    text = case.workshop.assemble(case.workshop.function("memcpy"), "libc.o")
    versioned = case.workshop.lld(text, "-soname", "libc.so", "--version-script", script, name="libc.so")
    return case.stubs[0], versioned


@pytest.mark.parametrize(
    ("flags", "stubs", "says"),
    [
        (["-z", "max-page-size=4096"], None, ["is aligned to 0x1000, expected 0x4000"]),
        (
            [],
            glibc_stubs,
            [
                "it needs libm.so.6, expected none but libm.so, libc.so",
                "it needs GLIBC_2.27 of libm.so.6 for expf, expected no versions on Android",
                "it needs GLIBC_2.17 of libc.so.6 for memcpy, expected no versions on Android",
                "it calls expf but does not need libm.so, expected it as NEEDED",
            ],
        ),
        ([], versioned_stubs, ["it needs LIBC of libc.so for memcpy, expected no versions on Android"]),
    ],
    ids=["pages of 4 KiB", "glibc", "versions"],
)
def test_refuses_what_android_does_not_load(
    android: Workshop, flags: list[str], stubs: Callable[[Case], Sequence[Path]] | None, says: list[str]
) -> None:
    case = Case(android)
    library = case.link(*flags, stubs=stubs and stubs(case))
    message = case.refusal(library)
    assert all(words in message for words in says), message


def test_refuses_android_libraries_without_a_soname(android: Workshop) -> None:
    case = Case(android)
    flags = [flag for flag in case.flags if flag != "-soname" and not flag.endswith(".so")]
    assert "it has no DT_SONAME, expected one" in case.refusal(case.link(flags=flags))


def test_refuses_glibc_only_functions_on_android(android: Workshop) -> None:
    case = Case(android, called=("roundevenf",))
    named = android.lld(
        android.assemble(android.function("roundevenf"), "m.o"), "-soname", "libm.so", name="libm.so"
    )
    assert "it calls roundevenf, expected symbols of the runtime" in case.refusal(case.link(stubs=[named]))
    with pytest.raises(
        ToolchainError, match="roundevenf; neither the C library of board class android-arm64"
    ):
        ZigLinker().link(case.objects, android.folder / "lib.so", android.profile)


def test_linux_and_android_libraries_are_not_exchangeable(android: Workshop) -> None:
    case = Case(android)
    linux = load_profile("rk3399")
    assert "aligned to 0x4000, expected 0x10000" in case.refusal(case.link(), linux)
    out = android.folder / "linux.so"
    ZigLinker().link(case.objects, out, linux)
    assert "it needs libc.so.6, expected none but libm.so, libc.so" in case.refusal(out)


@pytest.fixture
def arm(workshop_for: Callable[[str], Workshop]) -> Workshop:
    return workshop_for("armv7a")


def test_refuses_other_run_time_helpers(arm: Workshop) -> None:
    objects = arm.objects("__aeabi_idiv", "__aeabi_ldivmod", "__aeabi_unwind_cpp_pr1", *CALLED)
    library = arm.folder / "lib.so"
    ZigLinker().link(objects, library, arm.profile)
    check_library(library, arm.profile, objects)


def test_refuses_soft_float_objects_in_a_hard_float_library(arm: Workshop) -> None:
    """LLVM writes no such tag for soft float, and lld takes the value of the other objects."""
    case = Case(arm)
    case.objects.append(arm.assemble(arm.function("__tvm_ffi_soft"), "more.o", head=".arm\n"))
    message = case.refusal(case.link())
    assert message.endswith("Tag_ABI_VFP_args of more.o is 0, expected 1: floats in VFP registers")


def test_refuses_a_soft_float_library(arm: Workshop) -> None:
    case = Case(arm)
    content = bytearray(case.link().read_bytes())
    content[36:40] = (0x5000200).to_bytes(4, "little")  # e_flags: floats in core registers
    soft = arm.folder / "soft.so"
    soft.write_bytes(content)
    assert "e_flags is 0x5000200, expected 0x5000400" in case.refusal(soft)


def test_refuses_calls_of_a_three_part_triple(arm: Workshop) -> None:
    """LLVM calls libgcc's names for it, which neither the board nor our helpers have."""
    objects = arm.objects("__divsi3", "__fixsfdi")
    with pytest.raises(ToolchainError, match=r"undefined symbols in .*: __divsi3, __fixsfdi; "):
        ZigLinker().link(objects, arm.folder / "lib.so", arm.profile)
    case = Case(arm, called=("__divsi3", "__aeabi_uidiv"))
    assert "it calls __aeabi_uidiv, __divsi3, expected symbols of the runtime" in case.refusal(case.link())


def test_refuses_libraries_of_zig_c_plus_plus(arm: Workshop) -> None:
    """One helper brings zig's whole compiler_rt along; libc++'s libraries come on top."""
    objects = arm.objects("__aeabi_ldivmod", *CALLED)
    library = arm.folder / "cxx.so"
    zig("cc", "-target", arm.arch.zig_target, "-O2", "-s", "-shared", *objects, "-ldl", "-o", library)
    with pytest.raises(ToolchainError) as caught:
        check_library(library, arm.profile, objects)
    assert "its objects call expf, memcpy but it does not: something took their place" in caught.value.message


@settings(max_examples=30)
@given(length=st.integers(0))
@example(0)
@example(-1)
def test_refuses_a_truncated_file(case: Case, length: int) -> None:
    complete = case.workshop.folder / "whole.so"
    if not complete.exists():
        ZigLinker().link(case.objects, complete, case.workshop.profile)
    data = complete.read_bytes()
    cut = case.workshop.folder / "cut.so"
    cut.write_bytes(data[: length % len(data)])
    with pytest.raises(ToolchainError, match="not a whole ELF library"):
        check_library(cut, case.workshop.profile, case.objects)


def test_refuses_files_that_are_not_libraries(case: Case) -> None:
    text = case.workshop.folder / "text.so"
    text.write_text("INPUT(libother.so)")
    for path, complaint in ((text, "not a whole ELF library"), (case.objects[0], "no dynamic section")):
        with pytest.raises(ToolchainError, match=complaint):
            check_library(path, case.workshop.profile, case.objects)
    with pytest.raises(ToolchainError, match="No such file"):
        check_library(text.with_name("none.so"), case.workshop.profile, case.objects)
    with pytest.raises(ToolchainError, match="is not an ELF object"):
        check_library(case.link(), case.workshop.profile, [text])
