"""Many top-k queries over one uncertain window: figures 7 to 17 and table 9 of the paper.

Modules named `plain_...`, or as in the paper, implement the paper's own algorithms as it describes
them. The interface is the list EXPERIMENTS of each module, which `experiments.catalogue` collects.
"""
