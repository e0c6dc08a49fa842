"""`hetune.kge`: score functions of knowledge-graph embeddings, their gradients and their traps."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import torch
from torch.linalg import vector_norm
from torch.nn import functional

import hetune
from hetune.costmodel.selection import kge as selection
from hetune.errors import InputError
from hetune.variants.frontend import score_call
from hetune.variants.frontend.adapter import Adapter
from hetune.variants.frontend.kge.layer import RowPlace, ScoreArgument, ScoreLayer
from hetune.variants.frontend.kge.trace import trace_score
from hetune.variants.graph.edge_batch import BatchIndex, EdgeBatch, FreeBatches
from hetune.variants.program.nodes import Linear
from hetune.variants.runtime.compile_layer import compile_layer
from hetune.variants.runtime.compiled import CompiledLayer
from hetune.variants.runtime.fallback import FallbackWarning

ENTITIES, RELATIONS, TRIPLES, WIDTH = 40, 5, 90, 8
RANDOM = torch.Generator().manual_seed(0)
HEADS, TAILS = torch.randint(ENTITIES - 3, (2, TRIPLES), generator=RANDOM)
RELS = torch.randint(RELATIONS - 1, (TRIPLES,), generator=RANDOM)
BATCH = HEADS, RELS, TAILS


def table(*shape):
    return torch.randn(*shape, generator=RANDOM).requires_grad_()


E, F, BIAS = table(ENTITIES, WIDTH), table(ENTITIES, WIDTH), table(ENTITIES)
R, S, T = (table(RELATIONS, WIDTH) for _ in range(3))
M, N = (table(RELATIONS, WIDTH, WIDTH) for _ in range(2))
C = table(WIDTH)


def norm(x, p):
    return (x.abs() ** p).sum(1) ** (1 / p)


def dot(x, y):
    return torch.einsum("bi,bi->b", x, y)


def by(x, m):
    return torch.einsum("bi,bij->bj", x, m)


def on_plane(x, w):
    return x - dot(x, w)[:, None] * w


def complex_product(h, r, t):
    h, r, t = (torch.complex(*x) for x in (h, r, t))
    return (h * r * t.conj()).real.sum(1)


def rotated(h, r, t):
    h, t = (torch.complex(*x) for x in (h, t))
    return -(h * torch.polar(torch.ones_like(r), r) - t).abs().square().sum(1).sqrt()


ORACLES = {  # of rows of a batch
    "um": lambda h, r, t: -(norm(h - t, 2) ** 2),
    "transe": lambda h, r, t: -norm(h + r - t, 1),
    "transh": lambda h, r, t: -norm(on_plane(h, r[0]) + r[1] - on_plane(t, r[0]), 2),
    "transr": lambda h, r, t: -norm(by(h, r[1]) + r[0] - by(t, r[1]), 2),
    "transd": lambda h, r, t: (
        -norm(h[0] + dot(*h)[:, None] * r[1] + r[0] - t[0] - dot(*t)[:, None] * r[1], 2)
    ),
    "transf": lambda h, r, t: 2 * dot(h, t) + dot(r, t) - dot(h, r),
    "se": lambda h, r, t: -norm(by(h, r[0]) - by(t, r[1]), 1),
    "rescal": lambda h, r, t: torch.einsum("bi,bij,bj->b", h, r, t),
    "distmult": lambda h, r, t: torch.einsum("bi,bi,bi->b", h, r, t),
    "cp": lambda h, r, t: torch.einsum("bi,bi,bi->b", h, r, t),
    "simple": lambda h, r, t: (dot(h[0] * r[0], t[1]) + dot(t[0] * r[1], h[1])) / 2,
    "complex": complex_product,
    "rotate": rotated,
    "pairre": lambda h, r, t: -norm(h * r[0] - t * r[1], 1),
    "triplere": lambda h, r, t: -norm(h * (r[0] + 1) - t * (r[2] + 1) + r[1], 1),
    "lineare": lambda h, r, t: -norm(h * r[0] - t * r[2] + r[1], 1),
    "mure": lambda h, r, t: h[1] + t[1] - norm(h[0] * r[1] + r[0] - t[0], 2) ** 2,
    "distma": lambda h, r, t: dot(h, r) + dot(r, t) + dot(h, t),
    "crosse": lambda h, r, t, c: dot(torch.tanh(r[1] * h * (1 + r[0]) + c), t),
}
TABLES = {name: {"entity": E, "r": R} for name in ORACLES} | {
    "um": {"entity": E, "r": None},
    "transh": {"entity": E, "r": (R, S)},
    "transr": {"entity": E, "r": (R, M)},
    "transd": {"entity": (E, F), "r": (R, S)},
    "se": {"entity": E, "r": (M, N)},
    "rescal": {"entity": E, "r": M},
    "cp": {"entity": E, "tail": F, "r": R},
    "simple": {"entity": (E, F), "r": (R, S)},
    "complex": {"entity": (E, F), "r": (R, S)},
    "rotate": {"entity": (E, F), "r": R},
    "pairre": {"entity": E, "r": (R, S)},
    "triplere": {"entity": E, "r": (R, S, T)},
    "lineare": {"entity": E, "r": (R, S, T)},
    "mure": {"entity": (E, BIAS), "r": (R, S)},
    "crosse": {"entity": E, "r": (R, S), "bias": C},
}


def rows(tables, ids):
    if isinstance(tables, tuple):
        return tuple(rows(each, ids) for each in tables)
    return tables.double()[ids]


def expected_scores(name, given, batch=BATCH):
    heads, rels, tails = batch
    relation = None if given["r"] is None else rows(given["r"], rels)
    shared = [given["bias"].double()] if "bias" in given else []
    tail = given.get("tail", given["entity"])
    return ORACLES[name](rows(given["entity"], heads), relation, rows(tail, tails), *shared)


def check(found, expected, given):
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)
    given = [each if isinstance(each, tuple) else (each,) for each in given.values()]
    by = [table for tables in given for table in tables if isinstance(table, torch.Tensor)]
    weights = torch.randn(found.shape, generator=torch.Generator().manual_seed(1))
    gradients = torch.autograd.grad(found, by, weights)
    exact = torch.autograd.grad(expected, by, weights.double())
    for one, other in zip(gradients, exact, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ORACLES)
def test_programs_and_their_gradients_are_those_of_float64(name, monkeypatch):
    """Interpreted: other tests compile."""
    compiled = selection.compile
    monkeypatch.setattr(
        selection, "compile", lambda layer, **options: compiled(layer, backend="torch")
    )
    made = hetune.kge.scores[name]
    score = hetune.kge.score(made.__wrapped__, shared=made.shared)
    check(score(*BATCH, **TABLES[name]), expected_scores(name, TABLES[name]), TABLES[name])


@pytest.mark.parametrize("name", ["transe", "rescal", "transr", "crosse"])
def test_compiled_scores_and_gradients_are_those_of_float64(name):
    found = hetune.kge.scores[name](*BATCH, **TABLES[name])
    check(found, expected_scores(name, TABLES[name]), TABLES[name])


@pytest.mark.parametrize("side", ["head", "tail"])
@pytest.mark.parametrize("chunks", [TRIPLES, 10])
def test_negatives_take_the_place_of_heads_or_tails(side, chunks):
    negatives = torch.randint(ENTITIES, (chunks, 4), generator=RANDOM)
    each = negatives.repeat_interleave(TRIPLES // chunks, 0)
    given = TABLES["transr"]
    found = hetune.kge.scores["transr"].corrupt(*BATCH, negatives, side=side, **given)
    columns = [
        expected_scores(
            "transr",
            given,
            (each[:, k], RELS, TAILS) if side == "head" else (HEADS, RELS, each[:, k]),
        )
        for k in range(4)
    ]
    check(found, torch.stack(columns, 1), given)


@pytest.mark.parametrize("relations", [1, 3000])
def test_there_may_be_one_relation_or_thousands(relations):
    """More than there are triples, whose products are made relation by relation."""
    random = torch.Generator().manual_seed(3)
    shapes = (relations, WIDTH), (relations, WIDTH, WIDTH)
    r, matrix = (torch.randn(shape, generator=random).requires_grad_() for shape in shapes)
    rels, given = torch.randint(relations, (TRIPLES,), generator=random), {"entity": E}
    for batch in ((HEADS, rels, TAILS), (HEADS[:1].expand(TRIPLES), rels * 0, TAILS * 0 + 1)):
        found = hetune.kge.scores["transr"](*batch, r=(r, matrix), **given)
        tables = {**given, "r": (r, matrix)}
        check(found, expected_scores("transr", tables, batch), tables)


def test_all_triples_may_be_one_and_at_distance_0():
    """Whose gradient is 0, as that of torch's norms."""
    same = (torch.full((6,), 3),) * 3
    entity, relation = table(ENTITIES, WIDTH), torch.zeros(RELATIONS, WIDTH, requires_grad=True)
    score = hetune.kge.scores["transe"]
    found = score(*same, entity=entity, r=relation, p=2)
    gradients = torch.autograd.grad(found.sum(), [entity, relation])
    assert not any(each.abs().max().item() for each in (found.detach(), *gradients))
    nothing = score(*(ids[:0] for ids in same), entity=entity, r=relation)
    assert nothing.shape == (0,)
    nothing.sum().backward()
    assert not entity.grad.any()


def distance(h, r, t):
    return -(h + r - t).abs().sum()


def halves(h, r, t):
    """Real and imaginary parts one after the other."""
    (a, b), (c, d), (e, f) = (x.chunk(2) for x in (h, r, t))
    return ((a * c - b * d) * e + (a * d + b * c) * f).sum()


def pairs(h, r, t):
    """Real parts next to imaginary ones."""
    (a, b), (c, d), (e, f) = (x.view(-1, 2).unbind(1) for x in (h, r, t))
    return -(torch.cat([a * c - b * d - e, a * d + b * c - f])).norm()


def uneven(h, r, t):
    """Of no one width: the last two, which meet the first; and one number."""
    return (h[-2:] * t[:2]).sum() * r[1] + (h[1:] * t[:-1]).sum()


@pytest.mark.parametrize(
    ("function", "width", "is_compiled"),
    [
        *((halves, 2 * width, False) for width in (1, 7)),
        *((pairs, 2 * width, True) for width in (1, 31)),
        (uneven, 6, True),
    ],
)
def test_parts_of_entities_rows(function, width, is_compiled, monkeypatch):
    if not is_compiled:
        compiled = selection.compile
        monkeypatch.setattr(selection, "compile", lambda one, **_: compiled(one, backend="torch"))
    given = {"entity": table(ENTITIES, width), "r": table(RELATIONS, width)}
    of = [given["entity"], given["r"], given["entity"]]
    each = [rows(tables, ids) for tables, ids in zip(of, BATCH, strict=True)]
    check(hetune.kge.score(function)(*BATCH, **given), torch.vmap(function)(*each), given)


def test_what_is_no_program_runs_in_torch():
    with pytest.warns(FallbackWarning, match="the function _fft_r2c has no meaning in a program"):
        found = hetune.kge.scores["hole"](*BATCH, entity=E, r=R)
    h, r, t = (x.double() for x in (E[HEADS], R[RELS], E[TAILS]))
    shifted = torch.stack([t.roll(-k, 1) for k in range(WIDTH)], 2)
    check(found, torch.einsum("bi,bk,bik->b", h, r, shifted), TABLES["transe"])


def test_functions_may_be_of_ones_own_and_have_options():
    @hetune.kge.score
    def normalized(h, r, t, margin):
        h, t = functional.normalize(h, dim=-1), functional.normalize(t, p=1.0, dim=-1)
        return margin - vector_norm(h + r - t, 2).clamp(min=0.1)

    for margin in (1.0, 2.0):
        h, r, t = (x.double() for x in (E[HEADS], R[RELS], E[TAILS]))
        distance = norm(h / norm(h, 2)[:, None] + r - t / norm(t, 1)[:, None], 2)
        found = normalized(*BATCH, entity=E, r=R, margin=margin)
        check(found, margin - distance, TABLES["transe"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rels": torch.tensor([0, 5])}, r"rels\[1\] is 5: there are 5 relations"),
        ({"heads": torch.tensor([-1, 0])}, r"heads\[0\] is -1: there are 40 entities"),
        ({"tails": torch.tensor([1.0, 0.0])}, "tails are no integers"),
        ({"tails": torch.tensor([1])}, "2 heads, 2 rels and 1 tails"),
        ({"r": ...}, "r is missing"),
        ({"r": (R, R[:2])}, "as many relations each, not r_0 5, r_1 2"),
        ({"q": R}, "no argument 'q'"),
        ({"r": torch.nn.Embedding(5, 8)}, "r is no tensor or tuple of tensors: Embedding"),
        ({"entity": [E, E]}, "entity is no tensor or tuple of tensors: list"),
        ({"entity": None}, "entity is no tensor or tuple of tensors: NoneType"),
        ({"entity": ()}, "entity is no tensor or tuple of tensors: tuple"),
        ({"entity": E.detach().numpy()}, "entity is no tensor or tuple of tensors: ndarray"),
        ({"r": 0.5}, "r is no tensor or tuple of tensors: float"),
    ],
)
def test_what_is_no_triple_or_no_table_is_refused(change, message):
    given = {"heads": HEADS[:2], "rels": RELS[:2], "tails": TAILS[:2], "entity": E, "r": R}
    given = {name: value for name, value in (given | change).items() if value is not ...}
    with pytest.raises(InputError, match=message):
        hetune.kge.scores["distmult"](**given)


@pytest.mark.parametrize(
    ("function", "shared", "message"),
    [
        (lambda h, rels, t: h @ t, (), "rels is an argument of calls"),
        (lambda h, r, t, bias: h @ t, ["bais"], "no argument 'bais' to be shared"),
    ],
)
def test_what_is_no_score_function_is_refused(function, shared, message):
    with pytest.raises(InputError, match=message):
        hetune.kge.score(function, shared=shared)


def test_tables_have_names_of_their_own():
    score = hetune.kge.score(lambda h, r, t, r_0: (h * r[0] * t).sum() + r_0.sum())
    with pytest.raises(InputError, match="two tables are named r_0"):
        score(*BATCH, entity=E, r=(R, S), r_0=T)


def test_score_functions_are_copied_and_pickled_as_functions_are():
    assert pickle.loads(pickle.dumps(dot_product)) is dot_product
    layer = torch.nn.Module()
    layer.score = hetune.kge.scores["rotate"]
    assert copy.deepcopy(layer).score is layer.score


def scaled_now(x):
    return x * OPTIONS["scale"]


OPTIONS = {"scale": 2.0}
CONFIG = SimpleNamespace(shift=[0.0])


@hetune.kge.score
def dot_product(h, r, t):
    return scaled_now((h * r * t).sum()) + CONFIG.shift[0]


def test_numbers_that_a_function_reads_may_change(monkeypatch):
    """Those in containers, in attributes and of functions that it calls."""

    def check_now():
        want = OPTIONS["scale"] * dot(E[HEADS] * R[RELS], E[TAILS]) + CONFIG.shift[0]
        torch.testing.assert_close(dot_product(*BATCH, entity=E, r=R), want)
        found = dot_product.all(HEADS, RELS, entity=E, r=R)
        torch.testing.assert_close(found.gather(1, TAILS[:, None])[:, 0], want)

    check_now()
    monkeypatch.setitem(OPTIONS, "scale", 3.0)
    check_now()
    monkeypatch.setattr(CONFIG, "shift", [1.0])
    check_now()


def test_tensors_that_a_function_reads_are_trained_and_gradients_left_out():
    """By torch: the program would know neither."""
    scale = torch.tensor(2.0, requires_grad=True)

    @hetune.kge.score
    def scaled(h, r, t):
        return (h * r * t).sum() * scale

    with pytest.warns(FallbackWarning, match="^scaled runs uncompiled.* a tensor from around it"):
        found = scaled(*BATCH, entity=E, r=R)
    given = torch.autograd.grad(found.sum(), scale, retain_graph=True)[0]
    torch.testing.assert_close(given, dot(E[HEADS] * R[RELS], E[TAILS]).sum())
    with torch.no_grad():
        scale.fill_(3.0)
    torch.testing.assert_close(scaled(*BATCH, entity=E, r=R), found * 1.5)
    with pytest.raises(InputError, match=r"heads\[0\] is -1: there are 40 entities"):
        scaled(HEADS * 0 - 1, RELS, TAILS, entity=E, r=R)

    @hetune.kge.score
    def by_length(h, r, t):
        with torch.no_grad():
            length = vector_norm(h)
        return (h * r * t).sum() / length

    with pytest.warns(FallbackWarning, match="it computes without gradients"):
        found = by_length(*BATCH, entity=E, r=R)
    want = dot(E[HEADS] * R[RELS], E[TAILS]) / norm(E[HEADS], 2).detach()
    given, wanted = (torch.autograd.grad(x.sum(), E)[0] for x in (found, want))
    torch.testing.assert_close(given, wanted)


def test_a_score_of_relations_alone_is_the_same_for_all_entities():
    score = hetune.kge.score(lambda h, r, t: r.sum())
    with pytest.warns(FallbackWarning, match="depends on no entity"):
        found = score(*BATCH, entity=E, r=R)
    want = found[:, None].expand(-1, ENTITIES)
    torch.testing.assert_close(score.all(HEADS, RELS, entity=E, r=R), want)


def test_rows_of_one_number_and_no_negatives():
    score = hetune.kge.score(lambda h, r, t: h * r * t)
    assert score(*(ids[:0] for ids in BATCH), entity=BIAS, r=R[:, 0]).shape == (0,)
    none = torch.zeros(TRIPLES, 0, dtype=torch.long)
    assert dot_product.corrupt(*BATCH, none, entity=E, r=R).shape == (TRIPLES, 0)
    with pytest.raises(InputError, match="90 triples are no 0 chunks"):
        dot_product.corrupt(*BATCH, none.T, entity=E, r=R)


def test_negatives_are_rows_of_triples_or_of_chunks():
    score = hetune.kge.scores["distmult"]
    with pytest.raises(InputError, match="90 triples are no 7 chunks"):
        score.corrupt(*BATCH, torch.zeros(7, 2, dtype=torch.long), entity=E, r=R)
    with pytest.raises(InputError, match="side='both'"):
        score.corrupt(*BATCH, torch.zeros(9, 2, dtype=torch.long), side="both", entity=E, r=R)


def test_products_with_one_matrix_become_the_product_of_a_difference():
    def paper(h, r, t, P):
        return -vector_norm(h @ P + r - t @ P, 2)

    tables = {"r": R, "P": M}
    places = zip(
        "hrtP", ["head", "relation", "tail", "relation"], ["E", "r", "E", "P"], strict=True
    )
    arguments = tuple(ScoreArgument(name, RowPlace(place), of) for name, place, of in places)
    program = trace_score(ScoreLayer(paper, arguments, tables, {}), {"E": E}).program
    assert [str(let.op) for let in program.lets if isinstance(let.op, Linear)] == [
        "Linear(x='sub_rows', w='P')"
    ]
    check(
        hetune.kge.score(paper)(*BATCH, entity=E, **tables),
        expected_scores("transr", TABLES["transr"]),
        TABLES["transr"],
    )


@pytest.mark.parametrize("name", ["distmult", "transr", "rescal"])
def test_batches_in_a_row_take_the_place_of_each_other(name, monkeypatch):
    """But not while gradients may be asked for."""
    made = []

    class Counted(EdgeBatch):
        def __init__(self, *args, **kwargs):
            made.append(args)
            super().__init__(*args, **kwargs)

    monkeypatch.setattr(score_call, "EdgeBatch", Counted)
    random = torch.Generator().manual_seed(1)
    sizes = ENTITIES, RELATIONS, ENTITIES
    batches = [
        [torch.randint(size, (count,), generator=random) for size in sizes]
        for count in (TRIPLES,) * 6 + (TRIPLES - 1,)
    ]
    tables = TABLES[name]
    want = [expected_scores(name, tables, batch).float() for batch in batches]

    def found(batch):
        return hetune.kge.scores[name](*batch, **tables)

    with torch.no_grad():
        for _ in range(2):  # what the variant is chosen by is kept with the first
            found(BATCH)
        made.clear()
        for batch, expected in zip(batches[:5], want, strict=False):
            torch.testing.assert_close(found(batch), expected)
        assert not made
        torch.testing.assert_close(found(batches[6]), want[6])
        heads, rels, tails = batches[6]
        for wrong in (-1, ENTITIES):
            with pytest.raises(InputError, match=rf"tails\[2\] is {wrong}"):
                found((heads, rels, torch.where(torch.arange(len(tails)) == 2, wrong, tails)))
        torch.testing.assert_close(found(batches[6]), want[6])
        with ThreadPoolExecutor(4) as threads:
            for _ in range(5):
                for one, expected in zip(threads.map(found, batches), want, strict=True):
                    torch.testing.assert_close(one, expected)
    loss, (expected,) = None, torch.autograd.grad((want[0] * 2 - want[1]).sum(), E)
    for step in range(5):
        loss = (found(batches[0]) * 2 - found(batches[1])).sum()  # the last one is there still
        with torch.no_grad():
            found(batches[2])
        for _ in range(2):
            (gradient,) = torch.autograd.grad(loss, E, retain_graph=True)
            torch.testing.assert_close(gradient, expected)
        if step == 2:
            made.clear()
    assert not made


def test_calls_in_a_row_see_what_has_changed(monkeypatch):
    """They are read as the first was, unless something else is given than it had."""
    read, reads = CompiledLayer._run_once, Mock()
    monkeypatch.setattr(CompiledLayer, "_run_once", lambda *args: (reads(), read(*args))[1])
    score, entity, relation = hetune.kge.score(distance), E.detach().clone(), R.detach().clone()

    def check_call(entity, batch=BATCH, **options):
        found = score(*batch, entity=entity, r=relation, **options)
        torch.testing.assert_close(
            found, -(entity[batch[0]] + relation[batch[1]] - entity[batch[2]]).abs().sum(1)
        )

    with torch.no_grad():
        for _ in range(2):  # what the variant is chosen by is kept with the first
            check_call(entity)
        before = reads.call_count
        for change in (entity.zero_, relation.neg_):
            check_call(entity, tuple(ids.flip(0) for ids in BATCH))
            change()
        check_call(entity, tuple(ids[::2].int() for ids in BATCH))
        check_call(E.detach()[:-3].contiguous())
        with pytest.raises(InputError, match=r"heads\[0\] is 40"):
            score(HEADS + 40 - HEADS[0], RELS, TAILS, entity=entity, r=relation)
        assert reads.call_count == before + 3  # fewer triples, or entities, and more of these again
    tables = entity.requires_grad_()
    score(*BATCH, entity=tables, r=relation).sum().backward()
    assert tables.grad.any()


@torch.no_grad()
@pytest.mark.parametrize("name", ["transh", "cp", "crosse", "halves"])
def test_calls_that_change_addresses_alone_are_right_with_other_tables(name, monkeypatch):
    """Most weights are read where they lie; halves of rows are copied."""
    monkeypatch.setitem(TABLES, "halves", {"entity": E, "r": torch.cat((R, S), 1)})
    monkeypatch.setitem(ORACLES, "halves", lambda h, r, t: dot(h * r[:, :WIDTH] - r[:, WIDTH:], t))
    own = hetune.kge.score(lambda h, r, t: ((h * r[:WIDTH] - r[WIDTH:]) * t).sum())
    score = own if name == "halves" else hetune.kge.scores[name]
    read, reads = CompiledLayer._run_once, Mock()
    monkeypatch.setattr(CompiledLayer, "_run_once", lambda *args: (reads(), read(*args))[1])

    def check_call(tables, batch=BATCH):
        found, expected = score(*batch, **tables), expected_scores(name, tables, batch)
        torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)

    def of_each(change, tables):
        if isinstance(tables, dict):
            return {key: of_each(change, value) for key, value in tables.items()}
        is_tuple = isinstance(tables, tuple)
        return tuple(change(each) for each in tables) if is_tuple else change(tables)

    tables, turned = (of_each(lambda table: table.detach().clone(), TABLES[name]) for _ in "ab")
    for _ in range(3):
        check_call(tables)
    before = reads.call_count
    for batch in ([ids.int() for ids in BATCH], [ids.repeat(2)[::2] for ids in BATCH]):
        check_call(tables, batch)
    assert reads.call_count == before
    of_each(lambda table: table.mul_(0.5), tables)
    check_call(tables)
    check_call(turned)
    assert (reads.call_count == before) == (name != "halves")
    for wrap in (torch._neg_view, lambda table: torch.stack([table, table], -1)[..., 0]):
        check_call(of_each(wrap, tables))
        check_call(turned)
    of_each(lambda table: setattr(table, "data", table.data.flip(0)[:, None][:, 0]), tables)
    check_call(tables)
    with pytest.raises(InputError, match=r"rels\[1\] is 5"):
        score(HEADS[:2], RELS.new_tensor([0, 5]), TAILS[:2], **tables)


@torch.no_grad()
def test_an_option_that_is_none_is_another_one_than_its_default():
    def product(h, r, t, by=2.0):
        return (h * r * t).sum() * (3.0 if by is None else by)

    score, heads, tails = hetune.kge.score(product), E[HEADS], E[TAILS]
    for options in ({"by": None}, {"by": None}, {"by": None}, {}):
        found = score(*BATCH, entity=E, r=R, **options)
        torch.testing.assert_close(found, dot(heads * R[RELS], tails) * (3 if options else 2))


@torch.no_grad()
def test_heads_and_tails_may_share_a_table_in_some_calls():
    score, (heads, rels, tails) = hetune.kge.score(distance), BATCH
    one, other, relation = E.detach(), E.detach().flip(0), R.detach()
    for of_heads, of_tails in ((one, one), (one, one), (one, other), (other, one)):
        found = score(*BATCH, entity=of_heads, r=relation, tail=of_tails)
        expected = -(of_heads[heads] + relation[rels] - of_tails[tails]).abs().sum(1)
        torch.testing.assert_close(found, expected)


def test_a_batch_with_an_index_takes_no_other_ids():
    batch = EdgeBatch(HEADS, TAILS, RELS, num_nodes=ENTITIES, num_etypes=RELATIONS)
    index = BatchIndex.of_batch(batch)
    assert batch.is_replaceable
    assert batch.replace_ids(TAILS, HEADS.int(), RELS)
    assert index.src.tolist() == TAILS.tolist()
    assert not batch.replace_ids(HEADS[:3], TAILS[:3], RELS[:3])
    assert not batch.replace_ids(HEADS.float(), TAILS, RELS)
    assert not batch.replace_ids(HEADS, TAILS, RELS + RELATIONS)
    _ = index.src_pair_node
    assert not batch.is_replaceable
    other = EdgeBatch(HEADS, TAILS, RELS, num_nodes=ENTITIES, num_etypes=RELATIONS)
    _ = other.fingerprint
    assert not other.is_replaceable


@torch.no_grad()
def test_a_variant_that_one_call_names_runs_no_other_call():
    places = ("h", "head", "E"), ("r", "relation", "r"), ("t", "tail", "E")
    arguments = tuple(ScoreArgument(name, RowPlace(place), of) for name, place, of in places)
    layer = compile_layer(ScoreLayer(distance, arguments, {"r": R.detach()}, {}), dynamic=True)

    def ran(batch, **options):
        layer(*batch, E.detach(), **options)
        return layer.status().variant

    default = ran(BATCH)
    other = next(name for name in layer.variants if name != default)
    for batch in (BATCH, [ids[1:] for ids in BATCH]):
        assert ran(batch, variant=other) == other
        assert ran(batch) == default


def test_free_batches_have_few_edges_together():
    free, ids = FreeBatches(), torch.zeros(30_000, dtype=torch.int64)
    first, *others = (EdgeBatch(ids, ids, ids, num_nodes=1 + i, num_etypes=1) for i in (0, 1, 1))
    for batch in (first, *others):
        free.give(batch)
    assert free.take(1, 1, len(ids)) is None  # the one that was there longest
    assert free.take(2, 1, len(ids)) is others[1]
    assert free.take(2, 1, len(ids)) is others[0]
    assert free.take(2, 1, len(ids)) is None


def test_constants_are_where_tables_are():
    def one(h, r=None, t=None):
        return h[0] * t[1]

    arguments = (
        ScoreArgument("h", RowPlace.HEAD, "entity"),
        ScoreArgument("t", RowPlace.TAIL, "entity"),
    )
    layer = ScoreLayer(one, arguments, {}, {})
    adapter = score_call.adapt_score(layer, ((*BATCH, E.detach().to("meta")), {}))
    assert isinstance(adapter, Adapter)
    assert adapter.weights()
    assert all(weight.is_meta for weight in adapter.weights().values())
