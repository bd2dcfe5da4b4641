"""Whether a file was written by somebody whom its reader may obey: the reader, or root.

A settings file names programs that are run. One that another user of the machine has put into a folder
above the current one is theirs, not the reader's.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
from pathlib import Path


def other_writer(file: Path) -> str | None:
    """Say which other user could have written a file, or a link to it, or put it there; None: nobody could.

    Raises
    ------
    OSError
        It is not there, or may not be looked at.
    """
    for path, found in ((file, file.lstat()), (file, file.stat())):
        if problem := _owned_by_another(path, found) or _writable_by_others(path, found):
            return problem
    for folder in {file.parent.resolve(): None, file.resolve().parent: None}:  # a link's, and its target's
        found = folder.stat()
        # In a sticky folder, such as /tmp, nobody can take another's file away: its own owner counts.
        if found.st_mode & stat.S_ISVTX:
            continue
        if problem := _owned_by_another(folder, found) or _writable_by_others(folder, found):
            return problem
    return None


def placed_by_another(file: Path) -> bool:
    """Whether others may put files into a file's folder, and this one may be theirs.

    Raises
    ------
    OSError
        It is not there, or may not be looked at.
    """
    folder = file.parent.stat()
    if _owned_by_another(file.parent, folder):
        return True
    theirs = _owned_by_another(file, file.lstat())
    return theirs is not None and _writable_by_others(file.parent, folder) is not None


def _owned_by_another(path: Path, found: os.stat_result) -> str | None:
    if found.st_uid in _trusted_users():
        return None
    return f"{path} belongs to {_user_name(found.st_uid)}, not to you"


def _trusted_users() -> set[int]:
    trusted = {0, os.geteuid()}
    if os.geteuid() == 0 and os.environ.get("SUDO_UID", "").isdecimal():
        trusted.add(int(os.environ["SUDO_UID"]))  # sudo sets it: who typed the command
    return trusted


def _writable_by_others(path: Path, found: os.stat_result) -> str | None:
    if stat.S_ISLNK(found.st_mode):  # its mode means nothing
        return None
    if found.st_mode & stat.S_IWOTH:
        return f"{path} can be written by every user"
    if found.st_mode & stat.S_IWGRP and not _is_private(found.st_gid, found.st_uid):
        return f"{path} can be written by the group {_group_name(found.st_gid)}"
    return None


def _is_private(group: int, user: int) -> bool:
    """Return whether a group is a user's own, as Debian gives everyone one: a mode of 664 is usual there."""
    if group == 0:
        return True
    try:
        members, name = grp.getgrgid(group).gr_mem, pwd.getpwuid(user).pw_name
        own = pwd.getpwuid(user).pw_gid
    except KeyError:  # no such name here, as in a container: there are no others either
        return group == os.getegid()
    return group == own and set(members) <= {name}


def _user_name(number: int) -> str:
    try:
        return f"user {pwd.getpwuid(number).pw_name}"
    except KeyError:
        return f"user number {number}"


def _group_name(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)
