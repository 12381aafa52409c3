"""Charts, drawn with Altair: `pip install 'sfumato[charts]'`.

`chart`, which is `sf.chart`, draws whatever it is given: a distribution, the results of windows
over time, an uncertain window, a timetable, a running query. `rank_chart` shows how probable every
rank is for every tuple. `save` writes a chart as a page that needs no network, or as an image. All
have a light and a dark theme.
"""

from sfumato.charts.chart import chart
from sfumato.charts.distribution import distribution_chart
from sfumato.charts.rankings import rank_chart, timetable_chart
from sfumato.charts.results import results_chart
from sfumato.charts.streams import membership_chart, progress_chart
from sfumato.charts.style import save

__all__ = [
    "chart",
    "distribution_chart",
    "membership_chart",
    "progress_chart",
    "rank_chart",
    "results_chart",
    "save",
    "timetable_chart",
]
