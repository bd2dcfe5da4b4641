"""A dialogue with a command on a board over SSH."""

from __future__ import annotations

from toolchain.boards.ssh.remote import Script
from toolchain.boards.transport import MOST_LINE

_END_S = 15.0  # between the end of its output and its exit code


class SshDialogue:
    """A `Dialogue` through an SSH channel, whose window holds the sender back."""

    def __init__(self, script: Script) -> None:
        self._script = script

    def send(self, data: bytes, patience: float) -> bool:
        """Send `data`; see `Dialogue.send`."""
        try:
            self._script.channel.send(data, patience)
        except TimeoutError as error:
            raise self._script.failure(error) from error
        except (OSError, EOFError) as error:
            if not self._script.connected:
                raise self._script.failure(error) from error
            return False
        return True

    def read_line(self, timeout: float) -> bytes:
        """Return the next line of the output; see `Dialogue.read_line`."""
        self._script.limit(timeout)
        try:
            line = self._script.stdout.readline(MOST_LINE)
        except TimeoutError as error:
            raise self._script.failure(error) from error
        if not line:
            self.wait(_END_S)  # raises if it was the link that ended
        return line

    def wait(self, timeout: float) -> int:
        """Wait for the command to end; see `Dialogue.wait`."""
        code = self._script.wait(timeout)
        if code is None:
            raise self._script.failure(TimeoutError())
        return code

    def errors(self) -> bytes:
        """Return the end of its standard error."""
        return self._script.errors()

    def close(self) -> None:
        """Close the channel."""
        self._script.close()
