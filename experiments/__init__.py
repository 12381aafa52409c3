"""The papers' figures and tables, measured again: claim, numbers, chart and verdict.

There is one package per paper: `uncertain_windows` (Dallachiesa et al. 2015), `uncertain_joins`
(Lian and Chen 2009), `disorder` (Kim et al. 2006), `multi_top_k` (Chen et al. 2013) and
`incomplete_joins` (Ren et al. 2019). In each, modules called `plain_...` or by the paper's names
implement its own algorithms, as the paper describes them. Shared modules are next to them: the
class of experiments (`experiment`), their list (`catalogue`), data (`datasets`), repetitions and
times (`repeats`, `continuation`), charts (`drawing`) and results on disk (`record`).

`python -m experiments`, from the root of the repository, lists or runs them; `make reproduce` runs
them with the environment of `make test`. They are not part of the package `sfumato`, which never
imports them, and they need no Spark: the figures are about the algorithms.
"""
