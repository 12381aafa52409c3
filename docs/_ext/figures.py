"""Draws the figures of the concepts: `python docs/_ext/figures.py` writes docs/pictures/*.svg.

Figures are drawn with inks that are read on white and on black paper alike.
"""

from __future__ import annotations

from itertools import pairwise
from math import log10
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "pictures"
INK, FAINT, BLUE, ORANGE, GREEN = "#7d8590", "#b0b7bf", "#3b8eea", "#d9822b", "#2a9d6f"


class Figure:
    """Shapes in a box of `width` by `height`."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self.size, self.title, self.parts = (width, height), title, []

    def text(self, x, y, what, *, colour=INK, anchor="middle", size=14, bold=False) -> None:
        weight = ' font-weight="600"' if bold else ""
        what = what.replace("&", "&amp;").replace("<", "&lt;")
        self.parts.append(
            f'<text x="{x}" y="{y}" fill="{colour}" text-anchor="{anchor}" '
            f'font-size="{size}"{weight}>{what}</text>'
        )

    def dot(self, x, y, what="", *, colour=BLUE, hollow=False, r=15) -> None:
        fill = "none" if hollow else colour
        self.parts.append(
            f'<circle cx="{x}" cy="{y}" r="{r}" fill="{fill}" stroke="{colour}" stroke-width="2"/>'
        )
        if what:
            self.text(x, y + 5, what, colour=colour if hollow else "#ffffff", bold=True)

    def box(self, x, y, w, h, *, colour=INK, dashed=False, fill="none", opacity=1.0) -> None:
        dash = ' stroke-dasharray="6 4"' if dashed else ""
        self.parts.append(
            f'<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="6" fill="{fill}" '
            f'fill-opacity="{opacity}" stroke="{colour}" stroke-width="1.6"{dash}/>'
        )

    def line(self, x1, y1, x2, y2, *, colour=INK, arrow=False, dashed=False, width=1.6) -> None:
        dash = ' stroke-dasharray="6 4"' if dashed else ""
        end = ' marker-end="url(#tip)"' if arrow else ""
        self.parts.append(
            f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{colour}" '
            f'stroke-width="{width}"{dash}{end}/>'
        )

    def save(self, name: str) -> None:
        width, height = self.size
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" role="img" '
            f'font-family="system-ui, sans-serif">\n<title>{self.title}</title>\n'
            '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" '
            f'markerHeight="8" orient="auto"><path d="M0 0L10 5L0 10z" fill="{INK}"/></marker>'
            "</defs>\n"
        )
        FOLDER.mkdir(exist_ok=True)
        (FOLDER / name).write_text(head + "\n".join(self.parts) + "\n</svg>\n")


def reorder() -> None:
    """Rows as they arrive above, in event-time order below; one is late."""
    f = Figure(720, 300, "Rows arrive out of order, wait, and are emitted in order; one comes late")
    arrivals = [1, 2, 5, 3, 4, 7, 6, 2.5, 9]
    order = [1, 2, 3, 4, 5, 6, 7, 9]
    at = {t: 110 + 68 * i for i, t in enumerate(arrivals)}
    out = {t: 144 + 68 * i for i, t in enumerate(order)}
    f.text(20, 55, "arrive", anchor="start", bold=True)
    f.text(20, 205, "emitted", anchor="start", bold=True)
    f.text(20, 275, "late", anchor="start", bold=True)
    for t in arrivals:
        late = t == 2.5
        colour = ORANGE if late else BLUE
        f.dot(at[t], 50, "2" if late else f"{t:g}", colour=colour)
        if late:
            f.line(at[t], 68, at[t], 250, colour=ORANGE, dashed=True)
            f.dot(at[t], 270, "2", colour=ORANGE)
        else:
            f.line(at[t], 68, out[t], 180, arrow=True, colour=FAINT)
            f.dot(out[t], 200, f"{t:g}", colour=BLUE)
    f.text(370, 20, "in the order in which they are received; numbers are event times", size=13)
    f.text(350, 275, "the order has gone past 2: out at once, marked", size=13)
    f.save("reorder.svg")


def punctuation() -> None:
    """The punctuation on the axis of event time."""
    f = Figure(720, 190, "The punctuation: up to here the order is closed")
    f.line(40, 110, 690, 110, arrow=True)
    f.text(690, 135, "event time", anchor="end")
    for x, out in [(80, 1), (130, 1), (190, 1), (250, 1), (300, 1), (410, 0), (470, 0), (600, 0)]:
        f.dot(x, 110, colour=GREEN if out else BLUE, r=9)
    f.line(350, 35, 350, 150, colour=ORANGE, width=3)
    f.text(350, 25, "punctuation", colour=ORANGE, bold=True)
    f.text(190, 80, "out, in order", colour=GREEN)
    f.text(510, 80, "held: an earlier row may still come", colour=BLUE)
    f.line(600, 165, 354, 165, arrow=True)
    f.text(608, 170, "newest row", anchor="start", size=13)
    f.text(475, 185, "how far it waits: what the drop ratio decides", size=13)
    f.save("punctuation.svg")


def count_window() -> None:
    """A window of the newest three existing tuples, with the confidence."""
    f = Figure(720, 240, "A window of the newest three existing tuples")
    shares = [0.9, 0.5, 0.8, 0.6, 0.9, 0.7, 0.5]
    for i, p in enumerate(shares):
        x = 70 + 92 * i
        inside = i >= 2
        f.box(x - 24, 130 - 90, 48, 90, colour=FAINT)
        f.box(
            x - 24,
            130 - 90 * p,
            48,
            90 * p,
            colour=BLUE if inside else FAINT,
            fill=BLUE if inside else FAINT,
            opacity=0.85,
        )
        f.text(x, 152, f"{p:g}")
    f.box(215, 25, 485, 140, colour=ORANGE, dashed=True)
    f.text(45, 20, "oldest", anchor="start", size=13)
    f.text(700, 20, "newest", anchor="end", size=13)
    f.text(440, 188, "five tuples: at least 3 of them exist with probability 0.85", colour=ORANGE)
    f.text(457, 212, "four would do so with 0.61: with a confidence of 80% five are held", size=13)
    f.save("count-window.svg")


def possible_worlds() -> None:
    """Two tuples, their alternatives and the worlds."""
    f = Figure(720, 300, "Two uncertain tuples and their six possible worlds")
    f.text(90, 30, "tuple a", bold=True)
    f.text(230, 30, "tuple b", bold=True)
    for y, what in [(60, "20° : 0.7"), (105, "22° : 0.3")]:
        f.box(30, y, 120, 34, colour=BLUE)
        f.text(90, y + 22, what)
    for y, what in [(60, "21° : 0.5"), (105, "25° : 0.3")]:
        f.box(170, y, 120, 34, colour=GREEN)
        f.text(230, y + 22, what)
    f.box(170, 150, 120, 34, colour=FAINT, dashed=True)
    f.text(230, 172, "absent : 0.2")
    f.text(160, 225, "existence of a: 1", size=13)
    f.text(160, 245, "existence of b: 0.8", size=13)
    f.line(310, 120, 385, 120, arrow=True)
    f.text(550, 30, "possible worlds", bold=True)
    worlds = [("20°, 21°", 0.35, 1), ("20°, 25°", 0.21, 0), ("20°", 0.14, 0),
              ("22°, 21°", 0.15, 1), ("22°, 25°", 0.09, 0), ("22°", 0.06, 0)]  # fmt: skip
    for i, (what, p, near) in enumerate(worlds):
        y = 48 + 34 * i
        f.box(400, y, 120, 28, colour=ORANGE if near else FAINT)
        f.text(460, y + 19, what)
        f.box(
            530,
            y + 4,
            360 * p,
            20,
            colour=ORANGE if near else FAINT,
            fill=ORANGE if near else FAINT,
            opacity=0.8,
        )
        f.text(538 + 360 * p, y + 19, f"{p:g}", anchor="start")
    f.text(540, 278, "a and b within 1°: 0.35 + 0.15 = 0.5", colour=ORANGE)
    f.save("possible-worlds.svg")


def extents() -> None:
    """Extents of four units every two, a row in several of them, a late one."""
    f = Figure(720, 270, "Extents of ten minutes every five minutes")
    f.line(40, 200, 700, 200, arrow=True)
    for i in range(7):
        x = 60 + 100 * i
        f.line(x, 195, x, 205)
        f.text(x, 225, f"12:{5 * i:02d}", size=13)
    for i in range(5):
        y = 40 + 28 * i
        done = i < 2
        f.box(
            60 + 100 * i,
            y,
            200,
            20,
            colour=GREEN if done else BLUE,
            fill=GREEN if done else BLUE,
            opacity=0.25,
        )
        f.text(160 + 100 * i, y + 15, "complete" if done else "open", size=12)
    f.line(395, 20, 395, 210, colour=ORANGE, width=3)
    f.text(395, 15, "punctuation 12:16:45", colour=ORANGE, size=13)
    for x in (90, 180, 300, 430, 520):
        f.dot(x, 200, colour=BLUE, r=7)
    f.dot(345, 200, colour=ORANGE, r=7)
    f.text(345, 250, "a late row: part of the extents that are still open", colour=ORANGE, size=13)
    f.save("extents.svg")


def timetable() -> None:
    """Three queries answered one by one, and together."""
    f = Figure(720, 250, "Three ranking queries, each alone and by a shared timetable")
    queries = [("top 3 every 2 min", 2, 3, BLUE), ("top 4 every 3 min", 3, 4, GREEN),
               ("top 5 every 6 min", 6, 5, ORANGE)]  # fmt: skip
    for row, (name, every, k, colour) in enumerate(queries):
        y = 40 + 42 * row
        f.text(20, y + 5, name, anchor="start")
        f.line(175, y, 690, y, colour=FAINT)
        for t in range(every, 13, every):
            f.dot(175 + 40 * t, y, str(k), colour=colour, r=13)
    y = 190
    f.text(20, y + 5, "together", anchor="start", bold=True)
    f.line(175, y, 690, y, colour=FAINT)
    for t, k in [(2, 4), (4, 4), (6, 5), (8, 4), (10, 4), (12, 5)]:
        f.dot(175 + 40 * t, y, str(k), colour=INK, r=13)
    f.text(360, 235, "in 12 minutes: 6·3 + 4·4 + 2·5 = 44 alone; (4 + 4 + 5) twice = 26 together")
    f.save("timetable.svg")


def dependency() -> None:
    """Donors of a row without temperature: those that are near in humidity."""
    f = Figure(720, 300, "A dependency: near in humidity means near in temperature")
    f.line(70, 260, 680, 260, arrow=True)
    f.line(70, 260, 70, 25, arrow=True)
    f.text(680, 285, "humidity", anchor="end")
    f.text(80, 25, "temperature", anchor="start")
    f.box(330, 40, 90, 220, colour=ORANGE, dashed=True, fill=ORANGE, opacity=0.12)
    points = [(100, 70), (140, 85), (185, 78), (215, 105), (250, 112), (290, 118), (340, 140),
              (355, 128), (378, 150), (392, 142), (408, 158), (450, 165), (490, 182), (520, 176),
              (560, 205), (600, 200), (640, 225)]  # fmt: skip
    for x, y in points:
        f.dot(x, y, colour=ORANGE if 330 <= x <= 420 else BLUE, r=6)
    f.line(375, 260, 375, 60, colour=INK, dashed=True)
    f.text(375, 285, "the row: 61%, temperature unknown")
    f.text(430, 60, "donors: rows of the repository", anchor="start", colour=ORANGE)
    f.text(430, 80, "within the dependency's distance", anchor="start", colour=ORANGE)
    f.text(100, 235, "repository", anchor="start", colour=BLUE)
    f.save("dependency.svg")


SAMPLES = (4, 8, 16, 32, 64, 128)
SAMPLE_ERRORS = {
    "two attributes, largest": (ORANGE, (0.254, 0.158, 0.0562, 0.0356, 0.0163, 0.0087)),
    "one attribute, largest": (BLUE, (0.127, 0.0644, 0.0331, 0.0165, 0.0077, 0.0037)),
    "two attributes, mean": (ORANGE, (0.0515, 0.0358, 0.0126, 0.0077, 0.0035, 0.0018)),
    "one attribute, mean": (BLUE, (0.0351, 0.0133, 0.005, 0.0024, 0.0013, 0.0007)),
}
"""Errors of a join's probabilities, measured against the exact formulas by
tests/operators/joins/test_sample_counts.py."""


def samples() -> None:
    """The error of a probability against the number of samples, on logarithmic axes."""
    f = Figure(720, 340, "The error of a probability falls as the number of samples grows")
    x = {n: 110 + 85 * i for i, n in enumerate(SAMPLES)}
    f.line(90, 290, 560, 290)
    f.line(90, 290, 90, 25)
    for n in SAMPLES:
        f.text(x[n], 310, str(n))
    f.text(325, 334, "samples per reading")
    for label, y in (("0.1", 70), ("0.01", 170), ("0.001", 270)):
        f.text(82, y + 5, label, anchor="end")
        f.line(90, y, 560, y, colour=FAINT, dashed=True, width=0.8)
    f.text(24, 160, "error")
    for label, (colour, errors) in SAMPLE_ERRORS.items():
        points = [(x[n], 70 - 100 * (log10(e) + 1)) for n, e in zip(SAMPLES, errors, strict=True)]
        mean = label.endswith("mean")
        for (x1, y1), (x2, y2) in pairwise(points):
            f.line(x1, y1, x2, y2, colour=colour, dashed=mean, width=2)
        for px, py in points:
            f.dot(px, py, colour=colour, hollow=mean, r=4)
        f.text(548, points[-1][1] + 5, label, colour=colour, anchor="start", size=13)
    f.save("samples.svg")


def main() -> None:
    for draw in (
        reorder, punctuation, count_window, possible_worlds, extents, timetable, dependency, samples
    ):  # fmt: skip
        draw()


if __name__ == "__main__":
    main()
