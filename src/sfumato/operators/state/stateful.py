"""State as declared attributes, with saving and loading derived from the declarations."""

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, ClassVar, Self, TypeVar, get_type_hints

import numpy as np

from sfumato.operators.state.config import as_json, from_json
from sfumato.operators.state.declared import Declaration, Sizes
from sfumato.operators.state.snapshot import SavedState, SnapshotError, pack, unpack


class Stateful:
    """Base class of objects whose state consists of the attributes declared in `state`.

    Subclasses extend the declarations of their bases. An attribute may be a property with a setter,
    if its saved form is more compact than its working form.
    """

    state: ClassVar[Mapping[str, Declaration]] = {}
    config: Any = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        inherited: dict[str, Declaration] = {}
        for base in reversed(cls.__mro__):
            inherited |= base.__dict__.get("state", {})
        cls.state = inherited

    def before_saving(self) -> None:
        """Bring the declared attributes into their saved form."""

    def after_loading(self) -> None:
        """Check the state beyond its declarations (ValueError), and rebuild derived attributes."""

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays in the attributes."""
        return _bytes_of(self, set())

    def lengths(self) -> Sizes:
        """Return the integers of the config, the lengths that are known before loading."""
        if not is_dataclass(self.config):
            return {}
        of = {f.name: getattr(self.config, f.name) for f in fields(self.config)}
        return {name: v for name, v in of.items() if isinstance(v, int) and not isinstance(v, bool)}

    def save_state(self, saved: SavedState, prefix: str = "") -> None:
        self.before_saving()
        for name, declaration in self.state.items():
            declaration.save(getattr(self, name), prefix + name, saved)

    def load_state(self, saved: SavedState, prefix: str = "") -> None:
        """Set the declared attributes from `saved`. Raises SnapshotError or ValueError."""
        sizes = self.lengths()
        for name, declaration in self.state.items():
            present = getattr(self, name, None)
            setattr(self, name, declaration.load(saved, prefix + name, sizes, self, present))
        self.after_loading()


State = TypeVar("State", bound=Stateful)


def saved_bytes(kind: str, version: int, stateful: Stateful, values: Mapping[str, Any]) -> bytes:
    """Serialise declared state together with additional values."""
    saved = SavedState()
    stateful.save_state(saved)
    return pack(kind, version, SavedState({**values, "state": saved.values}, saved.arrays))


def load_bytes(data: bytes, kind: str, version: int) -> tuple[dict[str, Any], SavedState]:
    """Return the additional values and the state. Raises SnapshotError."""
    saved = unpack(data, kind, version)
    state = saved.values.pop("state", None)
    if not isinstance(state, dict):
        raise SnapshotError(f"the snapshot of `{kind}` has no state")
    return saved.values, SavedState(state, saved.arrays)


def restore_state(kind: str, make: Callable[[], State], saved: SavedState) -> State:
    """Return `make()` with the saved state. Raises SnapshotError if `make()` or loading fails;
    ImportError and OSError are raised unchanged."""
    try:
        stateful = make()
        stateful.load_state(saved)
    except (SnapshotError, ImportError, OSError):  # the last two show a faulty installation
        raise
    except Exception as error:  # any error of a constructor, a check or a kernel
        raise SnapshotError(f"the snapshot of `{kind}` is damaged: {error}") from error
    saved.check_empty()
    return stateful


class Operator(Stateful):
    """Base class of operators without an engine, with a frozen config and declared state.

    A subclass sets `kind` and `version`, annotates `config` with the class of its config, and
    declares `state`. Constructor, snapshot and restore use these attributes.

    given, named : the fields of the config; fields of `flattened_records` by their own names
    """

    kind: ClassVar[str]
    version: ClassVar[int] = 1
    # Records of the config whose fields are arguments of the constructor.
    flattened_records: ClassVar[tuple[str, ...]] = ()

    def __init__(self, *given: Any, **named: Any) -> None:
        owner: Any = type(self)
        kind = _class_of(owner, "config")
        for name in self.flattened_records:
            record = _class_of(kind, name)
            own = {f.name: named.pop(f.name) for f in fields(record) if f.name in named}
            named[name] = record(**own)
        self.config = kind(*given, **named)

    @classmethod
    def from_config(cls, config: Any, **resources: Any) -> Self:
        """Create an operator from a config and `resources`, which are not in snapshots.

        Override this method if the constructor does not take the config's fields by name.
        """
        given = {**vars(config), **resources}
        for name in cls.flattened_records:
            given |= vars(given.pop(name))
        return cls(**given)

    def snapshot(self) -> bytes:
        return saved_bytes(self.kind, self.version, self, {"config": as_json(self.config)})

    @classmethod
    def restore(cls, data: bytes, **resources: Any) -> Self:
        """Restore an operator that continues exactly like the saved one.

        Raises SnapshotError for bytes that are damaged, or of a different kind or version.
        """
        values, saved = load_bytes(data, cls.kind, cls.version)
        owner: Any = cls
        kind = _class_of(owner, "config")
        return restore_state(
            cls.kind,
            lambda: cls.from_config(from_json(kind, values["config"]), **resources),
            saved,
        )


@cache
def _class_of(owner: type, name: str) -> Any:
    """Return the class with which an attribute is annotated."""
    return get_type_hints(owner)[name]


def _bytes_of(held: Any, seen: set[int]) -> int:
    if id(held) in seen:
        return 0
    seen.add(id(held))
    if isinstance(held, np.ndarray):
        return held.nbytes
    ours = type(held).__module__.startswith(__name__.split(".")[0]) and hasattr(held, "__dict__")
    if ours or isinstance(held, Stateful):
        held = vars(held)
    if isinstance(held, dict):
        held = tuple(held.values())
    return sum(_bytes_of(part, seen) for part in held) if isinstance(held, list | tuple) else 0
