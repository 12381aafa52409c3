"""Operations around queries, one line each: see `ops.py`."""

from sfumato.api.declared import declared as declared
from sfumato.api.rows import checked as checked
from sfumato.api.rows import newest_revisions as newest_revisions
from sfumato.api.rows import rejected as rejected
from sfumato.api.rows import upsert_revisions as upsert_revisions
from sfumato.live.watch import watch as watch
from sfumato.memory.run import counters as counters
from sfumato.spark.replay import ReplaySource as ReplaySource
from sfumato.spark.run_to_end import run_to_end as run_to_end
from sfumato.spark.settings import settings as settings
from sfumato.warmup import warm_up as warm_up
