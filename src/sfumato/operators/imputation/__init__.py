"""Missing attributes as distributions, and the dependencies that infer them.

Public: Dependency, Imputer, EarlierValues, discover_dependencies.
"""
