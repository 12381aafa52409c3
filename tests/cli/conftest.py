"""Fixtures for tests of the command line."""

import pytest


@pytest.fixture
def no_spark(monkeypatch):
    """Make the test fail if Spark starts."""

    def start(*_, **__):
        raise AssertionError("Spark was started")

    monkeypatch.setattr("sfumato.cli.session.session", start)


@pytest.fixture
def started(monkeypatch):
    """Return a list of the options with which a command starts Spark, which ends the command."""
    found = []

    def start(*_, **options):
        found.append(options)
        raise InterruptedError("Spark was started")

    monkeypatch.setattr("sfumato.cli.session.command_session", start)
    return found
