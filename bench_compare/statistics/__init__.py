"""Arrays in, numbers out: nothing here knows a document, a case or a flag."""
