"""From documents and a pipeline file to rows and layers."""
