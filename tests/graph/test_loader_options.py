"""Values that no option of `load` takes are refused by its name, whatever the file."""

from pathlib import Path

import pytest

from hetune.variants.errors import GraphFileError
from hetune.variants.graph import load


@pytest.mark.parametrize(
    ("name", "option", "value", "takes"),
    [
        ("g.csv", "relabel", "no", "True or False"),
        ("g.csv", "relabel", 1, "True or False"),
        ("g.csv", "header", "no", "True or False"),
        ("g.csv", "node_names", "yes", "True or False"),
        ("g.csv", "node_names", None, "True or False"),
        ("g.csv", "num_nodes", "3", "an integer"),
        ("g.csv", "num_nodes", True, "an integer"),
        ("g.csv", "num_etypes", 2.0, "an integer"),
        ("g.csv", "comment", 3, "text"),
        ("g.csv", "delimiter", b",", "text"),
        ("g.csv", "bipartite", 3, "a sequence of names"),
        ("g.csv", "bipartite", (1, 2), "a sequence of names"),
        ("g.csv", "unknown", "ignore", "'error' or 'drop'"),
        ("g.csv", "format", 3, "an ending"),
        ("g.nt", "literals", "no", "True or False"),
        ("g.nt", "node_types", None, "text"),
        ("g.nt", "on_error", 1, "text"),
        ("g.npz", "split", 0, "text"),
    ],
)
def test_option_of_another_kind(tmp_path: Path, name: str, option: str, value: object, takes: str):
    path = tmp_path / name
    path.write_text("src,dst\n0,1\n")
    with pytest.raises(GraphFileError, match=rf"{name}: {option} is .*: give {takes}"):
        load(path, **{option: value})
