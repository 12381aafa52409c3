"""An operator stays with its worker; other workers send it their rows."""

from __future__ import annotations

import os
import threading
from multiprocessing import get_context

import numpy as np
import pytest

from bucket_worker import Entries, feed, home_of, worker
from sfumato.spark.state import bucket_state, operator_homes, siblings


@pytest.fixture
def other():
    """Another worker: a function from numbers and state to answer and state, with its process."""
    context = get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=home_of, args=("query", there), daemon=True)
    process.start()

    def fed(numbers, held):
        here.send((numbers, held))
        return here.recv()

    fed.process = process
    yield fed
    process.kill()
    process.join()


def here(entries, monkeypatch=None):
    processor = worker(entries)
    processor.identity = "query"
    if monkeypatch is not None:
        monkeypatch.setattr(processor, "_rebuilt", lambda *_: pytest.fail("it was rebuilt"))
    return processor


def test_rows_go_to_the_worker_that_has_the_operator(other, monkeypatch):
    entries = Entries()
    total, entries.held = other(np.arange(1000), {})
    for n in (1, 30, 2000, 5):  # logs and snapshots
        total += n
        assert feed(here(entries, monkeypatch), np.arange(n)) == total
    assert other([1.0], entries.held)[0] == total + 1  # where it went on all the time


def test_where_the_home_is_gone_the_operator_is_rebuilt_and_lives_here(other, monkeypatch):
    entries = Entries()
    _, entries.held = other(np.arange(1000), {})
    other.process.kill()
    other.process.join()
    assert feed(here(entries), [1.0]) == 1001
    assert feed(here(entries, monkeypatch), [1.0]) == 1002


def test_an_operator_that_went_on_for_a_task_that_failed_is_not_used_again(other):
    entries = Entries()
    _, entries.held = other(np.arange(1000), {})
    before = dict(entries.held)
    assert feed(here(entries), [1.0]) == 1001
    entries.held = before  # Spark gives the task again, over the state as it was
    assert feed(here(entries), [1.0, 2.0]) == 1002
    assert other([1.0], entries.held)[0] == 1003


def test_a_home_that_works_for_the_query_gives_its_operator_up(monkeypatch):
    entries = Entries()
    assert feed(here(entries), [1.0]) == 1
    name = operator_homes.home()
    header, _ = here(entries)._header(3)
    turn = operator_homes.Turn("query", 3, header.nonce, "next", 0, False, 0)
    batch = [(0, b"not looked at")]
    with operator_homes._AT_WORK["query"]:
        assert operator_homes.taken_at(name, turn, batch) is None
    assert operator_homes.taken(turn, batch) is None


def test_measuring_an_operator_takes_a_small_part_of_its_work(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(operator_homes.time, "perf_counter", lambda: clock[0])

    def works(operator, *_):
        clock[0] += 1.0
        return None

    class Large:
        measured = 0

        @property
        def nbytes(self):
            clock[0] += 2.0
            self.measured += 1
            return 100 * self.measured

    monkeypatch.setattr(operator_homes, "advanced", works)
    resident = operator_homes.Resident(Large())
    turn = operator_homes.Turn("query", 3, "", "next", 0, False, 0)
    sizes = []
    for _ in range(205):
        resident.takes(turn, [])
        sizes.append(resident.size)
    assert sizes == [100] * 101 + [200] * 101 + [300] * 3


def test_an_operator_that_fails_elsewhere_fails_in_the_task(other):
    entries = Entries()
    _, entries.held = other(np.arange(1000), {})
    with pytest.raises(ValueError, match="a negative number"):
        feed(here(entries), [-1.0])


def test_workers_ask_each_other_any_bytes_at_the_same_time():
    name = siblings.listen(lambda message: pytest.fail("only the first call counts"))
    assert name == operator_homes.home()
    found = {}
    heads = [b'[["none", %d, "", "", 0, false, 0], []]' % i for i in range(8)]

    def asked(i):
        found[i] = siblings.ask(name, [heads[i], b"x" * (i << 20)])

    threads = [threading.Thread(target=asked, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {i: [] for i in range(8)}


def test_nobody_is_asked_by_a_name_that_is_none():
    for name in ("", "0" * 32, "../../etc/passwd", "a b"):
        assert siblings.ask(name, [b""]) == []


def test_a_folder_that_others_can_open_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setattr(siblings.tempfile, "gettempdir", lambda: str(tmp_path))
    assert siblings._folder() is not None
    folder = tmp_path / f"sfumato-{os.getuid()}"
    folder.chmod(0o755)
    assert siblings._folder() is None
    folder.rmdir()
    folder.symlink_to(tmp_path)
    assert siblings._folder() is None


def test_without_a_temporary_folder_there_are_no_sockets(monkeypatch):
    def none_usable():
        raise FileNotFoundError("no usable temporary directory")

    monkeypatch.setattr(siblings.tempfile, "gettempdir", none_usable)
    assert siblings._folder() is None
    assert siblings.ask("0" * 32, [b""]) == []


def test_without_sockets_every_worker_works_alone(monkeypatch):
    monkeypatch.setattr(operator_homes.siblings, "listen", lambda _: "")
    entries = Entries()
    assert feed(here(entries), [1.0]) == 1
    assert feed(here(entries, monkeypatch), [1.0]) == 2
    assert bucket_state.Header("x").home == ""
