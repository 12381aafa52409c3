"""What a window aggregate is asked for, as users write it: see `sfumato.tables.windows.wanted`."""

from sfumato.tables.windows.wanted import Wanted as Wanted
from sfumato.tables.windows.wanted import wanted as wanted
