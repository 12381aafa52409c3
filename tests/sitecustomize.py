"""Make every Python process of tests import the installed PySpark, which is compiled.

Spark puts an archive of PySpark's sources first on the path of its Python processes. Each process
would compile them again: one second per stateful operator at every start of a query.
"""

import sys

sys.path[:] = [entry for entry in sys.path if not entry.endswith("pyspark.zip")]
