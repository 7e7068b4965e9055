"""Where the time of an engine goes: tables of layers, groups, differences between two engines."""
