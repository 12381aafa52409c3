"""Pictures, made with Altair: `pip install 'sfumato[charts]'`.

`timetable_chart` shows which queries are answered when, and what that costs; `rank_chart` how
probable every rank is for every tuple; `save` writes either as a page that needs nothing else, or
as an image.
"""

from sfumato.charts.ranks import rank_chart
from sfumato.charts.save import save
from sfumato.charts.timetable import timetable_chart

__all__ = ["rank_chart", "save", "timetable_chart"]
