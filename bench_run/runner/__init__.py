"""The parent process of a run: options into a document, round by round."""
