"""Charts, drawn with Altair: `pip install 'sfumato[charts]'`.

`chart`, public as `sf.chart`, draws a distribution, window results over time, an uncertain
window, a timetable or a running query. `rank_chart` shows each tuple's probability of each rank.
`save` writes a chart as an offline page or as an image.
"""

from sfumato.charts.rankings import rank_chart, timetable_chart
from sfumato.charts.results import chart, distribution_chart, results_chart
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
