"""What a driver says of a kernel, in the network's words."""

from __future__ import annotations

from toolchain.bundles.kernel_names import as_comment, with_functions

ONE, OTHER = "kernel_" + "0" * 32, "kernel_" + "ab" * 16


def test_a_message_has_the_functions_of_its_kernels() -> None:
    library = b"\x7fELF" + as_comment({"conv": ONE, "conv1": ONE, "dense": OTHER}).encode() + b"\0"
    said = with_functions(f"kernel {ONE}_kernel_1 does not compile, {ONE}", library)
    assert said == f"kernel {ONE}_kernel_1 does not compile, {ONE} ({ONE} is of conv, conv1)"
    assert with_functions(f"{OTHER}_kernel", library).endswith("is of dense)")


def test_messages_without_kernels_are_unchanged() -> None:
    assert with_functions("out of memory", as_comment({"conv": ONE}).encode()) == "out of memory"
    assert with_functions(f"kernel {OTHER}", as_comment({"conv": ONE}).encode()) == f"kernel {OTHER}"
    assert with_functions(f"kernel {OTHER}", b"") == f"kernel {OTHER}"
