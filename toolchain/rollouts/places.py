"""Carriers to places from which others take a release: a file, a Mender artifact, an OCI registry."""

from __future__ import annotations

from threading import Event

from toolchain.events.rollouts import ReleaseStored
from toolchain.releases.export import Delivery, WrittenFile, export_artifact, export_bundle, export_release
from toolchain.releases.registry.artifact import ReleaseAddress, push_address
from toolchain.releases.registry.exchange import push
from toolchain.rollouts.carrier import Carrier, Events, FilePlace


class FileCarrier(Carrier[FilePlace]):
    """Writes the file that `edge-rt install` reads, from a USB stick for instance."""

    name = "file"
    reaches = "a file"
    options = frozenset({"bundle-only"})

    def send(self, delivery: Delivery, place: FilePlace, stop: Event) -> Events:
        """Write the file, or bundle and envelope as two files."""
        del stop  # a file is written in seconds, and whole or not at all
        if place.bundle_only:
            for written in export_bundle(delivery.signed, place.path):
                yield _stored(written)
        else:
            yield _stored(export_release(delivery.signed, delivery.trust, place.path))


class MenderCarrier(Carrier[FilePlace]):
    """Writes a Mender artifact; Mender has its own phases and its own way back."""

    name = "mender"
    reaches = "a file"
    options = frozenset({"device-type"})

    def send(self, delivery: Delivery, place: FilePlace, stop: Event) -> Events:
        """Write the artifact."""
        del stop
        yield _stored(export_artifact(delivery.signed, delivery.trust, place.device_types, place.path))


class OciCarrier(Carrier[ReleaseAddress]):
    """Sends releases to an OCI registry, from which `release pull` fetches them."""

    name = "oci"
    reaches = "an address"

    def address(self, text: str) -> ReleaseAddress:
        """Return `HOST[:PORT]/REPOSITORY:TAG` as an address to push to."""
        return push_address(text)

    def send(self, delivery: Delivery, place: ReleaseAddress, stop: Event) -> Events:
        """Send the bundle, its envelope, then their manifest."""
        del stop
        signed = delivery.signed
        digest = push(place, signed.bundle, signed.file, signed.release.app, signed.release.version)
        yield ReleaseStored(place=str(place.pinned(digest)), sha256=digest.removeprefix("sha256:"))


def _stored(written: WrittenFile) -> ReleaseStored:
    return ReleaseStored(place=str(written.file), sha256=written.sha256, bytes=written.size)
