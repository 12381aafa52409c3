"""The data that a chart draws."""


def data_of(chart):
    """Return every list of values in a chart's specification."""
    found = []

    def walk(part):
        if isinstance(part, dict):
            if isinstance(part.get("data"), dict) and "values" in part["data"]:
                found.append(part["data"]["values"])
            for value in part.values():
                walk(value)
        elif isinstance(part, list):
            for value in part:
                walk(value)

    walk(chart.to_dict())
    return found
