"""What comes in and goes out: documents, arrays and tensors, read within limits."""
