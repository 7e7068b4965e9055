"""A plug-in whose import fails."""

raise RuntimeError("this plug-in was made for another library")
