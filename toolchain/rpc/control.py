"""Requests to the lab's supervisor: one line of JSON each way, over a socket in the lab's folder."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from toolchain import errors
from toolchain.errors import ToolchainError
from toolchain.rpc import owner, state
from toolchain.rpc.client import TrackerClient

log = logging.getLogger(__name__)

_NAME = "control.sock"
_MAX_BYTES = 64 * 1024
_QUESTION_S = 5.0

Answer = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]


def error_document(error: ToolchainError) -> dict[str, Any]:
    """Return an error as a JSON object, to send it to another process."""
    return {"error": {"kind": type(error).__name__, "message": error.message, "hint": error.hint}}


def raise_for(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document, or raise the error that it describes."""
    if "error" not in document:
        return document
    error = document["error"]
    kind = getattr(errors, error["kind"], ToolchainError)
    raise kind(error["message"], error["hint"])


@contextmanager
def short_path(where: Path, name: str = _NAME) -> Iterator[str]:
    """Yield a short path to a socket in a folder, since Linux allows only 107 bytes for it."""
    handle = os.open(where, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{handle}/{name}"
    finally:
        os.close(handle)


def ask(where: Path, question: dict[str, Any], wait_s: float) -> dict[str, Any]:
    """Send a request to the supervisor of the lab in folder `where` and return its answer.

    Raises
    ------
    ToolchainError
        The supervisor returned an error, has ended, or did not answer in time.
    """
    try:
        with socket.socket(socket.AF_UNIX) as channel, short_path(where) as path:
            channel.settimeout(_QUESTION_S)
            channel.connect(path)
            channel.sendall(json.dumps(question).encode() + b"\n")
            channel.settimeout(wait_s)
            with channel.makefile("rb") as stream:
                line = stream.readline()
        document = json.loads(line)
    except TimeoutError as error:
        raise ToolchainError(
            f"the lab in {where} did not answer within {wait_s:g} s",
            "type `toolchain lab stop`, then start it again",
        ) from error
    except (OSError, ValueError) as error:
        raise ToolchainError(
            f"the lab in {where} has ended: {error}", "type `toolchain lab start`"
        ) from error
    return raise_for(document)


async def listen(where: Path, answer: Answer) -> asyncio.Server:
    """Listen for requests on the socket in folder `where`, which replaces a stale one."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if reason := owner.unix_refusal(writer.get_extra_info("socket")):
                log.warning("refused a question: %s", reason)
                return
            async with asyncio.timeout(_QUESTION_S):
                question = json.loads(await reader.readline())
            try:
                document = await answer(question)
            except ToolchainError as error:
                document = error_document(error)
            writer.write(json.dumps(document).encode() + b"\n")
            async with asyncio.timeout(_QUESTION_S):
                await writer.drain()
        except (ValueError, TimeoutError, ConnectionError):
            pass  # the client has gone or violated the protocol
        finally:
            writer.close()

    with short_path(where) as path:
        return await asyncio.start_unix_server(serve, path, limit=_MAX_BYTES)


def forget(where: Path) -> None:
    """Remove the socket."""
    (where / _NAME).unlink(missing_ok=True)


# Finds which process between a client and a board's server is not responding.

_ANSWER_S = 5.0


def who_is_silent(host: str, port: int, board: str) -> str:
    """Return a sentence about the process that is not responding, after a timeout of a board's server.

    Parameters
    ----------
    host, port
        The lab's tracker.
    board
        The board's name.
    """
    try:
        with TrackerClient(host, port) as tracker:
            tracker.summary()
        if state.read_state(state.folder()) is None:  # this process sees another part of the lab alone
            return f"the server of board {board} is silent"
        told = ask(state.folder(), {"do": "status"}, _ANSWER_S)["boards"].get(board, {})
    except ToolchainError as error:
        return f"the lab's own process is silent: {error.message}"
    return str(told.get("reason") or told.get("silent") or f"the server of board {board} is silent")
