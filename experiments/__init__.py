"""The papers' figures and tables, measured again: claim, numbers, chart and verdict.

A package per paper: `uncertain_windows` (Dallachiesa et al. 2015), `uncertain_joins` (Lian and Chen
2009), `disorder` (Kim et al. 2006), `multi_top_k` (Chen et al. 2013) and `incomplete_joins` (Ren et
al. 2019). In each, modules called `plain_...` or by the paper's
names are its own algorithms, as it describes them. What all share is next to them: what an
experiment is (`experiment`), their list (`catalogue`), data (`datasets`), repetitions
and times (`repeats`, `continuation`), charts (`drawing`) and results on disk (`record`).

`python -m experiments`, from the root of the repository, lists them and runs them; `make reproduce`
does so with the environment of `make test`. They are not part of the package `sfumato`, which never
imports them, and they need no Spark: the figures are about the algorithms.
"""
