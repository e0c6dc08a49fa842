"""Score functions of one triple of a knowledge graph, as programs of a batch of triples."""
