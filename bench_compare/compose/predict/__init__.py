"""From rows to time, energy and error of the whole, with intervals."""
