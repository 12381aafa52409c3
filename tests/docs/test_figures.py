"""The figures of the concepts equal the output of their program, and each is shown on a page."""

import importlib.util

from docs.pages import DOCS, links, pages


def program():
    spec = importlib.util.spec_from_file_location("figures", DOCS / "_ext" / "figures.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_figures_are_drawn_by_their_program(tmp_path):
    figures = program()
    kept, figures.FOLDER = figures.FOLDER, tmp_path
    figures.main()
    drawn = sorted(tmp_path.glob("*.svg"))
    assert len(drawn) >= 7
    for picture in drawn:
        assert (kept / picture.name).read_text() == picture.read_text(), picture.name


def test_every_picture_is_shown():
    shown = {(page.parent / to).resolve() for page in pages() for to, _ in links(page)}
    lost = [p.name for p in (DOCS / "pictures").glob("*.svg") if p.resolve() not in shown]
    assert not lost
