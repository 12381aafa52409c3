"""The package's names: loaded when used, and the same for type checkers as for Python."""

from __future__ import annotations

from pathlib import Path

import pytest

import sfumato as sf


def test_a_public_name_is_one_line_that_type_checkers_read_too():
    stub = Path(sf.__file__).with_suffix(".pyi").read_text()
    lines = [line for line in stub.splitlines() if line.startswith("from")]
    assert lines == [f"from {sf._HOME[n]} import {n} as {n}" for n in sf._HOME]
    assert len(lines) == len(sf.__all__) > 40


@pytest.mark.parametrize("name", sf.__all__)
def test_every_name_is_there_and_says_what_it_is(name):
    assert getattr(sf, name).__doc__


def test_an_unknown_name_is_told_the_known_ones():
    with pytest.raises(AttributeError, match="similarity_join"):
        sf.similarity  # noqa: B018
