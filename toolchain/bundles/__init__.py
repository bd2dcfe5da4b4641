"""Bundles: deployable files with a library and the data to verify it; see docs/bundle-format.md."""

from toolchain.bundles.manifest import Manifest, ModelFacts, RuntimeNeeds, TargetFacts, TaskFacts, Tensor
from toolchain.bundles.read import Bundle, read_bundle
from toolchain.bundles.write import write_bundle

__all__ = [
    "Bundle",
    "Manifest",
    "ModelFacts",
    "RuntimeNeeds",
    "TargetFacts",
    "TaskFacts",
    "Tensor",
    "read_bundle",
    "write_bundle",
]
