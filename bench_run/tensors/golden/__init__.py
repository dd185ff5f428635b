"""Golden tensors: inputs and outputs that were made once and are kept."""
