"""Joins of two streams of objects known by samples: figures 7 to 11 of USJ.

Modules named `plain_...`, or as the paper names them, are its own algorithms as it describes them.
Open: the list EXPERIMENTS of each module, which `experiments.catalogue` collects.
"""
