"""Joins of streams whose objects have missing attributes: the experiments of JoiniDS.

Modules named `plain_...`, or as the paper names them, are its own algorithms as it describes them.
Open: the list EXPERIMENTS of each module, which `experiments.catalogue` collects.
"""
