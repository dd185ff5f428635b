"""The ruler: the timing loop, what has to be waited for, and what a device can do at most."""
