"""Any message-passing layer of PyTorch Geometric as a program: its own forward, run on symbols."""
