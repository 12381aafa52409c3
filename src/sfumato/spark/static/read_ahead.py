"""Batches read ahead by a thread: Spark makes the next ones while an operator is at work.

One thread of a task's JVM makes Arrow batches and reads the answers. It waits while Python computes
and does not read, and Python waits while it makes the next batch, unless somebody reads meanwhile.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import TypeVar

T = TypeVar("T")
WAIT = 0.1  # seconds, after which a reader looks whether anybody still wants what it has


def read_ahead(items: Iterator[T], most: int) -> Iterator[T]:
    """The items, of which up to `most` have been read before they are asked for; what reading one
    raises is raised in its place.

    Nobody else may take of `items`; the thread that does is over when the last one has been given.
    One that is not asked for everything ends with the next item that it reads.
    """
    waiting: queue.Queue[tuple[T | None, BaseException | None, bool]] = queue.Queue(most)
    unwanted = threading.Event()

    def give(item: T | None, error: BaseException | None, last: bool) -> None:
        while not unwanted.is_set():
            try:
                waiting.put((item, error, last), timeout=WAIT)
                return
            except queue.Full:
                continue

    def read() -> None:
        try:
            for item in items:
                give(item, None, False)
                if unwanted.is_set():
                    return
            give(None, None, True)
        except BaseException as error:  # raised again where the item was wanted
            give(None, error, True)

    thread = threading.Thread(target=read, name="sfumato-read-ahead", daemon=True)
    thread.start()
    try:
        while True:
            item, error, last = waiting.get()
            if error is not None:
                raise error
            if last:
                break
            yield item  # type: ignore[misc]
    finally:
        unwanted.set()
    thread.join()
