"""DGL's layers, run on symbols: on a graph that they call as they do a `DGLGraph`."""
