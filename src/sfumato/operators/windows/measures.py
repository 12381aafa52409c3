"""What aggregates measure, as kernels take it."""

import numpy as np

from sfumato.kernels.windows.measures import Measures
from sfumato.operators.laws.moment_channels import Channels


def measures_of(channels: Channels) -> Measures:
    """The `Measures` of some channels."""
    return Measures(
        what=channels.what,
        channel=channels.channel,
        extreme=np.array(channels.extreme, np.int64),
        sign=np.array([sign for sign, _ in channels.extremes], np.float64),
        attribute=np.array([attribute for _, attribute in channels.extremes], np.int64),
    )
