"""Models as pipelines: what a network does, read from ONNX or from torch.export, as graphs."""
