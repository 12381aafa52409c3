"""A worker that keeps the state of one bucket, with a Python map in place of Spark's."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sfumato.operators.state.declared import Array
from sfumato.spark.crossing import chunks
from sfumato.spark.state import bucket_state
from sfumato.tables.operator import ROW, TIE, TableConfig, TableOperator
from sfumato.tables.reading.chain import ChainConfig, ChainStep, Feed


@dataclass(frozen=True, kw_only=True)
class KeptConfig(TableConfig):
    kind = "kept"

    def make(self):
        return Kept(self)


class Kept(TableOperator):
    """Keeps every number, and answers with how many it has."""

    state = {"numbers": Array(float, None)}

    def __init__(self, config):
        super().__init__(config)
        self.numbers = np.empty(0)

    def answers(self, rows, now):
        numbers = rows.column("order0").to_numpy()
        if (numbers < 0).any():
            raise ValueError("a negative number")
        self.numbers = np.append(self.numbers, numbers)
        return [pa.table({ROW: pa.array([len(self.numbers)])})]


class Entries:
    """The map state of one bucket."""

    def __init__(self):
        self.held = {}
        self.written = 0

    def containsKey(self, key):  # noqa: N802
        return key in self.held

    def getValue(self, key):  # noqa: N802
        return self.held.get(key)

    def updateValue(self, key, value):  # noqa: N802
        self.written += len(value[0])
        self.held[key] = value

    def removeKey(self, key):  # noqa: N802
        del self.held[key]


def alone(config):
    """Return a chain of one operator whose rows have fixed names."""
    return ChainConfig((ChainStep(config, (Feed(0),)),))


def worker(entries, fingerprint=None):
    """Return a processor in a fresh worker, with the state in `entries`."""
    config = KeptConfig()
    made = bucket_state.BucketProcessor(alone(config), fingerprint or config.fingerprint(), None)
    made.open(None, entries)
    return made


def feed(processor, numbers):
    """Feed these numbers, and return how many the operator then has."""
    n = len(numbers)
    rows = pa.table({ROW: np.zeros(n), "order0": np.asarray(numbers, float), TIE: np.arange(n)})
    chunk = {"side": 0, "chunk": chunks.to_bytes(rows)}
    answers = list(processor.handleInputRows((3,), iter([chunk]), None))
    return chunks.from_bytes(answers[0]["chunk"]).column(ROW)[0].as_py()


def owner_process(query, connection):
    """Run a separate worker: feed what arrives, and send back the state of the bucket."""
    entries = Entries()
    while True:
        numbers, entries.held = connection.recv()
        processor = worker(entries)
        processor.identity = query
        connection.send((feed(processor, numbers), entries.held))
