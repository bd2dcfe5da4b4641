"""The container engine: Docker, through its SDK.

Everything made here has our label, and only containers with the label are ever stopped or removed.
"""

from __future__ import annotations

import errno
import io
import os
import tarfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toolchain.configuration.settings import settings
from toolchain.errors import MissingError, ToolchainError
from toolchain.images.address import checked_environment, is_local

LABEL = "edge-toolchain"  # label on every container we create; its value is the purpose
# Label on every image of ours. It differs from that of containers, since containers inherit the labels of
# their image: a container that a user makes from our image belongs to the user.
IMAGE_LABEL = f"{LABEL}.image"
SOURCES_LABEL = f"{LABEL}.sources"  # on images: a digest of everything the image was made from
ARGUMENTS_LABEL = f"{LABEL}.arguments"  # on images: the keys of the build arguments they were made with
_ANSWER_SECONDS = 180.0  # for one request; on a busy machine loading an image takes 10 s, removing one 60
_FREEZING_SECONDS = 60.0
_FREEZING_AGAIN_SECONDS = 0.2
_MOST_READ = 2**24  # bytes of a file of a container; the largest of ours, dpkg's list, has one or two


@dataclass(frozen=True)
class ContainerRequest:
    """A request for a new container.

    Attributes
    ----------
    purpose
        The value of our label.
    labels
        More labels.
    ports
        Port in the container → port on this host's loopback interface.
    capabilities
        Capabilities of its processes; all others are dropped.
    """

    image: str
    name: str
    hostname: str
    purpose: str
    labels: Mapping[str, str]
    environment: Mapping[str, str]
    ports: Mapping[int, int]
    capabilities: Sequence[str]
    memory_mib: int
    processes: int


@dataclass(frozen=True)
class Container:
    """One of our containers; `state` is Docker's: created, running, paused, exited, dead…"""

    id: str
    name: str
    state: str
    labels: Mapping[str, str] = field(default_factory=dict)


class Engine:
    """A connection to a Docker daemon; use `connect` to make one."""

    def __init__(self, api: Any, where: str) -> None:
        self.api = api
        self.where = where

    @property
    def is_local(self) -> bool:
        """Whether the daemon runs on this machine, and so shares its files and ports."""
        return is_local(self.where)

    @property
    def version(self) -> str:
        """The daemon's version."""
        with self.request("ask for its version"):
            return str(self.api.version()["Version"])

    def has_image(self, tag: str) -> bool:
        """Whether the daemon has an image of that name."""
        with self.request(f"look for the image {tag}"):
            return bool(self.api.images(tag))

    def load_image(self, archive: Path) -> None:
        """Load a docker-archive."""
        with self.request(f"load the image {archive}"), archive.open("rb") as file:
            for line in self.api.load_image(file):
                if "error" in line:
                    raise ToolchainError(f"Docker cannot load the image {archive}: {line['error']}")

    def image(self, name: str) -> dict[str, Any] | None:
        """Return Docker's description of an image, None if it has no such image."""
        import docker.errors

        with self.request(f"look at the image {name}"), suppress(docker.errors.ImageNotFound):
            description: dict[str, Any] = self.api.inspect_image(name)
            return description
        return None

    def image_labels(self, tag: str) -> dict[str, str] | None:
        """Return an image's labels, None if the daemon has no such image."""
        description = self.image(tag)
        return None if description is None else dict(description["Config"]["Labels"] or {})

    def remove_superseded(self, name: str, tag: str) -> None:
        """Remove our older images that had a name before the image `tag` got it.

        Images in use by a container, or with another name given by a user, stay.
        """
        import docker.errors

        with self.request(f"remove what was {tag} before"):
            for superseded in self.api.images(filters={"label": f"{IMAGE_LABEL}={name}", "dangling": True}):
                with suppress(docker.errors.APIError):  # in use, or removed by another process
                    self.api.remove_image(superseded["Id"])

    def remove_image(self, tag: str) -> None:
        """Remove one of our images if it exists."""
        with self.request(f"remove the image {tag}"):
            if self.api.images(tag, filters={"label": IMAGE_LABEL}):
                self.api.remove_image(tag)

    def create(self, request: ContainerRequest) -> str:
        """Create a container that is not started yet; return its id."""
        with self.request(f"create the container {request.name}"):
            limits = self.api.create_host_config(
                port_bindings={inside: ("127.0.0.1", outside) for inside, outside in request.ports.items()},
                init=True,
                mem_limit=f"{request.memory_mib}m",
                memswap_limit=f"{request.memory_mib}m",
                pids_limit=request.processes,
                cap_drop=["ALL"],
                cap_add=list(request.capabilities),
            )
            created = self.api.create_container(
                request.image,
                name=request.name,
                hostname=request.hostname,
                labels={**request.labels, LABEL: request.purpose},
                environment=dict(request.environment),
                ports=list(request.ports),
                host_config=limits,
            )
        return str(created["Id"])

    def start(self, container: str) -> None:
        """Start a container of ours."""
        self._ours(container)
        with self.request(f"start the container {container[:12]}"):
            self.api.start(container)

    def kill(self, container: str, signal: str = "SIGKILL") -> None:
        """Send a signal to a container's first process; the default simulates a power cut."""
        self._ours(container)
        with self.request(f"kill the container {container[:12]}"):
            self.api.kill(container, signal)

    def pause(self, container: str) -> None:
        """Suspend all processes of a container of ours.

        On a busy host, runc gives up on a container whose processes just start others ("unable to freeze");
        the request is then repeated for up to `_FREEZING_SECONDS`.
        """
        self._ours(container)
        deadline = time.monotonic() + _FREEZING_SECONDS
        while True:
            try:
                with self.request(f"pause the container {container[:12]}"):
                    self.api.pause(container)
            except ToolchainError as error:
                if "unable to freeze" not in error.message or time.monotonic() > deadline:
                    raise
                time.sleep(_FREEZING_AGAIN_SECONDS)
            else:
                return

    def unpause(self, container: str) -> None:
        """Resume a paused container."""
        self._ours(container)
        with self.request(f"unpause the container {container[:12]}"):
            self.api.unpause(container)

    def remove(self, container: str) -> None:
        """Remove one of our containers if it exists, running or not."""
        if self.state(container) is None:
            return
        self._ours(container)
        with self.request(f"remove the container {container[:12]}", gone_is_fine=True):
            self.api.remove_container(container, force=True, v=True)

    def state(self, container: str) -> str | None:
        """Return a container's state in Docker's words, None if it does not exist."""
        description = self._inspect(container)
        return None if description is None else str(description["State"]["Status"])

    def process(self, container: str) -> int:
        """Return the process id of a running container's first process on the daemon's machine, else 0."""
        description = self._inspect(container)
        return 0 if description is None else int(description["State"]["Pid"])

    def containers(self, purpose: str) -> list[Container]:
        """Return our containers with this purpose, stopped ones included."""
        with self.request("list the containers"):
            listed = self.api.containers(all=True, filters={"label": f"{LABEL}={purpose}"})
        return [Container(c["Id"], c["Names"][0].lstrip("/"), c["State"], c["Labels"] or {}) for c in listed]

    def programs(self, container: str) -> list[str]:
        """Return the command lines of a running container's processes."""
        with self.request(f"list the processes of {container[:12]}"):
            # Wide: ps cuts its lines where the engine was started with COLUMNS in its environment.
            listed = self.api.top(container, "-ww -eo pid,args")
        return [" ".join(row[1:]) for row in listed["Processes"] or []]

    def run(self, container: str, argv: Sequence[str], user: str = "root") -> tuple[int, bytes]:
        """Run a command in a running container; return its exit code and what it printed."""
        with self.request(f"run {argv[0]} in {container[:12]}"):
            execution = self.api.exec_create(container, list(argv), user=user)
            printed = self.api.exec_start(execution["Id"])
            return int(self.api.exec_inspect(execution["Id"])["ExitCode"]), bytes(printed)

    def log(self, container: str) -> str:
        """Return the last five lines that a container printed."""
        with self.request(f"read the log of {container[:12]}"):
            return bytes(self.api.logs(container, tail=5)).decode(errors="replace").strip()

    def put(self, container: str, archive: bytes) -> None:
        """Unpack a tar at the root of a container, running or not."""
        self._ours(container)
        with self.request(f"write into {container[:12]}"):
            self.api.put_archive(container, "/", archive)

    def read(self, container: str, path: str) -> bytes:
        """Return a small file of a container; its content is untrusted."""
        with self.request(f"read {path} of {container[:12]}"):
            chunks, _ = self.api.get_archive(container, path)
            content = b""
            for chunk in chunks:
                content += chunk
                if len(content) > _MOST_READ:
                    raise ToolchainError(f"{path} of the container {container[:12]} is too large to be ours")
        try:
            with tarfile.open(fileobj=io.BytesIO(content)) as archive:
                first = archive.next()
                member = archive.extractfile(first) if first else None
                return member.read(_MOST_READ) if member else b""  # a sparse one may say any size
        except (tarfile.TarError, KeyError) as error:  # KeyError: a link to what is not there
            raise ToolchainError(f"{path} of the container {container[:12]} is no plain file") from error

    def _inspect(self, container: str) -> dict[str, Any] | None:
        import docker.errors

        with self.request(f"look at the container {container[:12]}"):
            try:
                description: dict[str, Any] = self.api.inspect_container(container)
            except docker.errors.NotFound:
                return None
        return description

    def _ours(self, container: str) -> None:
        description = self._inspect(container)
        if description is None:
            raise ToolchainError(f"the container {container[:12]} is gone: someone removed it")
        if LABEL not in (description["Config"]["Labels"] or {}):
            raise ToolchainError(f"the container {container[:12]} is not one of this toolchain's: left alone")

    @contextmanager
    def request(self, what: str, gone_is_fine: bool = False) -> Iterator[None]:
        """Convert the errors of a request to the daemon; `what` completes "Docker cannot …"."""
        import docker.errors
        import requests.exceptions

        try:
            yield
        except docker.errors.NotFound as error:
            if not gone_is_fine:
                raise ToolchainError(f"Docker cannot {what}: {error.explanation or error}") from error
        except docker.errors.APIError as error:
            raise ToolchainError(f"Docker cannot {what}: {error.explanation or error}") from error
        except (docker.errors.DockerException, requests.exceptions.RequestException, OSError) as error:
            raise ToolchainError(
                f"the Docker daemon at {self.where} stopped answering: cannot {what} ({_innermost(error)})",
                "is it still running? `docker info`",
            ) from error


@contextmanager
def connect() -> Iterator[Engine]:
    """Connect to the Docker daemon of DOCKER_HOST, else of this machine, for the duration of the block.

    The settings are read first, so that a wrong one is refused whatever images the daemon has.

    Raises
    ------
    UsageError
        A setting is wrong, or DOCKER_HOST is not an address.
    MissingError
        No daemon answers there, or it does not let this user in.
    """
    import docker
    import docker.errors
    import requests.exceptions

    settings()
    where, options = checked_environment()
    try:
        api = docker.APIClient(version="auto", timeout=_ANSWER_SECONDS, **options)
    except (docker.errors.DockerException, requests.exceptions.RequestException, OSError) as error:
        raise _absent(where, error) from error
    with closing(api):
        yield Engine(api, where)


def answers() -> bool:
    """Whether a Docker daemon on this machine can be used."""
    try:
        with connect() as engine:
            return engine.is_local
    except ToolchainError:
        return False


def _absent(where: str, error: BaseException) -> MissingError:
    cause = _innermost(error)
    if isinstance(cause, OSError) and cause.errno in (errno.EACCES, errno.EPERM):
        return MissingError(
            f"the Docker daemon at {where} does not let this user in: permission denied",
            "as root: usermod -aG docker YOUR-NAME, then log in again",
        )
    started = (
        "is DOCKER_HOST right?"
        if os.environ.get("DOCKER_HOST")
        else "apt-get install docker.io, and start it; `make deps` in a checkout does both"
    )
    return MissingError(f"no Docker daemon answers at {where}: {cause}", started)


def _innermost(error: BaseException) -> BaseException:
    """Return the error of the operating system below the SDK's, if there is one."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno is not None:
            return cause
        inner = cause.args[0] if cause.args and isinstance(cause.args[0], BaseException) else None
        reason = getattr(inner, "reason", None)
        cause = (
            cause.__cause__ or cause.__context__ or (reason if isinstance(reason, BaseException) else inner)
        )
    return error
