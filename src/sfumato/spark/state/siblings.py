"""Python workers of one machine and user that ask each other, by messages of bytes.

A worker that listens has a name, from which every other one of the same user knows its socket, in a
folder that only that user can open. Where no such socket can be made, nobody has a name, and
nobody is asked.
"""

from __future__ import annotations

import os
import stat
import tempfile
import threading
import uuid
from collections.abc import Callable, Sequence
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path

Message = list[bytes]
Answer = Callable[[Message], Message]  # an empty answer: none

_NAMES: dict[int, str] = {}  # of this process, by its number: a fork begins without
_STARTING = threading.Lock()


def listen(answer: Answer) -> str:
    """This worker's name, under which `answer` is asked from now on; "" where that cannot be.

    Each who asks is answered in a thread of its own. Only the first call of a process counts.
    """
    with _STARTING:
        if os.getpid() not in _NAMES:
            _NAMES[os.getpid()] = _started(answer)
    return _NAMES[os.getpid()]


def ask(name: str, message: Sequence[bytes]) -> Message:
    """The answer of another worker; empty if it has none, or is not there any more."""
    folder = _folder()
    if not name.isalnum() or folder is None:
        return []
    try:
        with Client(str(folder / name), "AF_UNIX") as connection:
            _send(connection, message)
            return _received(connection)
    except (OSError, EOFError):
        return []


def _started(answer: Answer) -> str:
    folder = _folder()
    if folder is None:
        return ""
    _remove_deserted(folder)
    name = uuid.uuid4().hex
    try:
        listener = Listener(str(folder / name), "AF_UNIX", backlog=64)
    except (OSError, ValueError):  # no such sockets here, or the folder's path is too long for one
        return ""
    threading.Thread(target=_serve, args=(listener, answer), daemon=True).start()
    return name


def _serve(listener: Listener, answer: Answer) -> None:
    while True:
        try:
            connection = listener.accept()
        except OSError:  # who asked is gone already
            continue
        threading.Thread(target=_reply, args=(connection, answer), daemon=True).start()


def _reply(connection: Connection, answer: Answer) -> None:
    with connection:
        try:
            _send(connection, answer(_received(connection)))
        except (OSError, EOFError):  # who asked is gone
            return


def _send(connection: Connection, message: Sequence[bytes]) -> None:
    connection.send_bytes(len(message).to_bytes(8, "little"))
    for part in message:
        connection.send_bytes(part)


def _received(connection: Connection) -> Message:
    count = int.from_bytes(connection.recv_bytes(8), "little")
    return [connection.recv_bytes() for _ in range(count)]


def _folder() -> Path | None:
    """The folder of this user's sockets, made if need be; None if it is not this user's alone."""
    if not hasattr(os, "getuid"):
        return None
    try:
        folder = Path(tempfile.gettempdir()) / f"sfumato-{os.getuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return None
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    return folder if ours and not found.st_mode & 0o077 else None


def _remove_deserted(folder: Path) -> None:
    """Remove the sockets of workers that were killed."""
    for path in folder.iterdir():
        try:
            Client(str(path), "AF_UNIX").close()
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
        except (OSError, ValueError):
            continue
