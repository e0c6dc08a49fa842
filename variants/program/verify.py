"""The rules of programs: see `infer` for those of single operators."""

from __future__ import annotations

import re
from collections.abc import Mapping, Set

from hetune.variants.errors import ProgramError
from hetune.variants.program.by_identity import by_identity
from hetune.variants.program.infer import check_shape, infer
from hetune.variants.program.nodes import ALL_EDGES, Count, Let, Param, Program, Space, Type
from hetune.variants.program.text import show_op, show_type

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED = ("program", "return", "groups")
ROLES = ("weight", "feature", "constant")
"""What a parameter may be."""


@by_identity
def verify(program: Program) -> None:
    """Check every rule of a program.

    Raises:
        ProgramError: Names the value, what is wrong with it and how to mend it.
    """
    _check_name(program.name, "the program's name")
    _check_groups(program)
    known = {ALL_EDGES, *(group.name for group in program.groups)}
    types: dict[str, Type] = {}
    for param in program.params:
        _check_new(param.name, types)
        _check_param(param)
        types[param.name] = param.type
    for let in program.lets:
        _check_new(let.name, types)
        try:
            _check_let(let, types, known)
        except ProgramError as error:
            raise ProgramError(f"value {let.name!r} = {show_op(let.op)}: {error}") from None
        types[let.name] = let.type
    if not program.results:
        raise ProgramError("the program returns nothing: return a value or param")
    for result in program.results:
        if result not in types:
            raise ProgramError(f"the result {result!r} is not defined: return a value or param")


def _check_name(name: str, what: str) -> None:
    if not _NAME.fullmatch(name) or name in _RESERVED:
        raise ProgramError(
            f"{what} is {name!r}: take letters, digits and '_', no digit first, and none of "
            f"{', '.join(_RESERVED)}"
        )


def _check_new(name: str, types: Mapping[str, Type]) -> None:
    _check_name(name, "a value's name")
    if name in types:
        raise ProgramError(f"value {name!r} is defined twice: give the second one another name")


def _check_let(let: Let, types: Mapping[str, Type], groups: Set[str]) -> None:
    found = infer(let.op, types)
    group = let.op.group if isinstance(let.op, Count) else found.group
    if group not in groups:
        raise ProgramError(f"the program has no group {group!r}: add it to its groups")
    if found != let.type:
        raise ProgramError(
            f"declared as {show_type(let.type)} but gives {show_type(found)}: "
            "correct the declared type"
        )


def _check_groups(program: Program) -> None:
    names = [group.name for group in program.groups]
    for i, group in enumerate(names):
        _check_name(group, "a group's name")
        if group in names[:i]:
            raise ProgramError(f"group {group!r} is listed twice: list it once")


def _check_param(param: Param) -> None:
    where = f"parameter {param.name!r}"
    if param.role not in ROLES:
        raise ProgramError(f"{where} has the role {param.role!r}: take one of {', '.join(ROLES)}")
    space = param.type.space
    if param.role == "weight" and not space.is_weight:
        raise ProgramError(
            f"{where} is a weight in {space}: give it a type space (ntype, etype, shared), or make "
            "it a feature"
        )
    if param.role != "weight" and space not in (Space.NODE, Space.SOURCE, Space.EDGE):
        raise ProgramError(
            f"{where} is a {param.role} in {space}: {param.role}s are given per node or edge"
        )
    if param.type.group != ALL_EDGES:
        raise ProgramError(
            f"{where} has the group {param.type.group!r}: parameters have rows for all; "
            "take the group inside the program"
        )
    check_shape(param.type.shape, where)
