"""The tree of errors that is drawn in the docstring is the tree of classes."""

import importlib
import inspect
import re

import hetune
from hetune.variants import errors

CLASSES = {
    name: kind
    for name, kind in inspect.getmembers(errors, inspect.isclass)
    if kind.__module__ == errors.__name__
}


def drawn() -> dict[str, str | None]:
    """Each error of the drawing with the one it hangs from."""
    parents: dict[str, str | None] = {}
    branch: list[tuple[int, str]] = []
    for line in (errors.__doc__ or "").splitlines():
        if match := re.match(r"([│ ]*(?:[├└]── )?)([A-Z]\w+Error)\b", line):
            column, name = len(match[1]), match[2]
            branch = [(c, n) for c, n in branch if c < column]
            parents[name] = branch[-1][1] if branch else None
            branch.append((column, name))
    return parents


def test_the_drawing_is_the_tree():
    tree = {
        name: next(base.__name__ for base in kind.__bases__ if issubclass(base, Exception))
        for name, kind in CLASSES.items()
    }
    assert {name: parent or "Exception" for name, parent in drawn().items()} == tree


def test_every_error_says_in_one_line_what_it_means():
    for name, kind in CLASSES.items():
        assert kind.__doc__, name
        assert len(kind.__doc__.splitlines()) == 1, name


def test_users_import_all_of_it_from_a_module_of_its_own():
    public = importlib.import_module("hetune.errors")
    assert hetune.errors is public
    assert public.__doc__ == errors.__doc__
    assert {name for name in vars(public) if not name.startswith("_")} == set(CLASSES)
