"""An operator stays with its worker; other workers send their rows to it."""

import os
import threading
from multiprocessing import get_context

import numpy as np
import pytest

from bucket_worker import Entries, feed, owner_process, worker
from sfumato.spark.state import bucket_state, operator_owners


@pytest.fixture
def other():
    """Yield another worker: a function (numbers, state) -> (answer, state), with its process."""
    context = get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=owner_process, args=("query", there), daemon=True)
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
        monkeypatch.setattr(processor, "_rebuild", lambda *_: pytest.fail("it was rebuilt"))
    return processor


def test_rows_go_to_the_worker_that_has_the_operator(other, monkeypatch):
    entries = Entries()
    total, entries.held = other(np.arange(1000), {})
    for n in (1, 30, 2000, 5):  # logs and snapshots
        total += n
        assert feed(here(entries, monkeypatch), np.arange(n)) == total
    assert other([1.0], entries.held)[0] == total + 1  # the owner never stopped


def test_where_the_owner_has_ended_the_operator_is_rebuilt_and_owned_here(other, monkeypatch):
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
    entries.held = before  # Spark repeats the task, over the previous state
    assert feed(here(entries), [1.0, 2.0]) == 1002
    assert other([1.0], entries.held)[0] == 1003


def test_an_owner_that_works_for_the_query_drops_its_operator():
    entries = Entries()
    assert feed(here(entries), [1.0]) == 1
    name = operator_owners.worker_id()
    header, _ = here(entries)._header(3)
    request = operator_owners.BatchRequest("query", 3, header.nonce, "next", 0, False, 0)
    batch = [(0, b"not looked at")]
    with operator_owners._query_lock("query"):
        assert operator_owners.run_remote(name, request, batch) is None
    assert operator_owners.run_local(request, batch) is None


def test_an_operator_counts_as_a_multiple_of_its_state(monkeypatch):
    cache = operator_owners.OperatorCache()
    monkeypatch.setattr(operator_owners, "CACHE", cache)
    entries = Entries()
    feed(here(entries), np.arange(20_000))
    state = sum(len(value[0]) for value in entries.held.values())
    factor = operator_owners.MEMORY_PER_STATE_BYTE
    assert 0.9 * factor * state < cache.bytes <= factor * state


def test_an_operator_that_fails_elsewhere_fails_in_the_task(other):
    entries = Entries()
    _, entries.held = other(np.arange(1000), {})
    with pytest.raises(ValueError, match="a negative number"):
        feed(here(entries), [-1.0])


def test_workers_call_each_other_any_bytes_at_the_same_time():
    name, found = operator_owners.worker_id(), {}

    def asked(i):
        request = operator_owners.BatchRequest("none", i, "", "", 0, False, 0)
        found[i] = operator_owners.run_remote(name, request, [(0, b"x" * (i << 20))])

    threads = [threading.Thread(target=asked, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == dict.fromkeys(range(8))


def test_no_worker_is_called_by_an_id_that_is_not_one():
    request = operator_owners.BatchRequest("none", 0, "", "", 0, False, 0)
    for name in ("", "0" * 32, "../../etc/passwd", "a b"):
        assert operator_owners.run_remote(name, request, []) is None


def test_a_folder_that_others_can_open_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setattr(operator_owners.tempfile, "gettempdir", lambda: str(tmp_path))
    assert operator_owners._folder() is not None
    folder = tmp_path / f"sfumato-{os.getuid()}"
    folder.chmod(0o755)
    assert operator_owners._folder() is None
    folder.rmdir()
    folder.symlink_to(tmp_path)
    assert operator_owners._folder() is None


def test_without_a_temporary_folder_there_are_no_sockets(monkeypatch):
    def none_usable():
        raise FileNotFoundError("no usable temporary directory")

    monkeypatch.setattr(operator_owners.tempfile, "gettempdir", none_usable)
    assert operator_owners._folder() is None
    assert operator_owners._serve() == ""


def test_without_sockets_every_worker_works_alone(monkeypatch):
    monkeypatch.setattr(bucket_state, "worker_id", lambda: "")
    entries = Entries()
    assert feed(here(entries), [1.0]) == 1
    assert feed(here(entries, monkeypatch), [1.0]) == 2
    assert bucket_state.Header("x").owner == ""
