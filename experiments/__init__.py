"""The papers' figures and tables, measured again: claim, numbers, chart and verdict.

A package for each paper's question: `uncertain_windows` (A), `uncertain_joins` (B), `disorder` (C),
`multi_top_k` (D) and `incomplete_joins` (E). In each, modules called `plain_...` or by the paper's
names are its own algorithms, as it describes them. What all share is next to them: what an
experiment is (`experiment`), their list (`catalogue`), data (`datasets`), repetitions
and times (`repeats`, `continuation`), charts (`drawing`) and results on disk (`record`).

`python -m experiments`, from the root of the repository, lists them and runs them; `make reproduce`
does so with the environment of `make test`. They are no part of the package `sfumato`, which never
imports them, and need no Spark: the figures are about the algorithms.
"""
