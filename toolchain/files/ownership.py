"""Checks that only the current user or root can have written a file.

A settings file can name programs to run. So a file that another user has put into a folder above the current
one must not be trusted.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
from pathlib import Path


def other_writer(file: Path) -> str | None:
    """Return a sentence about another user who could have written or placed a file; None if nobody could.

    Raises
    ------
    OSError
        The file does not exist or may not be examined.
    """
    for path, status in ((file, file.lstat()), (file, file.stat())):
        if problem := _owned_by_another(path, status) or _writable_by_others(path, status):
            return problem
    for folder in {
        file.parent.resolve(): None,
        file.resolve().parent: None,
    }:  # of a link and its target
        status = folder.stat()
        # In a sticky folder such as /tmp, nobody can replace another user's file: only the owner counts.
        if status.st_mode & stat.S_ISVTX:
            continue
        if problem := _owned_by_another(folder, status) or _writable_by_others(folder, status):
            return problem
    return None


def placed_by_another(file: Path) -> bool:
    """Whether another user may write to the file's folder and may have put the file there.

    Raises
    ------
    OSError
        The file does not exist or may not be examined.
    """
    folder = file.parent.stat()
    if _owned_by_another(file.parent, folder):
        return True
    foreign = _owned_by_another(file, file.lstat())
    return foreign is not None and _writable_by_others(file.parent, folder) is not None


def _owned_by_another(path: Path, status: os.stat_result) -> str | None:
    if status.st_uid in _trusted_users():
        return None
    return f"{path} belongs to {_user_name(status.st_uid)}, not to you"


def _trusted_users() -> set[int]:
    trusted = {0, os.geteuid()}
    if os.geteuid() == 0 and os.environ.get("SUDO_UID", "").isdecimal():
        trusted.add(int(os.environ["SUDO_UID"]))  # set by sudo: the user who typed the command
    return trusted


def _writable_by_others(path: Path, status: os.stat_result) -> str | None:
    if stat.S_ISLNK(status.st_mode):  # the mode of a link has no meaning
        return None
    if status.st_mode & stat.S_IWOTH:
        return f"{path} can be written by every user"
    if status.st_mode & stat.S_IWGRP and not _is_private(status.st_gid, status.st_uid):
        return f"{path} can be written by the group {_group_name(status.st_gid)}"
    return None


def _is_private(group: int, user: int) -> bool:
    """Whether a group is a user's private group, which Debian gives each user; mode 664 is usual there."""
    if group == 0:
        return True
    try:
        members, name = grp.getgrgid(group).gr_mem, pwd.getpwuid(user).pw_name
        primary_group = pwd.getpwuid(user).pw_gid
    except KeyError:  # no such name, as in a container: there are no other users either
        return group == os.getegid()
    return group == primary_group and set(members) <= {name}


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
