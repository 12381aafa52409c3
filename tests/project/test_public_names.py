"""The package's names: loaded when used, and the same for type checkers as for Python."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import sfumato as sf


def test_type_checkers_see_the_names_that_there_are():
    tree = ast.parse(Path(sf.__file__).read_text())
    typed = {
        alias.asname: (node.module, alias.name)
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert typed == {name: (home, name) for name, home in sf._HOME.items()}


@pytest.mark.parametrize("name", sf.__all__)
def test_every_name_is_there_and_says_what_it_is(name):
    assert getattr(sf, name).__doc__


def test_an_unknown_name_is_told_the_known_ones():
    with pytest.raises(AttributeError, match="similarity_join"):
        sf.similarity  # noqa: B018
