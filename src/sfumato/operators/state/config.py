"""Configs as JSON, their fingerprints, and the differences between two fingerprints.

A config is a frozen dataclass that validates itself when it is created. Its values are numbers,
strings, bools, None, durations, other configs, and tuples of such values. Only fingerprints may
contain dicts.
"""

import json
import re
import types
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from datetime import timedelta
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from sfumato.duration import spelled
from sfumato.operators.state.snapshot import SnapshotError

# Metadata of a field that may change while a checkpoint continues: `field(metadata=CHANGEABLE)`.
CHANGEABLE = {"fingerprint": False}
# Fields in microseconds, which `differences` writes with a unit.
DURATIONS = (
    *("early", "every", "gap", "idle_timeout", "length", "max_ahead", "max_behind", "max_delay"),
    *("max_length", "remember", "slide", "within"),
)
# Fields of an operator that follow from columns and arguments, which `differences` names instead.
FOLLOWING = re.compile(
    r"^(step \d+\.)?(attributes|exact|key_names|keys|kinds|orders|scope|sources|unique)$"
)
WINDOW_KINDS = (
    "window aggregate",
    "extents",
    "early_extents",
    "versioned_extents",
    "shared_extents",
)
JOIN_KINDS = (
    "similarity join table", "lockstep join table", "outer join table", "incomplete join table",
)  # fmt: skip
FUNCTION_OF_KIND = {
    **dict.fromkeys(WINDOW_KINDS, "sf.window_aggregate"),
    **dict.fromkeys(JOIN_KINDS, "sf.similarity_join"),
    "reorder table": "sf.reorder",
    "top-k table": "sf.top_k",
    "stream imputation": "sf.impute",
    "earlier values": "sf.earlier_values",
    "resample": "sf.resample",
    "extent join table": "sf.extent_join",
    "as-of join table": "sf.asof_join",
    "self join table": "sf.self_join",
    "neighbours table": "sf.neighbours",
    "neighbours of two sides table": "sf.neighbours",
}


def as_json(config: Any) -> dict[str, Any]:
    """Return the fields of a config by name, as JSON values."""
    return {f.name: _plain(getattr(config, f.name)) for f in fields(config) if f.init}


def from_json(kind: type, values: Any) -> Any:
    """Build a config of class `kind` from `as_json` values. Raises SnapshotError or ValueError."""
    hints = get_type_hints(kind)
    known = [f for f in fields(kind) if f.init]
    if not isinstance(values, dict) or not values.keys() <= {f.name for f in known}:
        raise SnapshotError(f"expected settings for {kind.__name__}; got {values!r:.200}")
    needed = [f.name for f in known if f.default is MISSING and f.default_factory is MISSING]
    missing = [name for name in needed if name not in values]
    if missing:
        raise SnapshotError(f"settings for {kind.__name__} are missing: {', '.join(missing)}")
    return kind(**{name: _read(name, hints[name], value) for name, value in values.items()})


def fingerprint(kind: str, config: Any) -> str:
    """Return JSON of the fields that must stay the same while a checkpoint continues."""
    fixed = {f.name for f in fields(config) if f.metadata.get("fingerprint", True)}
    known = {name: value for name, value in as_json(config).items() if name in fixed}
    return json.dumps({"operator": kind, **known}, sort_keys=True)


def differences(before: str, now: str) -> str:
    """Describe in one sentence how the fingerprints of a checkpoint and a query differ."""
    then, new = (_flat(_in_words(json.loads(text))) for text in (before, now))
    kinds = [str(of.get("operator")).split(" then ") for of in (then, new)]
    if kinds[0] != kinds[1]:
        called = [[FUNCTION_OF_KIND.get(kind, kind) for kind in of] for of in kinds]
        earlier, later = map(" then ".join, kinds if called[0] == called[1] else called)
        return f"the checkpoint was written by {earlier}, but this query has {later} in its place"
    changed = [n for n in dict.fromkeys([*then, *new]) if then.get(n, ()) != new.get(n, ())]
    changed = [name for name in changed if not FOLLOWING.search(name)] or changed
    labels = [_label(name, changed, new) for name in changed]
    parts = [
        f"{label if labels.count(label) == 1 else f'`{name}`'} "
        f"was {_text_of(then, name)} and is {_text_of(new, name)}"
        for name, label in zip(changed, labels, strict=True)
    ]
    return "; ".join(parts) if parts else "no setting differs"


def _in_words(values: dict[str, Any]) -> dict[str, Any]:
    """Return a fingerprint with aggregates such as avg(x), of each step of a chain."""
    values = {n: _in_words(v) if n.startswith("step ") else v for n, v in values.items()}
    columns = dict(values.get("input", {}))
    read = columns.pop("values", None)
    if read is None or "results" not in values:
        return values
    calls = [
        f"{function}({'*' if number is None else ', '.join([*read[number : number + 1], *more])})"
        for _, function, number, argument in values.pop("results")
        for more in [[] if argument is None else [f"{argument:g}"]]
    ]
    return values | {"input": columns, "aggregates": calls}


def _label(name: str, changed: Sequence[str], values: Mapping[str, Any]) -> str:
    """Return a changed field's name, with its frame and function if the name is not unique."""
    *path, last = name.split(".")
    if sum(each.rpartition(".")[2] == last for each in changed) == 1:
        return f"`{last}`"
    kind = values["operator"]
    if path and path[0].startswith("step "):
        kind = values[f"{path[0]}.operator"]
    side = f"the {path[-1]} frame of " if path and path[-1] in ("left", "right") else ""
    return f"`{last}` of {side}{FUNCTION_OF_KIND.get(kind, kind)}"


def _text_of(values: Mapping[str, Any], name: str) -> str:
    value = values.get(name)
    if name.rpartition(".")[2] in DURATIONS and type(value) is int and value > 0:
        return spelled(value)
    if name in values and (value is None or isinstance(value, bool)):
        return str(value)
    if isinstance(value, list) and all(isinstance(each, str) for each in value):  # columns
        return value[0] if len(value) == 1 else f"[{', '.join(value)}]" if value else "None"
    return json.dumps(value) if name in values else "missing"


def _flat(values: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(values, dict) or not values:
        return {prefix: values}
    out: dict[str, Any] = {}
    for name, value in values.items():
        out |= _flat(value, f"{prefix}.{name}" if prefix else name)
    return out


def _saved_name(kind: type) -> str:
    """Return the name of a dataclass in snapshots: `saved_as` if its name has changed."""
    return str(getattr(kind, "saved_as", kind.__name__))


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {_saved_name(type(value)): as_json(value)}
    if isinstance(value, bytes):
        return {"checksum": zlib.crc32(value), "bytes": len(value)}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, timedelta):
        return f"{value // timedelta(microseconds=1)} microseconds"
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, Sequence | np.ndarray) and not isinstance(value, str):
        return [_plain(part) for part in value]
    return value


def _read(name: str, hint: Any, value: Any) -> Any:
    """Convert `value` to the type `hint`. Raises SnapshotError if it does not fit."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        for one in inner:
            try:
                return _read(name, one, value)
            except SnapshotError:
                continue
    elif origin is tuple and isinstance(value, list):
        kinds = inner[:1] * len(value) if inner[-1:] == (Ellipsis,) else inner
        if len(kinds) == len(value):
            return tuple(_read(name, k, part) for k, part in zip(kinds, value, strict=True))
    elif isinstance(hint, type) and is_dataclass(hint):
        saved_name = _saved_name(hint)
        if isinstance(value, dict) and list(value) == [saved_name]:
            return from_json(hint, value[saved_name])
    elif hint is Any or (hint is types.NoneType and value is None):
        return value
    elif hint is float and type(value) in (int, float):
        return float(value)
    elif hint is int and type(value) is int and not -(2**63) <= value < 2**64:
        pass  # too large for an array or a kernel
    elif isinstance(hint, type) and type(value) is hint:
        return value
    raise SnapshotError(f"the setting `{name}` cannot be {value!r:.80}")
