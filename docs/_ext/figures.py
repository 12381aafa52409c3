"""Draws the figures of the concepts: `python docs/_ext/figures.py` writes docs/pictures/*.svg.

The colours are legible on white and on black backgrounds.
"""

import json
from itertools import pairwise
from math import erf, exp, log10
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "pictures"
INK, FAINT, BLUE, ORANGE, GREEN = "#7d8590", "#b0b7bf", "#3b8eea", "#d9822b", "#2a9d6f"
PURPLE = "#a371f7"


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

    def code(self, x, y, *pieces: tuple[str, str]) -> None:
        """Write pieces of code next to each other, each in its colour."""
        spans = "".join(f'<tspan fill="{colour}">{what}</tspan>' for what, colour in pieces)
        self.parts.append(
            f'<text x="{x}" y="{y}" font-family="monospace" font-size="14" '
            f'xml:space="preserve">{spans}</text>'
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
    """Draw rows in order of arrival above, and in event-time order below; one is late."""
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
    f.text(350, 275, "the punctuation has passed 2: emitted immediately, marked", size=13)
    f.save("reorder.svg")


def punctuation() -> None:
    """Draw the punctuation on the axis of event time."""
    f = Figure(720, 190, "The punctuation: later arrivals with earlier event times are late")
    f.line(40, 110, 690, 110, arrow=True)
    f.text(690, 135, "event time", anchor="end")
    for x, out in [(80, 1), (130, 1), (190, 1), (250, 1), (300, 1), (410, 0), (470, 0), (600, 0)]:
        f.dot(x, 110, colour=GREEN if out else BLUE, r=9)
    f.line(350, 35, 350, 150, colour=ORANGE, width=3)
    f.text(350, 25, "punctuation", colour=ORANGE, bold=True)
    f.text(190, 80, "emitted, in order", colour=GREEN)
    f.text(510, 80, "held: an earlier row may still come", colour=BLUE)
    f.line(600, 165, 354, 165, arrow=True)
    f.text(608, 170, "newest row", anchor="start", size=13)
    f.text(475, 185, "the wait: set by the drop ratio", size=13)
    f.save("punctuation.svg")


def count_window() -> None:
    """Draw a window of the newest three existing tuples, with the confidence."""
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
    f.text(
        457, 212, "four tuples: probability 0.61; a confidence of 80% needs five tuples", size=13
    )
    f.save("count-window.svg")


def possible_worlds() -> None:
    """Draw two tuples, their alternatives and the worlds."""
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
    """Draw extents of four units every two, a row in several of them, and a late row."""
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
    """Draw three queries answered one by one, and together."""
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
    """Draw a row without temperature and its donors, which are near in humidity."""
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


MEASURED = FOLDER.parent / "benchmarks"


def samples() -> None:
    """Draw the error of a probability against the number of samples, on logarithmic axes."""
    f = Figure(720, 380, "The error of a probability falls as the number of samples grows")
    rows = json.loads((MEASURED / "samples.json").read_text())
    counts = list(dict.fromkeys(int(row["setting"].split()[0]) for row in rows))
    x = {n: 110 + 85 * i for i, n in enumerate(counts)}
    f.line(90, 330, 540, 330)
    f.line(90, 330, 90, 25)
    for n in counts:
        f.text(x[n], 350, str(n))
    f.text(325, 374, "samples per reading")
    for label, y in (("0.1", 100), ("0.01", 200), ("0.001", 300)):
        f.text(82, y + 5, label, anchor="end")
        f.line(90, y, 540, y, colour=FAINT, dashed=True, width=0.8)
    f.text(24, 180, "error")
    for name, colour in (("one attribute", BLUE), ("two attributes", ORANGE)):
        for measure, mean in (("largest", False), ("mean", True)):
            errors = [row[measure] for row in rows if row["name"] == name]
            points = [
                (x[n], 100 - 100 * (log10(e) + 1)) for n, e in zip(counts, errors, strict=True)
            ]
            for (x1, y1), (x2, y2) in pairwise(points):
                f.line(x1, y1, x2, y2, colour=colour, dashed=mean, width=2)
            for px, py in points:
                f.dot(px, py, colour=colour, hollow=mean, r=4)
            y = points[-1][1] + 5
            f.text(548, y, f"{name}, {measure}", colour=colour, anchor="start", size=13)
    f.save("samples.svg")


def early_answers() -> None:
    """Draw the width of early answers' intervals against the time left, for two traces."""
    f = Figure(720, 420, "The width of the intervals of early answers against the time left")
    rows = json.loads((MEASURED / "early_widths.json").read_text())
    colours = {"count": INK, "sum": PURPLE, "avg": BLUE, "min": GREEN, "max": ORANGE}
    for i, name in enumerate(dict.fromkeys(row["name"] for row in rows)):
        x, y = (lambda left, i=i: 352 + 350 * i - 250 * left), (lambda width: 330 - 125 * width)
        f.text(x(0.6), 28, name, bold=True)
        for width in (0, 0.5, 1, 1.5, 2):
            faint = {"colour": FAINT, "dashed": True, "width": 0.8} if width else {}
            f.line(x(1.2), y(width), x(0), y(width), **faint)
            f.text(x(1.2) - 8, y(width) + 5, f"{width:g}", anchor="end", size=13)
        for left in (1, 0.8, 0.6, 0.4, 0.2, 0):
            f.text(x(left), 350, f"{left:.0%}", size=13)
        own = [row for row in rows if row["name"] == name]
        for aggregate, colour in colours.items():
            points = [(round(x(row["share left"]), 1), round(y(row[aggregate]), 1)) for row in own]
            for (x1, y1), (x2, y2) in pairwise(points):
                f.line(x1, y1, x2, y2, colour=colour, width=2)
            for px, py in points:
                f.dot(px, py, colour=colour, r=3)
    f.text(44, 60, "width", anchor="end", size=13)
    f.text(377, 376, "time left until the final answer (100%: at the start of the window)", size=13)
    for i, (aggregate, colour) in enumerate(colours.items()):
        f.dot(197 + 80 * i, 401, colour=colour, r=4)
        f.text(207 + 80 * i, 406, aggregate, colour=colour, anchor="start")
    f.save("early-answers.svg")


def alternatives() -> None:
    """Draw three uncertain rows: a reading with an error, candidates, a row that may not exist."""
    f = Figure(720, 230, "Three uncertain rows and their alternatives")
    rows = [
        (30, "20° ± 0.5", [("19.3°", 0.25), ("19.8°", 0.25), ("20.2°", 0.25), ("20.7°", 0.25)], 0),
        (270, "131, 96 or neither", [("131", 0.6), ("96", 0.3)], 0.1),
        (510, "a false alarm?", [("here", 0.7)], 0.3),
    ]
    for x, title, values, absent in rows:
        f.text(x + 90, 25, title, bold=True)
        bars = [(*one, BLUE, False) for one in values]
        bars += [("absent", absent, FAINT, True)] if absent else []
        step = 180 / len(bars)
        for i, (name, p, colour, dashed) in enumerate(bars):
            middle = x + step * (i + 0.5)
            f.box(
                middle - 15,
                165 - 160 * p,
                30,
                160 * p,
                colour=colour,
                dashed=dashed,
                fill="none" if dashed else colour,
                opacity=0.8,
            )
            f.text(middle, 158 - 160 * p, f"{p:g}", size=12)
            f.text(middle, 184, name, size=13)
        f.line(x, 165, x + 180, 165)
        f.text(x + 90, 215, f"existence {1 - absent:g}", size=13)
    f.save("alternatives.svg")


def wait() -> None:
    """Draw the delays of rows, and the delay that one row in a hundred exceeds."""
    f = Figure(720, 250, "How long to wait for a drop ratio")
    shares = [0.13 * 2 ** (-i / 4) for i in range(36)]
    for i, share in enumerate(shares):
        late = i >= 26
        colour = ORANGE if late else BLUE
        height = max(1300 * share, 2)
        f.box(60 + 17 * i, 200 - height, 12, height, colour=colour, fill=colour, opacity=0.8)
    f.line(50, 200, 700, 200, arrow=True)
    f.line(499, 60, 499, 215, colour=ORANGE, width=3)
    f.text(375, 225, "delay of a row: arrival minus event time")
    f.text(499, 50, "the punctuation stays this far behind", colour=ORANGE, bold=True)
    f.text(600, 165, "1 row in 100: late", colour=ORANGE)
    f.text(330, 120, "99 rows in 100: in order", colour=BLUE)
    f.save("wait.svg")


def sources() -> None:
    """Draw three sources at different speeds; each has a punctuation, and the slowest decides."""
    f = Figure(720, 250, "Each source has a punctuation; the slowest source decides")
    rows = [("phone", 560, (120, 210, 300, 390, 470, 600)), ("tablet", 440, (150, 260, 380, 480)),
            ("watch", 290, (100, 180, 250, 330))]  # fmt: skip
    for i, (name, at, times) in enumerate(rows):
        y = 50 + 50 * i
        f.text(20, y + 5, name, anchor="start", bold=True)
        f.line(90, y, 690, y, colour=FAINT, arrow=True)
        for x in times:
            f.dot(x, y, colour=GREEN if x <= 290 else BLUE, r=8)
        f.line(at, y - 18, at, y + 18, colour=ORANGE, width=3)
    f.line(290, 150, 290, 205, colour=ORANGE, dashed=True, width=2)
    f.text(290, 223, "everything up to here is emitted", colour=ORANGE)
    f.text(560, 25, "punctuation of the phone", colour=ORANGE, size=13)
    f.text(190, 190, "emitted", colour=GREEN)
    f.text(480, 190, "held: the watch may send earlier rows", colour=BLUE)
    f.save("sources.svg")


def sessions() -> None:
    """Draw a key's rows and the sessions they form; a late row merges two sessions."""
    f = Figure(720, 230, "Sessions: rows without a long pause between them")
    early, later = (70, 110, 165), (380, 430, 465, 640)
    f.line(40, 100, 700, 100, arrow=True)
    for x in (*early, *later):
        f.dot(x, 100, colour=BLUE, r=8)
    for x1, x2, name in [(55, 180, "session 1"), (365, 480, "session 2"), (625, 655, "session 3")]:
        f.box(x1, 78, x2 - x1, 44, colour=BLUE, dashed=True)
        f.text((x1 + x2) / 2, 65, name, colour=BLUE, size=13)
    f.line(190, 140, 355, 140, arrow=True)
    f.line(355, 140, 190, 140, arrow=True)
    f.text(272, 160, "a pause longer than the gap", size=13)
    f.dot(550, 100, colour=ORANGE, r=8)
    f.line(550, 185, 550, 112, colour=ORANGE, arrow=True)
    f.box(365, 72, 290, 56, colour=ORANGE)
    f.text(
        700, 205, "a late row bridges the gap: sessions 2 and 3 become one",
        anchor="end", colour=ORANGE,
    )  # fmt: skip
    f.save("sessions.svg")


def delta() -> None:
    """Draw a value over time and the window of newest tuples within five degrees of the oldest."""
    f = Figure(720, 260, "An attribute-delta window is long while the value is stable")
    values = [8, 9, 13, 17, 18, 17.5, 18.5, 17, 18, 19, 18.5]
    at = [70 + 58 * i for i in range(len(values))]
    y = [230 - 10 * v for v in values]
    f.box(at[3] - 18, y[3] - 50, at[-1] - at[3] + 36, 100, colour=ORANGE, dashed=True)
    f.line(at[3], y[3], at[-1], y[3], colour=ORANGE, dashed=True)
    for i, (x, height) in enumerate(zip(at, y, strict=True)):
        f.dot(x, height, colour=ORANGE if i >= 3 else FAINT, r=7)
    f.line(40, 235, 700, 235, arrow=True)
    f.text(700, 255, "time", anchor="end", size=13)
    f.text(445, 130, "the window: no tuple differs from the oldest by more than 5", colour=ORANGE)
    f.text(70, 180, "evicted", anchor="start", size=13)
    f.save("delta.svg")


def average() -> None:
    """Draw the distribution of the average on the page about answers, with its parts."""
    f = Figure(720, 300, "The distribution of an average, and the numbers that describe it")
    values, shares = average_level()
    mean = sum(v * p for v, p in zip(values, shares, strict=True))
    low, high = _quantile(values, shares, 0.05), _quantile(values, shares, 0.95)
    x = {v: 60 + 150 * (v - 19.5) for v in (*values, mean, low, high)}
    width, bins = 0.1, dict[int, float]()
    for v, p in zip(values, shares, strict=True):
        bins[int(v // width)] = bins.get(int(v // width), 0.0) + p
    for place, p in bins.items():
        if p < 0.001:
            continue
        left = 60 + 150 * (place * width - 19.5)
        inside = low <= (place + 0.5) * width <= high
        colour = BLUE if inside else FAINT
        f.box(left + 1, 230 - 1400 * p, 13, 1400 * p, colour=colour, fill=colour, opacity=0.8)
    f.line(50, 230, 690, 230, arrow=True)
    for v in range(20, 24):
        f.text(60 + 150 * (v - 19.5), 250, f"{v}°", size=13)
    f.line(x[mean], 40, x[mean], 230, colour=ORANGE, width=3)
    f.text(x[mean], 30, f"mean {mean:.1f}", colour=ORANGE, bold=True)
    for v, name in ((low, "q05"), (high, "q95")):
        f.line(x[v], 100, x[v], 230, colour=INK, dashed=True)
        f.text(x[v], 92, f"{name} {v:.1f}", size=13)
    f.line(x[low], 270, x[high], 270, arrow=True)
    f.line(x[high], 270, x[low], 270, arrow=True)
    f.text((x[low] + x[high]) / 2, 290, "90% of the probability", colour=BLUE)
    f.text(120, 60, "without the third reading: 0.4", anchor="start", size=13)
    f.text(480, 60, "with it: 0.6", anchor="start", size=13)
    f.save("average.svg")


def average_level() -> tuple[list[float], list[float]]:
    """Return the values and probabilities of an average of three readings with errors.

    The readings are 20.0, 21.0 and 26.0 with an error of 0.5; 26.0 exists with probability 0.6.
    The distribution is a mixture of sums of normal readings.
    """
    values, shares = [], []
    for p, middle, count in ((0.4, 20.5, 2), (0.6, 67 / 3, 3)):
        deviation = 0.5 / count**0.5
        steps = [i / 50 for i in range(-200, 201)]
        weights = [exp(-z * z / 2) for z in steps]
        values += [middle + z * deviation for z in steps]
        shares += [p * w / sum(weights) for w in weights]
    both = sorted(zip(values, shares, strict=True))
    return [v for v, _ in both], [p for _, p in both]


def _quantile(values: list[float], shares: list[float], share: float) -> float:
    total = 0.0
    for v, p in zip(values, shares, strict=True):
        total += p
        if total >= share:
            return v
    return values[-1]


def match() -> None:
    """Draw the probability of a match against the distance of two readings with errors."""
    f = Figure(720, 290, "The probability of a match falls smoothly with the distance")
    f.line(80, 230, 680, 230, arrow=True)
    f.line(80, 230, 80, 30, arrow=True)
    for p in (0.5, 1):
        f.text(70, 235 - 180 * p, f"{p:g}", anchor="end", size=13)
        f.line(80, 230 - 180 * p, 680, 230 - 180 * p, colour=FAINT, dashed=True, width=0.8)
    for d in range(5):
        f.text(80 + 140 * d, 250, f"{d}°", size=13)
    points = [(i / 20, near(i / 20)) for i in range(81)]
    for (d1, p1), (d2, p2) in pairwise(points):
        f.line(80 + 140 * d1, 230 - 180 * p1, 80 + 140 * d2, 230 - 180 * p2, colour=BLUE, width=3)
    f.line(220, 30, 220, 230, colour=ORANGE, dashed=True, width=2)
    f.text(228, 42, "within=1.0", anchor="start", colour=ORANGE)
    f.dot(220, 230 - 180 * near(1), colour=ORANGE, r=6)
    f.text(236, 132, f"readings exactly 1° apart: {near(1):.2f}", anchor="start", colour=ORANGE)
    f.dot(360, 230 - 180 * near(2), colour=BLUE, r=6)
    f.text(374, 212, f"2° apart: {near(2):.2f}", anchor="start", colour=BLUE)
    f.text(380, 280, "distance of the two readings, each with an error of 0.5°")
    f.save("match.svg")


def near(distance: float) -> float:
    """Return the probability that two true values differ by at most 1, given the readings.

    Both readings have an error of 0.5.
    """
    return (erf(1 - distance) - erf(-1 - distance)) / 2


def ranking() -> None:
    """Draw three rows, their possible worlds, and their probabilities of being in the top two."""
    f = Figure(720, 270, "The probability of being among the best two, from possible worlds")
    for y, what, colour in [(60, "a 100 : 0.5", BLUE), (105, "b  90 : 1", GREEN),
                            (150, "c  80 : 0.9", INK)]:  # fmt: skip
        f.box(20, y, 120, 34, colour=colour)
        f.text(80, y + 22, what)
    f.text(80, 30, "score : existence", bold=True)
    f.line(160, 120, 225, 120, arrow=True)
    f.text(330, 30, "worlds, best first", bold=True)
    worlds = [("a  b  c", 0.45), ("a  b", 0.05), ("b  c", 0.45), ("b", 0.05)]
    for i, (rows, p) in enumerate(worlds):
        y = 48 + 36 * i
        f.box(240, y, 90, 28, colour=FAINT)
        f.text(285, y + 19, rows)
        f.box(340, y + 4, 180 * p, 20, colour=ORANGE, fill=ORANGE, opacity=0.8)
        f.text(348 + 180 * p, y + 19, f"{p:g}", anchor="start", size=13)
    f.text(590, 30, "among the best two", bold=True)
    for i, (name, p, colour) in enumerate([("a", 0.5, BLUE), ("b", 1.0, GREEN), ("c", 0.45, INK)]):
        y = 60 + 45 * i
        f.text(490, y + 20, name, bold=True)
        f.box(510, y + 4, 150 * p, 22, colour=colour, fill=colour, opacity=0.7)
        f.text(518 + 150 * p, y + 20, f"{p:g}", anchor="start")
    f.text(
        360, 230, "b is the most probable; a has the highest score, and is in half of the worlds"
    )
    f.text(360, 252, "c is in only where a is absent: 0.5 · 0.9", size=13)
    f.save("ranking.svg")


def calibration() -> None:
    """Draw ranges of imputed values with the true values, of which 18 out of 20 are inside."""
    f = Figure(720, 250, "About eighteen of twenty 90% ranges hold the true value")
    middles = [0, 9, -6, 14, 3, -12, 7, 18, -3, 5, 11, -9, 2, 16, -5, 8, -1, 12, -7, 4]
    halves = [28, 22, 34, 25, 40, 24, 30, 26, 36, 22, 28, 33, 25, 24, 38, 27, 30, 23, 29, 35]
    at = [-9, 15, 12, -4, 25, -20, 2, 33, 20, -8, 8, -52, 17, 21, -30, 18, -14, 40, 10, -16]
    for i, (middle, half, true) in enumerate(zip(middles, halves, at, strict=True)):
        x = 50 + 33 * i
        inside = abs(true - middle) <= half
        f.box(x - 5, 110 - middle - half, 10, 2 * half, colour=BLUE, fill=BLUE, opacity=0.25)
        f.dot(x, 110 - true, colour=GREEN if inside else ORANGE, r=5)
    f.text(360, 215, "ranges of 90% of twenty imputed values, and the true values", bold=True)
    f.text(360, 238, "eighteen are inside, two are outside", colour=ORANGE)
    f.save("calibration.svg")


def changes() -> None:
    """Draw a series with a gap: the last known value, and the past changes added to it."""
    f = Figure(720, 270, "A missing value is the last known value plus a change")
    past = [140, 128, 136, 118, 126, 110, 120, 104, 112, 98]
    points = [(50 + 34 * i, y) for i, y in enumerate(past)]
    for (x1, y1), (x2, y2) in pairwise(points):
        f.line(x1, y1, x2, y2, colour=FAINT)
    for x, y in points:
        f.dot(x, y, colour=BLUE, r=6)
    for i in (1, 3, 5):
        (x1, y1), (x2, y2) = points[i], points[i + 3]
        f.line(x1, y1 + 9, x2, y2 + 9, colour=GREEN, dashed=True, arrow=True)
    x, y = points[-1]
    for move in (-58, -36, -20, -8, 6, 24):
        f.line(x, y, 520, y + move, colour=GREEN, dashed=True)
        f.dot(520, y + move, colour=GREEN, r=5)
    f.box(508, y - 68, 24, 102, colour=ORANGE)
    f.line(x, 190, 514, 190, arrow=True)
    f.text((x + 514) / 2, 210, "age of the last value", size=13)
    f.text(160, 190, "changes over a similar time span", colour=GREEN, size=13)
    f.text(x - 10, y - 30, "last value", colour=BLUE, size=13)
    f.text(545, y - 20, "possible values now", colour=ORANGE, anchor="start", bold=True)
    f.text(360, 255, "missing value = last known value + a change from the past", bold=True)
    f.save("changes.svg")


def cuts() -> None:
    """Draw a stream's watermark over two micro-batches, as steps, and its punctuation per row."""
    f = Figure(720, 290, "A watermark advances per micro-batch, and a punctuation advances per row")
    times = [2, 4, 3, 7, 6, 9, 8, 12, 11, 14, 7, 13]
    x = {i: 90 + 50 * i for i in range(len(times))}
    height = lambda t: 235 - 13 * t  # noqa: E731
    f.line(50, 240, 700, 240, arrow=True)
    f.line(50, 240, 50, 25, arrow=True)
    f.text(700, 260, "order of arrival", anchor="end", size=13)
    f.text(60, 30, "event time", anchor="start", size=13)
    f.line(365, 30, 365, 240, colour=FAINT, dashed=True)
    f.text(215, 280, "first micro-batch", size=13)
    f.text(530, 280, "second micro-batch", size=13)
    newest, before = 0, 0
    for i, t in enumerate(times):
        after = max(newest, t)
        if i:
            level = height(max(newest - 4, 0))
            f.line(x[i] - 50, before, x[i] - 50, level, colour=ORANGE, width=2)
            f.line(x[i] - 50, level, x[i], level, colour=ORANGE, width=2)
            before = level
        else:
            before = height(0)
        newest = after
    f.line(365, height(5), 690, height(5), colour=GREEN, dashed=True, width=2)
    f.line(60, height(0), 365, height(0), colour=GREEN, dashed=True, width=2)
    for i, t in enumerate(times):
        f.dot(x[i], height(t), colour=ORANGE if i == 10 else BLUE, r=7)
    f.text(606, height(7) + 5, "late only here", anchor="start", colour=ORANGE, size=13)
    f.text(690, height(5) + 20, "Spark: one watermark per micro-batch", anchor="end", colour=GREEN)
    f.text(360, 60, "sfumato: row by row", anchor="end", colour=ORANGE)
    f.save("cuts.svg")


def policies() -> None:
    """Draw one window in three kinds of systems: when it answers, and what its last row changes."""
    f = Figure(720, 330, "One window in three kinds of systems: its answers, and its last row")
    arrivals, late = (170, 215, 275, 330), 600
    lanes = [
        (90, "fixed wait", "Spark, Flink, Kafka", [(430, "4")]),
        (180, "corrections", "Feldera", [*zip(arrivals, "1234", strict=True), (late, "5")]),
        (270, "fixed share", "sfumato", [(500, "4")]),
    ]
    f.text(250, 25, "rows of a window, as they arrive", colour=BLUE, bold=True)
    f.text(600, 25, "its last row", colour=ORANGE, bold=True)
    for y, name, systems, answers in lanes:
        f.text(20, y - 3, name, anchor="start", bold=True)
        f.text(20, y + 15, systems, anchor="start", size=12)
        f.line(150, y, 700, y, colour=FAINT, arrow=True)
        for x in arrivals:
            f.dot(x, y, colour=BLUE, r=7)
        f.dot(late, y, colour=ORANGE, hollow=name == "fixed wait", r=7)
        for i, (x, what) in enumerate(answers):
            old = i + 1 < len(answers)
            f.box(x - 13, y - 40, 26, 24, colour=FAINT if old else GREEN, dashed=old)
            f.text(x, y - 23, what, colour=FAINT if old else GREEN, bold=not old)
    f.text(430, 115, "after the wait that you set", colour=GREEN, size=13)
    f.text(600, 115, "dropped, or diverted", colour=ORANGE, size=13)
    f.text(340, 205, "immediately, and corrected with each row", colour=GREEN, size=13)
    f.text(600, 205, "corrects the answer", colour=ORANGE, size=13)
    f.text(455, 295, "after the wait for the share", colour=GREEN, size=13)
    f.text(600, 312, "emitted, marked, counted", colour=ORANGE, size=13)
    f.text(20, 322, "numbers: rows in the answer", anchor="start", size=12)
    f.save("policies.svg")


def statements() -> None:
    """Draw one window in three languages, with the same parts in the same colours."""
    f = Figure(720, 250, "The same window in Flink SQL, ksqlDB and sfumato")
    f.text(150, 25, "window", colour=BLUE, anchor="start", bold=True)
    f.text(240, 25, "event time", colour=GREEN, anchor="start", bold=True)
    f.text(355, 25, "how long it waits", colour=ORANGE, anchor="start", bold=True)
    for y, name in ((75, "Flink SQL"), (145, "ksqlDB"), (215, "sfumato")):
        f.text(20, y, name, anchor="start", bold=True)
    f.code(150, 62, ("WATERMARK FOR ", INK), ("ts", GREEN), (" AS ts - ", INK),
           ("INTERVAL '10' SECOND", ORANGE))  # fmt: skip
    f.code(150, 88, ("TUMBLE(TABLE s, DESCRIPTOR(", INK), ("ts", GREEN), ("), ", INK),
           ("INTERVAL '1' MINUTE", BLUE), (")", INK))  # fmt: skip
    f.code(150, 132, ("WITH (", INK), ("TIMESTAMP='ts'", GREEN), (", ...)", INK))
    f.code(150, 158, ("WINDOW TUMBLING (", INK), ("SIZE 1 MINUTE", BLUE), (", ", INK),
           ("GRACE PERIOD 10 SECONDS", ORANGE), (")", INK))  # fmt: skip
    f.code(150, 215, ("FROM s [", INK), ("RANGE 1 MINUTE", BLUE), (" ", INK),
           ("WATTR ts", GREEN), (" ", INK), ("MAX_DELAY 10 SECONDS", ORANGE),
           ("]", INK))  # fmt: skip
    f.line(20, 105, 700, 105, colour=FAINT, width=0.8)
    f.line(20, 180, 700, 180, colour=FAINT, width=0.8)
    f.save("statements.svg")


def main() -> None:
    for draw in (
        reorder, punctuation, count_window, possible_worlds, extents, timetable, dependency,
        samples, early_answers, alternatives, wait, sources, sessions, delta, average, match,
        ranking, calibration, changes, cuts, policies, statements,
    ):  # fmt: skip
        draw()


if __name__ == "__main__":
    main()
