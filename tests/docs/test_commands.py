"""Commands on pages exist, with the options that are shown."""

import re

import pytest

from docs.pages import ROOT, blocks, pages, tokens

CALL = re.compile(r"(?:^|&& |\d )sfumato((?: +[^\s#&`]+)*)", re.MULTILINE)
TARGET = re.compile(r"^make ((?:[a-z]+ ?)+)", re.MULTILINE)
NAMES = [str(page.relative_to(ROOT)) for page in pages()]


def shell(name: str) -> str:
    """Return all commands on a page: shell blocks, and code within lines."""
    found = [b.text for b in blocks(ROOT / name) if b.kind in ("sh", "bash", "dockerfile", "")]
    for token in tokens(ROOT / name):
        found += [c.content for c in token.children or () if c.type == "code_inline"]
    return "\n".join(found)


@pytest.fixture(scope="module")
def commands():
    import typer

    from sfumato.cli.main import app

    return typer.main.get_command(app).commands


@pytest.mark.parametrize("name", NAMES)
def test_commands_of_the_package(name, commands):
    for call in CALL.findall(shell(name)):
        words = call.split()
        if not words or words[0].startswith("-"):
            continue
        assert words[0] in commands, f"{name}: sfumato{call}"
        known = {option for of in commands[words[0]].params for option in of.opts} | {"--help"}
        given = {re.split("[=.,]", word)[0] for word in words if word.startswith("--")}
        assert given <= known, f"{name}: sfumato{call}"


@pytest.mark.parametrize("name", NAMES)
def test_targets_of_make(name):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for call in TARGET.findall(shell(name)):
        for target in call.split():
            assert target in targets, f"{name}: make {call}"
