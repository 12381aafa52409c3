"""How long to wait for late tuples: figures 7 and 8 of the paper on disorder control.

Modules named `plain_...`, or as in the paper, implement the paper's own algorithms as it describes
them. The interface is the list EXPERIMENTS of each module, which `experiments.catalogue` collects.
"""
