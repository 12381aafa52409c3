"""Pictures, made with Altair: `pip install 'sfumato[charts]'`.

`chart`, which is `sf.chart`, draws whatever it is given: a distribution, the results of windows
over time, who is in an uncertain window, a timetable, a running query. `rank_chart` shows how
probable every rank is for every tuple; `save` writes any of them as a page that needs nothing else,
or as an image. All have a light and a dark theme.
"""

from sfumato.charts.chart import chart
from sfumato.charts.distribution import distribution_chart, results_chart
from sfumato.charts.membership import membership_chart
from sfumato.charts.progress import progress_chart
from sfumato.charts.ranks import rank_chart
from sfumato.charts.save import save
from sfumato.charts.timetable import timetable_chart

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
