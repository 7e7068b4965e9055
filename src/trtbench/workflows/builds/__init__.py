"""One network built several times: what differs, and comparisons that rest on many draws."""
