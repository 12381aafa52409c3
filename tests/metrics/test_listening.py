"""A query that is asked for its reports gives each once, whatever comes between two questions."""

from __future__ import annotations

from types import SimpleNamespace

from sfumato.listening import Run


class Asked:
    """A query that reports once more after each question."""

    def __init__(self):
        self.times = []

    @property
    def lastProgress(self):  # noqa: N802 - Spark's name
        last = report(self.times[-1]) if self.times else None
        self.times.append(len(self.times))
        return last

    @property
    def recentProgress(self):  # noqa: N802
        return [report(time) for time in self.times]


def report(number):
    return SimpleNamespace(timestamp=f"2026-01-01T00:00:{number:02d}.000Z", number=number)


def test_what_is_reported_between_two_questions_comes_once():
    run = Run(Asked())
    came = [r.number for _ in range(20) for r in run.news()]
    assert came == list(range(len(came)))
    assert len(came) > 15


def test_a_query_without_news_has_none():
    quiet = SimpleNamespace(lastProgress=report(3), recentProgress=[report(2), report(3)])
    run = Run(quiet)
    assert [r.number for r in run.news()] == [2, 3]
    assert run.news() == []
    assert Run(SimpleNamespace(lastProgress=None, recentProgress=[])).news() == []
