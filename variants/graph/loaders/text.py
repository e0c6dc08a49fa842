"""Text with an edge per line: triples and edge lists, and folders of triples."""

from pathlib import Path

import numpy as np
import pyarrow as pa

from hetune.variants.errors import GraphFileError
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.loaders.edge_table import graph_of_columns, part_of
from hetune.variants.graph.loaders.file_errors import check_file, reading
from hetune.variants.graph.loaders.npz import SPLITS
from hetune.variants.graph.loaders.openke import holds_openke, load_openke
from hetune.variants.graph.loaders.options import SplitFolderOptions, TextOptions
from hetune.variants.graph.loaders.text_columns import columns_of_text
from hetune.variants.graph.loaders.text_rows import text_of


def load_text(path: Path, options: TextOptions) -> HeteroGraph:
    """Read `head TAB relation TAB tail`, or two columns `source destination` (also compressed).

    Columns are separated by tabs, or by blanks where the first line has no tab. Blanks around a
    value are no part of it. Skipped are lines that start with "#" or "%" at the top, and empty ones
    anywhere. Relations that are integers are edge types as they are, others are names.

    A file whose first line is a lone count, or whose name ends in "2id.txt", holds OpenKE's ids
    unless the options say what the columns are.

    Raises:
        GraphFileError: The content contradicts what columns are taken for, a line has another
            number of columns, a value is missing (named by its row), or the file is empty or cut
            short.
    """
    text = text_of(path, options)
    if holds_openke(text, options):
        return load_openke(text, options)
    return graph_of_columns(columns_of_text(text, options), options)


def load_split_folder(path: Path, options: SplitFolderOptions) -> HeteroGraph:
    """Read a folder with `train.txt`, `valid.txt` and `test.txt` (or `.tsv`) of triples.

    Nodes and relations are numbered over all files, whichever part is asked for; integers are ids
    as they are.

    Raises:
        GraphFileError: There is no `train` file, or a file cannot be read.
    """
    split = options.split
    if split is not None and split not in SPLITS:
        raise GraphFileError(f"split is {split!r}: one of {', '.join(SPLITS)}")
    files = {
        name: file
        for name in SPLITS
        for ending in (".txt", ".tsv")
        if (file := path / f"{name}{ending}").is_file()
    }
    if "train" not in files or (split is not None and split not in files):
        raise GraphFileError(
            f"{path} has no {split or 'train'}.txt or .tsv: a folder has train, valid and test "
            "files of triples, or is an OGB raw folder; of any other give the file of edges "
            "(OpenKE's train2id.txt, say)"
        )
    tables = {}
    for name, file in files.items():
        check_file(file)
        with reading(file, "text with a triple per line"):
            columns = columns_of_text(text_of(file, options), options)
            if "etype" not in columns:
                raise GraphFileError(f"{file} has no relations: triples have three columns")
            tables[name] = pa.table(columns)
    table = pa.concat_tables(tables.values())
    graph = graph_of_columns({name: table[name] for name in table.column_names}, options)
    if split is None:
        return graph
    starts = dict(zip(tables, np.cumsum([0, *map(len, tables.values())]).tolist(), strict=False))
    return part_of(graph, slice(starts[split], starts[split] + len(tables[split])))
