"""Names that C++ or the prelude has for itself are a layer's to give."""

import pytest

from hetune.variants.backends.cpp.emit import emit
from hetune.variants.kernel.nodes import Schedule
from hetune.variants.kernel.parse import parse

WORDS = """alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t
    char16_t char32_t class compl concept const consteval constexpr constinit const_cast continue
    co_await co_return co_yield decltype default delete do double dynamic_cast else enum explicit
    export extern false float for friend goto if inline int long mutable namespace new noexcept not
    not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires
    return short signed sizeof static static_assert static_cast struct switch template this
    thread_local throw true try typedef typeid typename union unsigned using virtual void volatile
    wchar_t while xor xor_eq INLINE INLINE_LAMBDA NOINLINE EXPORT NULL Context int32_t int64_t
    load store relu exp gather Lanes V""".split()  # noqa: SIM905


def test_words_of_the_language_are_names(check):
    lines = ["launch", *(f"  buffer {word}: node[]" for word in WORDS), "  buffer y: node[]"]
    lines += ["  traverse node", "    init total: [] sum"]
    for word in WORDS:
        lines += [f"    {word}: [] = read {word}", f"    update total {word}"]
    check(parse("\n".join([*lines, "    store y = total"])))


IN_PIECES = """
launch
  buffer a: node[{outer}]
  buffer b: node[{inner}]
  buffer y: node[{width}]
  traverse node
    {name}: [{outer}] = read a
    init total: [{width}] sum
    for edge
      {other}: [{inner}] = read b[src]
      product: [{width}] = mul({name}, {other})
      update total product
    store y = total
"""
"""Rows of three numbers have the pieces 0 and 2."""

HEADS = """
launch
  buffer a: node[]
  buffer b: node[3,4]
  buffer y: node[3]
  traverse node
    {name}: [] = read a
    init total: [3] sum
    for edge
      row: [3,4] = read b[src]
      x: [3] = dot(row, row)
      product: [3] = mul({name}, x)
      update total product
    store y = total
"""


@pytest.mark.parametrize("piece", ["x_0", "x_2"])
def test_pieces_of_rows_have_names_of_their_own(piece, check):
    check(parse(IN_PIECES.format(outer="", name=piece, inner=3, other="x", width=3)))
    check(parse(IN_PIECES.format(outer=3, name="x", inner="", other=piece, width=3)))


@pytest.mark.parametrize("name", ["x_0", "x_h0", "x_h2"])
def test_inner_products_have_names_of_their_own(name, check):
    check(parse(HEADS.format(name=name)))


def test_the_last_edge_has_a_name_of_its_own():
    text = IN_PIECES.format(outer=16, name="last_edge_all", inner=16, other="x", width=16)
    code = emit(parse(text), Schedule()).source.text
    assert "minimum<int64_t>(e + 16, last_edge_all_v2)" in code
