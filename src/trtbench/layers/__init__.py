"""Where the time of an engine goes: layers joined, grouped, aligned with another's, explained."""
