"""Arrays of any kind of numbers."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

AnyArray = NDArray[Any]
"""Of numbers whose type only the data tells: numpy's own types can say no more of them."""
