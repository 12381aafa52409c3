"""Calls between the Python workers of one machine and user: messages of bytes over Unix sockets.

A worker that serves has an id, which names its socket in a folder that only its user can open.
Where no such socket can be made, no worker has an id, and none is called.
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
Handler = Callable[[Message], Message]  # an empty reply: none

_IDS: dict[int, str] = {}  # of this process, by its number: a fork begins without
_STARTING = threading.Lock()


def serve(handler: Handler) -> str:
    """Return this worker's id, under which `handler` replies to calls; "" without sockets.

    Each call is handled in a separate thread. Only the first handler of a process counts.
    """
    with _STARTING:
        if os.getpid() not in _IDS:
            _IDS[os.getpid()] = _start(handler)
    return _IDS[os.getpid()]


def call(worker: str, message: Sequence[bytes]) -> Message:
    """Return the reply of another worker; empty if it has none, or has ended."""
    folder = _folder()
    if not worker.isalnum() or folder is None:
        return []
    try:
        with Client(str(folder / worker), "AF_UNIX") as connection:
            _send(connection, message)
            return _receive(connection)
    except (OSError, EOFError):
        return []


def _start(handler: Handler) -> str:
    folder = _folder()
    if folder is None:
        return ""
    _remove_sockets_of_ended_workers(folder)
    worker = uuid.uuid4().hex
    try:
        listener = Listener(str(folder / worker), "AF_UNIX", backlog=64)
    except (OSError, ValueError):  # no such sockets here, or the folder's path is too long for one
        return ""
    threading.Thread(target=_accept, args=(listener, handler), daemon=True).start()
    return worker


def _accept(listener: Listener, handler: Handler) -> None:
    while True:
        try:
            connection = listener.accept()
        except OSError:  # the caller has ended
            continue
        threading.Thread(target=_reply, args=(connection, handler), daemon=True).start()


def _reply(connection: Connection, handler: Handler) -> None:
    with connection:
        try:
            _send(connection, handler(_receive(connection)))
        except (OSError, EOFError):  # the caller has ended
            return


def _send(connection: Connection, message: Sequence[bytes]) -> None:
    connection.send_bytes(len(message).to_bytes(8, "little"))
    for part in message:
        connection.send_bytes(part)


def _receive(connection: Connection) -> Message:
    count = int.from_bytes(connection.recv_bytes(8), "little")
    return [connection.recv_bytes() for _ in range(count)]


def _folder() -> Path | None:
    """Return the folder of this user's sockets; None if others can open it."""
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


def _remove_sockets_of_ended_workers(folder: Path) -> None:
    for path in folder.iterdir():
        try:
            Client(str(path), "AF_UNIX").close()
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
        except (OSError, ValueError):
            continue
