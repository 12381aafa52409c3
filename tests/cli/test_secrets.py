"""Secrets in everything that leaves the process, in any notation."""

import html
import io
import json
import subprocess
import sys
import threading
from types import SimpleNamespace
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console, Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text
from typer.testing import CliRunner

from sfumato.cli.main import app
from sfumato.cli.output import Log
from sfumato.cli.pipeline.environment import (
    FILE_WIDTH,
    Environment,
    RedactingConsole,
    hide,
    redact_children,
    redact_streams,
)
from sfumato.cli.pipeline.model import PipelineError, Sink
from sfumato.cli.pipeline.parse import parse_pipeline
from sfumato.cli.run import follow
from sfumato.cli.sink_query import SinkQuery
from sfumato.live.view import About, ResultRows, view
from sfumato.metrics.exporters import json_lines
from sfumato.metrics.session_metrics import SessionMetrics
from spark_reports import reorder, report

ODD = "Pa\"ss\\wörd/+ 'x' %41&<é>ß!"
WRITINGS = {
    "as it is": str,
    "lower case": str.lower,
    "upper case": str.upper,
    "json": lambda s: json.dumps(s)[1:-1],
    "json in utf-8": lambda s: json.dumps(s, ensure_ascii=False)[1:-1],
    "repr": lambda s: repr(s)[1:-1],
    "url": quote,
    "url without /": lambda s: quote(s, safe=""),
    "form": quote_plus,
    "html": html.escape,
    "quotes doubled": lambda s: s.replace("'", "''"),
    "escapes": lambda s: s.encode("unicode_escape").decode(),
    "markup": escape,
}  # fmt: skip


@pytest.mark.parametrize("second", WRITINGS)
@pytest.mark.parametrize("first", WRITINGS)
def test_a_secret_is_found_in_any_writing_of_any_writing(first, second):
    written = WRITINGS[second](WRITINGS[first](ODD))
    shown = hide(f"the codec {written} is none", {"KEY": ODD})
    assert shown.startswith("the codec ")
    assert shown.endswith(" is none")
    assert shown.replace("\\", "") == "the codec ${KEY} is none"


def test_a_letter_beyond_16_bits_is_found_in_its_escaped_form_in_any_case():
    secret = "0000000\U000104b0"  # an Osage capital: two code units in JSON
    for written in (json.dumps(secret), json.dumps(secret).upper(), json.dumps(secret.lower())):
        assert hide(written, {"KEY": secret}) == '"${KEY}"'


texts = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), max_size=30)


@given(secret=texts.filter(lambda s: len(s.strip(" '\"\\+%&")) >= 8), before=texts, after=texts)
def test_no_writing_of_any_secret_is_left(secret, before, after):
    environment = Environment({"KEY": secret})
    environment.fill("${KEY}")
    for write in WRITINGS.values():
        shown = environment.hidden(f"{before}\n{write(secret)}\n{after}")
        assert "${KEY}" in shown
        assert write(secret).strip() not in shown.replace("${KEY}", "")


@given(texts)
def test_a_text_without_secrets_stays_as_it_is(text):
    assert hide(text, {"KEY": "\x00" + "never there"}) == text


def test_a_secret_that_is_cut_or_has_several_lines_is_found():
    key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\nAQEFAASCBKcwggSjAgEA\n-----END KEY-----"
    assert hide("got MIIEvQIBADANBgkqhkiG9w0B", {"K": key}) == "got ${K}"
    assert "MII" not in hide(f"got {key[:40]}...", {"K": key})
    secret = "s3cret-of-the-lake"
    assert hide(f"path={secret[:12]}…", {"K": secret}) == "path=${K}…"
    assert hide(f"path={secret[:12]}", {"K": secret}) == "path=${K}"
    assert hide(f"the {secret[:12]} word", {"K": secret}) == f"the {secret[:12]} word"
    assert hide(secret * 3, {"K": secret}) == "${K}" * 3


def test_of_two_secrets_the_longer_is_hidden_first():
    both = {"A": "lake", "B": "lake-of-como"}
    assert hide("LAKE-of-Como, Lake", both) == "${B}, ${A}"


@pytest.mark.parametrize("value", ["", "a", "abc", "'''''", "\\\\\\\\"])
def test_a_value_that_is_too_short_to_be_hidden_is_refused(value, monkeypatch, tmp_path):
    monkeypatch.setenv("SHORT", value)
    text = "[sources.s]\nformat = 'json'\npath = 'in/${SHORT}'\n[sinks.o]\nquery = 's'\n"
    with pytest.raises(PipelineError) as caught:
        parse_pipeline(text, tmp_path / "p.toml")
    said = str(caught.value)
    assert "cannot use the environment variable SHORT" in said
    assert "write it into the file itself" in said


# ---- every way out -----------------------------------------------------------------------------


SECRET = "HunterTwo[22]XyZ-and-some-more"


@pytest.fixture
def environment():
    found = Environment({"KEY": SECRET})
    found.fill("${KEY}")
    return found


def hidden_in_full(shown):
    assert "hunter" not in shown.lower()
    assert "${KEY}" in shown


def test_tables_and_groups_hide_before_lines_are_cut(environment):
    console = RedactingConsole(file=io.StringIO(), width=24)
    console.environment = environment
    table = Table()
    table.add_column(escape(SECRET))
    table.add_row(escape(SECRET.lower()))
    console.print(Group(Text(f"title {SECRET}", style="bold"), table))
    console.print(f"a long sentence with {escape(SECRET.lower())}")
    hidden_in_full(console.file.getvalue())


def test_output_without_a_terminal_has_the_width_of_a_log(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    assert RedactingConsole(file=io.StringIO()).width == FILE_WIDTH
    assert RedactingConsole(file=io.StringIO(), width=70).width == 70
    monkeypatch.setenv("COLUMNS", "90")
    assert RedactingConsole(file=io.StringIO()).width == 90


@pytest.mark.parametrize("machines", [False, True])
def test_a_run_that_fails_hides_what_spark_says(environment, machines):
    error = RuntimeError(f"The codec {SECRET.lower()} is not available")
    query = SimpleNamespace(
        isActive=False, recentProgress=(), lastProgress=None, exception=lambda: error,
        stop=lambda: None, awaitTermination=lambda: None,
    )  # fmt: skip
    console = RedactingConsole(file=io.StringIO(), width=40)
    console.environment = environment
    sink = SinkQuery(
        Sink(name="out", query="q"), "out", [SimpleNamespace(columns=["x"])], lambda _: query
    )
    sink.rows.append([f'"{SECRET}"'])
    assert follow([sink], Log(console, is_json=machines)) == 1
    said = console.file.getvalue()
    hidden_in_full(said)
    if machines:
        assert [json.loads(line) for line in said.splitlines()]


def test_json_lines_stay_valid_where_a_secret_begins_with_a_quote():
    environment = Environment({"KEY": '"quoted" one'})
    environment.fill("${KEY}")
    console = RedactingConsole(file=io.StringIO(), width=400)
    console.environment = environment
    Log(console, is_json=True).event("out", 'the word "QUOTED" One is none', why=['"quoted" one'])
    said = json.loads(console.file.getvalue())
    assert said == {"sink": "out", "event": "the word ${KEY} is none", "why": ["${KEY}"]}


def test_the_page_and_the_metrics_hide_it_everywhere(environment):
    metrics = SessionMetrics()
    metrics.take("q", [report(0, 10, **{f"sfumato_reorder_{SECRET}": reorder(10, 1, 2)})])
    metrics.take(SECRET.lower(), [report(0, 10)])
    metrics.ended("q", f"The codec {SECRET.lower()} is not available")
    answers = ResultRows([SECRET], [[(SECRET.upper(), None)]])
    about = {"q": About(f"SELECT '{SECRET}'", f"plan {SECRET}", None, lambda: answers)}
    metrics.hide = environment.hidden
    hidden_in_full(json.dumps(view(metrics, about)))
    hidden_in_full("\n".join(json_lines(metrics)))


def test_streams_of_the_process_hide_it(environment, capsys):
    with redact_streams(environment):
        print(f"out {SECRET.lower()}")
        print(f"error {SECRET}", file=sys.stderr)
        sys.stderr.writelines([SECRET, "\n"])
        Console(stderr=True).print(SECRET, markup=False)
    said = capsys.readouterr()
    hidden_in_full(said.out)
    hidden_in_full(said.err)
    assert said.err.count("${KEY}") == 3


def test_processes_that_are_started_hide_it(environment, capfd):
    code = f"import sys; sys.stderr.write('error {SECRET.lower()}\\nnext\\n')"
    before = threading.enumerate()
    with redact_children(environment):
        subprocess.run([sys.executable, "-c", code], check=True)
        subprocess.run([sys.executable, "-c", code], check=True)
    for thread in threading.enumerate():  # a second reader would take lines from it
        if thread.name == "sfumato-stderr" and thread not in before:
            thread.join()
    said = capfd.readouterr().err
    assert said.count("next") == 2
    hidden_in_full(said)


def test_a_traceback_hides_it(tmp_path, monkeypatch):
    monkeypatch.setenv("KEY", SECRET)

    def fail(*_, **__):
        raise RuntimeError(f"no host {SECRET.lower()}")

    monkeypatch.setattr("sfumato.cli.session.command_session", fail)
    (tmp_path / "in").mkdir()
    file = tmp_path / "p.toml"
    options = 'schema = "id string"\noptions = { lineSep = "${KEY}" }'
    text = f"[sources.s]\nformat = 'json'\npath = 'in'\n{options}\n[sinks.o]\nquery = 's'\n"
    file.write_text(text)
    answer = CliRunner().invoke(app, ["check", str(file)])
    assert answer.exit_code == 1
    assert "RuntimeError: no host ${KEY}" in answer.output
    assert "hunter" not in answer.output.lower()


def test_sparks_own_page_is_not_there_where_it_could_show_a_secret(tmp_path, monkeypatch, started):
    monkeypatch.setenv("KEY", SECRET)
    (tmp_path / "in").mkdir()
    file = tmp_path / "p.toml"
    text = "[sources.s]\nformat = 'json'\npath = 'in'\nschema = 'id string'\n"
    for options, page in (("", True), ('options = { lineSep = "${KEY}" }\n', False)):
        file.write_text(f"{text}{options}[sinks.o]\nquery = 's'\n")
        CliRunner().invoke(app, ["run", str(file)])
        assert started.pop()["page"] is page
