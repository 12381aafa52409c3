"""A bucket's operator over its state in Spark, with a Python dict in its place."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucket_worker import Entries, KeptConfig, alone, feed, worker
from seeds import examples
from sfumato.operators.disorder.control import DisorderControl
from sfumato.operators.state.snapshot import SavedState, cut, pack
from sfumato.spark.crossing import chunks
from sfumato.spark.state import bucket_state, operator_owners
from sfumato.spark.state.operator_owners import OperatorCache
from sfumato.tables.disorder.table_reorder import ReorderTableConfig
from sfumato.tables.operator import ROW, TIE


@examples(25)
@given(st.lists(st.tuples(st.integers(1, 40_000), st.booleans()), min_size=1, max_size=8))
def test_an_operator_goes_on_in_any_worker_and_no_entry_is_large(batches):
    entries, total, processor = Entries(), 0, None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bucket_state, "MAX_PIECE_BYTES", 65_536)
        patch.setattr(bucket_state, "MAX_LOG_ENTRY_BYTES", 65_536)
        for n, elsewhere in batches:
            if processor is None or elsewhere:
                processor = worker(entries)
            total += n
            assert feed(processor, np.arange(n)) == total
            limit = 65_536 + bucket_state.MAX_HEADER_SNAPSHOT_BYTES + 4096
            assert max(len(value[0]) for value in entries.held.values()) <= limit


def test_a_small_snapshot_stays_with_the_header_while_the_log_grows():
    entries = Entries()
    assert feed(worker(entries), np.arange(2000)) == 2000
    for n in range(1, 4):
        assert feed(worker(entries), [1.0]) == 2000 + n
    assert len(entries.held) == 4  # a header with a snapshot, and three log entries


def test_of_a_snapshot_only_pieces_that_are_new_are_written(monkeypatch):
    monkeypatch.setattr(bucket_state, "MAX_PIECE_BYTES", 65_536)
    monkeypatch.setattr(bucket_state, "MAX_LOG_ENTRY_BYTES", 0)  # always a snapshot
    entries = Entries()
    processor = worker(entries)
    feed(processor, np.random.default_rng(0).random(200_000).cumsum())
    before = entries.written
    assert before > 1_600_000
    feed(processor, [1e9])
    assert entries.written - before < 2 * 65_536
    stored = sum(len(value[0]) for value in entries.held.values())
    assert stored < 1_700_000
    assert feed(worker(entries), [2e9]) == 200_002


def test_a_checkpoint_of_another_query_is_refused_with_what_differs():
    entries = Entries()
    feed(worker(entries), [1.0])
    other = KeptConfig(keys=2).fingerprint()
    with pytest.raises(ValueError, match=r"`keys` was 0 and is 2. Use a new checkpoint folder"):
        feed(worker(entries, other), [2.0])


def test_a_checkpoint_of_another_layout_is_refused_with_a_sentence():
    entries = Entries()
    feed(worker(entries, '{"partitioning": 4}'), [1.0])
    (text,) = entries.held[(0,)]
    entries.held[(0,)] = (text.replace(b'"owner"', b'"home"'),)
    with pytest.raises(ValueError, match=r"`partitioning` was 4 and is 5. Use a new checkpoint"):
        feed(worker(entries, '{"partitioning": 5}'), [2.0])


@given(st.lists(st.integers(0, 300), max_size=8), st.integers(16, 64))
def test_pieces_make_up_the_snapshot_and_have_the_size_at_most(lengths, size):
    arrays = {f"a{i}": np.arange(n, dtype=float) for i, n in enumerate(lengths)}
    data = pack("x", 1, SavedState({}, arrays))
    pieces = cut(data, size)
    assert b"".join(pieces) == data
    assert max(map(len, pieces)) <= size


def test_the_cache_holds_any_number_within_its_bytes_and_forgets_ended_queries():
    now = [0.0]
    cache = OperatorCache(max_bytes=1000, unused=60.0, clock=lambda: now[0])
    for bucket in range(300):
        cache.put("old", bucket, "n", object(), 2)
    assert len(cache) == 300
    assert not cache.put("old", 0, "n", object(), 2)
    now[0] = 61.0
    assert cache.put("new", 0, "n", "operator", 10)  # other entries were removed
    assert (len(cache), cache.bytes) == (1, 10)
    cache.put("new", 1, "n", "large", 995)
    assert cache.take("new", 0, "n") is None
    assert cache.take("new", 1, "other nonce") is None
    assert (len(cache), cache.bytes) == (0, 0)
    cache.put("new", 1, "n", "larger than all", 5000)
    assert len(cache) == 0


def test_rows_of_any_size_are_cut_into_chunks_of_a_bounded_size(monkeypatch):
    monkeypatch.setattr(chunks, "MAX_BYTES", 10_000)
    sizes = [1, 1, 50_000, 1, 3000, 3000, 3000, 3000] + [10] * 3000
    table = pa.table({"n": range(len(sizes)), "text": ["x" * n for n in sizes]})
    found = [chunks.from_bytes(part) for part in chunks.parts(table)]
    assert pa.concat_tables(found).equals(table)
    assert all(part.num_rows == 1 or part.nbytes <= 10_000 for part in found)
    assert len(found) < 40


def test_operators_may_take_a_quarter_of_the_memory_and_a_gigabyte_at_least(tmp_path, monkeypatch):
    gigabyte = 1 << 30
    assert operator_owners.memory_share(32 * gigabyte, 2) == 4 * gigabyte
    assert operator_owners.memory_share(8 * gigabyte, 8) == gigabyte
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(operator_owners, "MEMORY_LIMIT", limit)
    physical = operator_owners.available_memory()
    for text, memory in [("max\n", physical), ("123456\n", 123456), (f"{1 << 62}\n", physical)]:
        limit.write_text(text)
        assert operator_owners.available_memory() == memory


def test_in_each_run_what_a_bucket_holds_is_counted_from_its_start(monkeypatch):
    config = alone(ReorderTableConfig(control=DisorderControl(slack=10), keys=1))
    entries, runs, held, name = Entries(), iter("aabbc"), [], "step0_held"
    processor = None
    for number in range(5):
        run = next(runs)
        monkeypatch.setattr(bucket_state, "_run", lambda run=run: run)
        if processor is None or number % 2:  # in the same worker or in a new one
            processor = bucket_state.BucketProcessor(config, "fingerprint", None)
            processor.open(None, entries)
        at = np.arange(4 * number, 4 * number + 4)
        columns = {"key0": ["k"] * 4, "event": at, "order0": at, TIE: at}
        row = pa.StructArray.from_arrays([pa.array(at)], ["id"])
        chunk = {"side": 0, "chunk": chunks.to_bytes(pa.table({ROW: row, **columns}))}
        answers = list(processor.handleInputRows((3,), iter([chunk]), None))
        place = processor.metrics.names["long"].index(name)
        held.append(answers[0].asDict()["numbers"][place])
    assert held == [4, 4, 10, 0, 10]
