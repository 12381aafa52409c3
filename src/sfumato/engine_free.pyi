"""The operators without an engine, one line each: see `engine_free.py`."""

from sfumato.operators.disorder.punctuator import Punctuator as Punctuator
from sfumato.operators.distributions.poisson_binomial import PoissonBinomial as PoissonBinomial
from sfumato.operators.imputation.dependency import Dependency as Dependency
from sfumato.operators.imputation.earlier_values import EarlierValues as EarlierValues
from sfumato.operators.imputation.imputer import Imputer as Imputer
from sfumato.operators.ranking.timetable import Timetable as Timetable
from sfumato.operators.ranking.timetable import timetable as timetable
from sfumato.operators.ranking.top_k import expected_ranks as expected_ranks
from sfumato.operators.ranking.top_k import pk_topk as pk_topk
from sfumato.operators.ranking.top_k import prf as prf
from sfumato.operators.ranking.top_k import prfe as prfe
from sfumato.operators.ranking.top_k import pt_k as pt_k
from sfumato.operators.ranking.top_k import rank_probabilities as rank_probabilities
from sfumato.operators.ranking.top_k import top_k_probabilities as top_k_probabilities
from sfumato.operators.ranking.top_k import top_k_streams as top_k_streams
from sfumato.operators.ranking.top_k import u_kranks as u_kranks
from sfumato.operators.ranking.top_k import u_topk as u_topk
from sfumato.operators.windows.uncertain_window import UncertainWindow as UncertainWindow
