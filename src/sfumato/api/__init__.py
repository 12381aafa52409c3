"""The public functions, once: for frames of Spark, and for pandas, Polars and Arrow tables.

Each says what it does, checks its arguments and asks for an operator; `spark` and `memory` run it.
PySpark is imported where a frame of Spark is given. Open to `sql` and `cli`; users import the names
from the package.
"""
