"""Joins of streams whose objects have missing attributes: the experiments of JoiniDS.

Modules named `plain_...`, or as in the paper, implement the paper's own algorithms as it describes
them. The interface is the list EXPERIMENTS of each module, which `experiments.catalogue` collects.
"""
