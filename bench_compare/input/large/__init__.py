"""Large documents: read in parts by several processes, their rounds as columns.

Only what is surely valid is read this way; for all else the ordinary reader has the word.
"""
