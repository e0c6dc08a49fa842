"""Functions of one vertex and its neighbours, as programs of all vertices."""
