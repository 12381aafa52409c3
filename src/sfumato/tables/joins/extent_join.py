"""Two windowed streams joined extent by extent, over Arrow tables."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from sfumato.operators.ragged import chosen
from sfumato.tables.arrow import as_numbers, joined
from sfumato.tables.keys import KeyIndex
from sfumato.tables.snapshot import Snapshot, pack, unpack

KIND, VERSION = "extent join bucket", 1
SIDES = ("left", "right")
NEVER = np.iinfo(np.int64).min


@dataclass(frozen=True)
class ExtentJoinSettings:
    """What an extent join is told: plain values, so that they can go to workers and checkpoints.

    keys : how many columns key0.. there are; scope : numbers of the keys within which extents come
    in order; columns, buckets : only to recognise a checkpoint of another query
    """

    keys: int
    scope: tuple[int, ...]
    columns: tuple[str, str]
    buckets: int

    counters: ClassVar[tuple[str, ...]] = ("rows", "pairs", "unmatched")

    def make(self) -> TableExtentJoin:
        return TableExtentJoin(self)

    def restore(self, data: bytes) -> TableExtentJoin:
        saved = unpack(data, KIND, VERSION)
        bucket = TableExtentJoin(self)
        bucket.index = KeyIndex(saved.tables.get("keys"))
        bucket.scopes = KeyIndex(saved.tables.get("scopes"))
        for side, name in enumerate(SIDES):
            bucket.newest[side] = saved.arrays[f"{name}_newest"]
            if name in saved.tables:
                end, code, scope, matched = (
                    saved.arrays[f"{name}_{part}"] for part in ("end", "code", "scope", "matched")
                )
                bucket.waiting[side] = Waiting(
                    saved.tables[name], end, code, scope, matched.astype(bool)
                )
        bucket.counts = saved.values["counts"]
        return bucket

    def fingerprint(self) -> str:
        return json.dumps({"operator": "extent join", **asdict(self)}, sort_keys=True)


@dataclass
class Waiting:
    """Rows of one side whose extents the other side may still have rows of.

    end : int64[n] microseconds; code, scope : int64[n]; matched : bool[n], has come out
    """

    rows: pa.Table
    end: np.ndarray
    code: np.ndarray
    scope: np.ndarray
    matched: np.ndarray

    def kept(self, wanted: np.ndarray) -> Waiting:
        parts = (self.end, self.code, self.scope, self.matched)
        return Waiting(self.rows.filter(pa.array(wanted)), *(part[wanted] for part in parts))


class TableExtentJoin:
    """Pairs of rows with equal keys and equal ends of their extents, for the keys of a bucket.

    Tables of a side have the columns row (a struct), window (start, end), key0... Extents of a
    scope come in order on each side, so that a row waits until the other side has gone past its
    extent. Neither side overtakes: the rows of the one that is ahead wait.
    """

    def __init__(self, settings: ExtentJoinSettings) -> None:
        self.settings = settings
        self.index = KeyIndex()
        self.scopes = KeyIndex()
        self.waiting: list[Waiting | None] = [None, None]
        self.newest = [np.empty(0, np.int64), np.empty(0, np.int64)]  # end, by scope
        self.counts = dict.fromkeys(settings.counters, 0)

    def process(self, batch: Sequence[tuple[int, pa.Table]], now: int) -> list[pa.Table]:
        outputs = []
        for side in (0, 1):
            tables = [table for of, table in batch if of == side]
            if tables:
                fresh = self._read(joined(tables), side)
                outputs += self._pairs(fresh, side)
                self._add(fresh, side)
        for side in (0, 1):
            self._forget(side)
        return outputs

    def _read(self, rows: pa.Table, side: int) -> Waiting:
        keys = rows.select([f"key{i}" for i in range(self.settings.keys)])
        end = as_numbers(pa.chunked_array([_field(rows, "end")]))
        scope = self.scopes.encode(rows.select([f"key{i}" for i in self.settings.scope]))
        fresh = Waiting(
            rows.select(["row", "window"]),
            end,
            self.index.encode(keys),
            scope,
            np.zeros(len(end), bool),
        )
        grown = int(scope.max(initial=-1)) + 1
        for of in (0, 1):
            missing = max(0, grown - len(self.newest[of]))
            self.newest[of] = np.concatenate([self.newest[of], np.full(missing, NEVER)])
        np.maximum.at(self.newest[side], scope, end)
        self.counts["rows"] += len(end)
        return fresh

    def _pairs(self, fresh: Waiting, side: int) -> list[pa.Table]:
        """The fresh rows of one side with the waiting rows of the other."""
        other = self.waiting[1 - side]
        if other is None or not len(other.end) or not len(fresh.end):
            return []
        both = np.stack([np.append(other.end, fresh.end), np.append(other.code, fresh.code)])
        extent = np.unique(both, axis=1, return_inverse=True)[1].reshape(-1)
        theirs, mine = extent[: len(other.end)], extent[len(other.end) :]
        order = np.argsort(theirs, kind="stable")
        groups = np.arange(extent.max() + 2)
        offsets, places = chosen(np.searchsorted(theirs[order], groups), mine)
        if not len(places):
            return []
        theirs_at, mine_at = order[places], np.repeat(np.arange(len(mine)), np.diff(offsets))
        other.matched[theirs_at] = True
        fresh.matched[mine_at] = True
        self.counts["pairs"] += len(places)
        rows = {
            SIDES[side]: fresh.rows.column("row").take(pa.array(mine_at)),
            SIDES[1 - side]: other.rows.column("row").take(pa.array(theirs_at)),
        }
        window = fresh.rows.column("window").take(pa.array(mine_at))
        if side == 1:
            window = other.rows.column("window").take(pa.array(theirs_at))
        return [pa.table({"window": window, "left": rows["left"], "right": rows["right"]})]

    def _add(self, fresh: Waiting, side: int) -> None:
        held = self.waiting[side]
        if held is None:
            self.waiting[side] = fresh
            return
        self.waiting[side] = Waiting(
            pa.concat_tables([held.rows, fresh.rows]).combine_chunks(),
            np.append(held.end, fresh.end),
            np.append(held.code, fresh.code),
            np.append(held.scope, fresh.scope),
            np.append(held.matched, fresh.matched),
        )

    def _forget(self, side: int) -> None:
        """Drop the rows of extents that the other side has gone past."""
        held = self.waiting[side]
        if held is None:
            return
        needed = held.end >= self.newest[1 - side][held.scope]
        if not needed.all():
            self.counts["unmatched"] += int((~needed & ~held.matched).sum())
            self.waiting[side] = held.kept(needed)

    def idle(self, now: int) -> list[pa.Table]:
        return []

    def flush(self) -> list[pa.Table]:
        return []

    def counters(self) -> dict[str, int]:
        return dict(self.counts)

    def snapshot(self) -> bytes:
        arrays: dict[str, np.ndarray] = {}
        tables: dict[str, pa.Table] = {}
        for side, name in enumerate(SIDES):
            arrays[f"{name}_newest"] = self.newest[side]
            held = self.waiting[side]
            if held is not None and len(held.end):
                tables[name] = held.rows
                arrays |= {
                    f"{name}_end": held.end,
                    f"{name}_code": held.code,
                    f"{name}_scope": held.scope,
                    f"{name}_matched": held.matched.astype(np.uint8),
                }
        for name, index in (("keys", self.index), ("scopes", self.scopes)):
            if index.table is not None:
                tables[name] = index.table
        return pack(KIND, VERSION, Snapshot({"counts": self.counts}, arrays, tables))


def _field(rows: pa.Table, name: str) -> pa.Array:
    window = rows.column("window").combine_chunks()
    if isinstance(window, pa.ChunkedArray):
        window = window.chunk(0)
    return window.field(name)
