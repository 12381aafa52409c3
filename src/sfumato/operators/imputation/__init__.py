"""Missing attributes as distributions, and the dependencies from which they are inferred.

Public: Dependency, Imputer, EarlierValues, discover_dependencies.
"""
