"""What a join of incomplete streams keeps beside its store: boxes, by the slots of the store."""

import numpy as np
import numpy.typing as npt

from sfumato.kernels.joins.incomplete.objects import Objects, copy_objects, move_objects
from sfumato.kernels.joins.regions import summary_columns
from sfumato.kernels.joins.tuple_store import Store
from sfumato.operators.arrays import Ints
from sfumato.operators.joins.join_store import StoreIndex


class ObjectIndex(StoreIndex):
    """`Objects` that follow the slots of a `Store`.

    names, dimensions : columns D of an object, and T of them joined
    """

    def __init__(self, names: int, dimensions: int) -> None:
        self.columns = summary_columns.py_func(dimensions)
        self.names, self.dimensions = names, dimensions
        self.objects = self._room(0)

    def renumbered(self, store: Store, before: Ints, after: Ints) -> None:
        objects = self._room(store.tuples.at.size)
        copy_objects(self.objects, before, objects, after)
        self.objects = objects

    def move(self, store: Store, moves: npt.NDArray[np.void]) -> None:
        move_objects(self.objects, store, moves)

    def _room(self, slots: int) -> Objects:
        d = self.dimensions
        return Objects(
            state=np.empty(slots, np.uint8),
            raw=np.empty((slots, self.names)),
            rule=np.empty((slots, d), np.int64),
            low=np.empty((d, slots)),
            high=np.empty((d, slots)),
            gap=np.empty(slots, np.int64),
        )
