"""Joins of two streams of objects given by samples: figures 7 to 11 of USJ.

Modules named `plain_...`, or as in the paper, implement the paper's own algorithms as it describes
them. The interface is the list EXPERIMENTS of each module, which `experiments.catalogue` collects.
"""
