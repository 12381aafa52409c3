"""The constructs of the language. A new one is its file and a line here."""

from sfumato.sql.constructs.aggregation import Aggregation
from sfumato.sql.constructs.count_windows import DeltaWindow, RowsWindow
from sfumato.sql.constructs.earlier_values import EARLIER
from sfumato.sql.constructs.extent_join import ExtentJoining
from sfumato.sql.constructs.imputation import Imputing
from sfumato.sql.constructs.ranking import Ranking
from sfumato.sql.constructs.reorder import Reorder
from sfumato.sql.constructs.similarity_join import SimilarityJoining
from sfumato.sql.plan.bracket import Brackets
from sfumato.sql.plan.construct import Registry

CONSTRUCTS = Registry(
    brackets=Brackets([Reorder(), RowsWindow(), DeltaWindow(), EARLIER]),
    clauses=[Imputing()],
    joins=[ExtentJoining(), SimilarityJoining()],
    answers=[Ranking, Aggregation],
)
