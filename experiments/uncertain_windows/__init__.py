"""Count windows over tuples that may not exist, and joins over them: figures 4 to 15.

Modules named `plain_...`, or as in the paper, implement the paper's own algorithms as it describes
them. The interface is the list EXPERIMENTS of each module, which `experiments.catalogue` collects.
"""
