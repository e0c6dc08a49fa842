"""DGL's layers and functions of messages, run on symbols: a graph that is called as a DGLGraph is."""
