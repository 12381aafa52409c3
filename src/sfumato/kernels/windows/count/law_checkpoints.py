"""Planes of every depth of a window's older part, kept only at a stride."""

import numpy as np

from sfumato.kernels.compile import lean


@lean
def stride_of(tuples):
    """Depths are kept at every 2**b-th, with 2**b between 8 and about sqrt(tuples): b."""
    shift = np.int64(3)
    while tuples >> (2 * shift + 2) > 0:
        shift += 1
    return shift


@lean
def keep(planes, begin, size, saved, place):
    """Cells begin ... begin + size - 1 of the planes, packed from `place` of `saved` if there is
    room; their end."""
    end = place + planes.shape[0] * size
    if end <= saved.size:
        for plane in range(planes.shape[0]):
            source, target = planes[plane, begin:], saved[place + plane * size :]
            for x in range(size):
                target[x] = source[x]
    return end


@lean
def bring_back(saved, place, size, planes, begin):
    """What `keep` packed, written to cells begin ... begin + size - 1 of the planes."""
    for plane in range(planes.shape[0]):
        target, source = planes[plane, begin:], saved[place + plane * size :]
        for x in range(size):
            target[x] = source[x]
