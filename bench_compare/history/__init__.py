"""An archive of documents, one or more a build: what changed when, how sure, why, what to run."""
