"""Arrays of any kind of numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

AnyArray = NDArray[Any]
"""Of numbers whose type only the data tells: numpy's own types can say no more of them."""

Array = NDArray[np.generic]
Arrays = Mapping[str, Array]
"""Arrays by the names of the inputs or outputs they are for."""
Floats = NDArray[np.float64]
