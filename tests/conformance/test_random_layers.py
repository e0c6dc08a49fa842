"""Layers composed at random: all ways of running one compute what it says, and gradients of it."""

from __future__ import annotations

import torch
from hypothesis import HealthCheck, assume, given, note, settings
from hypothesis import strategies as st

from hetune.variants.backends.cpp.backend import CppBackend
from hetune.variants.frontend.functions import (
    cos,
    dot,
    elu,
    maximum,
    outer,
    relu,
    sigmoid,
    silu,
    softmax,
    softplus,
    sqrt,
    tanh,
)
from hetune.variants.frontend.trace import (
    Value,
    constant,
    edge,
    etype,
    layer_program,
    node,
    ntype,
    shared,
)
from hetune.variants.kernel.nodes import Schedule
from hetune.variants.passes.backward import backward
from hetune.variants.plan.alternatives import alternatives
from hetune.variants.plan.lower import lower
from hetune.variants.program.functions import FOLDS
from hetune.variants.program.interpret import interpret_results
from hetune.variants.program.nodes import End, Space
from hetune.variants.program.text import show
from hetune.variants.testing.conformance import relative_error
from hetune.variants.testing.gradients import (
    autograd_gradients,
    result_gradients,
    staged_gradients,
)
from hetune.variants.testing.graphs import AWKWARD, typed_graph
from hetune.variants.testing.plans import run_results
from hetune.variants.testing.programs import random_parameters

GRAPHS = (
    typed_graph((6, 3), [(0, 1, 14), (1, 0, 14), (0, 0, 8)]),  # has relations for either side
    AWKWARD["relations without edges"](),
    AWKWARD["duplicate edges"](),
)
ENDS = st.sampled_from([End.SRC, End.DST])
TOLERANCE = 1e-3
"""Sums may cancel; what is wrong is so in the first digits."""


class Composer:
    """Draws values by space and row shape: K elements wide, or H heads of them."""

    def __init__(self, draw, g, given):
        self.draw, self.g = draw, g
        vars(self).update(given)

    def pick(self, depth, leaves, others):
        return self.draw(st.sampled_from([*leaves, *(others if depth > 0 else [])]))(depth - 1)

    def times(self, a, b):
        a, b = self.draw(st.permutations([a, b]))
        return a * b

    def end(self, x):
        return self.draw(st.sampled_from([self.g.src, self.g.dst]))(x)

    def smooth(self, x):
        return self.draw(st.sampled_from([sigmoid, silu, softplus, elu, cos, abs]))(x)

    def shares(self, score):
        score = self.draw(st.sampled_from([lambda s: s, tanh]))(score)
        return softmax(score, self.draw(st.sampled_from([self.g.nodes, self.g.dst_pairs])))

    def number(self, depth):  # edge[]
        leaves = [
            lambda d: self.c,
            lambda d: self.end(self.s),
            lambda d: self.end(sigmoid(-self.g.count(end=self.draw(ENDS)))),
            lambda d: sigmoid(-self.g.count(self.g.src_pairs, End.SRC)).take(Space.EDGE),
        ]
        others = [
            lambda d: dot(self.rows(d), self.end(self.x)),
            lambda d: dot(self.rows(d), self.v),
            lambda d: dot(self.rows(d), self.end(self.b)),
            lambda d: self.shares(self.number(d)),
            lambda d: self.rows(d).fold(0, self.draw(st.sampled_from(FOLDS))),
            lambda d: self.times(self.p, self.number(d)),
        ]
        return self.pick(depth, leaves, others)

    def numbers(self, depth):  # edge[H]
        others = [
            lambda d: dot(self.heads(d), self.heads(d)),
            lambda d: dot(self.heads(d), self.end(self.x)),
            lambda d: self.shares(self.numbers(d)),
            lambda d: self.times(self.q, self.numbers(d)),
        ]
        return self.pick(depth, [lambda d: self.e, lambda d: self.end(self.t)], others)

    def rows(self, depth):  # edge[K]
        others = [
            lambda d: self.rows(d) @ self.w,
            lambda d: self.rows(d) @ self.w + self.r,
            lambda d: self.rows(d) @ self.u,
            lambda d: self.heads(d).fold(0, self.draw(st.sampled_from(FOLDS))),
            lambda d: self.rows(d).concat(self.rows(d)) @ self.z,
            lambda d: (self.rows(d) @ self.y).slice(self.k - 1, 2 * self.k - 1),
            lambda d: self.times(self.number(d), self.rows(d)),
            lambda d: self.times(self.p, self.rows(d)),
            lambda d: self.times(self.smooth(self.rows(d)), self.rows(d)),
            lambda d: maximum(self.rows(d), self.rows(d) - 0.5),
            lambda d: self.rows(d) + self.rows(d),
            lambda d: self.end(self.nodes(d)),
        ]
        return self.pick(depth, [lambda d: self.end(self.x), lambda d: self.f], others)

    def heads(self, depth):  # edge[H,K]
        others = [
            lambda d: self.heads(d) @ self.own,
            lambda d: outer(self.numbers(d), self.rows(d)),
            lambda d: self.times(self.numbers(d), self.heads(d)),
            lambda d: self.times(self.number(d), self.heads(d)),
            lambda d: self.times(self.q, self.heads(d)),
            lambda d: self.heads(d) + self.heads(d),
        ]
        return self.pick(depth, [lambda d: self.rows(d) @ self.m], others)

    def pairs(self, depth):  # dst_pair[K]
        return self.g.sum(self.rows(depth), over=self.g.dst_pairs)

    def nodes(self, depth):  # node[K]
        others = [
            lambda d: self.g.sum(self.rows(d)),
            lambda d: self.g.mean(self.rows(d)),
            lambda d: self.g.reduce(self.rows(d), fn=self.draw(st.sampled_from(["max", "min"]))),
            lambda d: self.g.sum(self.times(self.p, self.pairs(d) @ self.w)),
            lambda d: self.g.sum(self.g.sum(self.number(d), self.g.dst_pairs) * self.pairs(d)),
            lambda d: self.nodes(d) @ self.n + self.draw(st.sampled_from([self.b, self.o])),
            lambda d: relu(self.nodes(d)),
            lambda d: sqrt(self.nodes(d) ** 2),
            lambda d: self.nodes(d) + self.nodes(d),
        ]
        return self.pick(depth, [lambda d: self.x], others)

    def result(self):
        rows, heads = self.g.sum(self.rows(3)), self.g.sum(self.heads(2))
        flat = heads.reshape(heads.type.width)
        found = self.draw(st.sampled_from([rows, heads, flat, self.nodes(3)]))
        return self.draw(
            st.sampled_from([found, (found, self.shares(self.numbers(2))), self.rows(2)])
        )


@layer_program
def layer(g, x, s, t, c, e, f, p, q, r, w, m, own, u, v, n, b, o, y, z, *, k, draw):
    given = {name: value for name, value in locals().items() if isinstance(value, Value | int)}
    return Composer(draw, g, given).result()


@st.composite
def programs(draw):
    """With as many heads as elements of a row, and with fewer."""
    h, k = 2, draw(st.integers(2, 3))
    nodes = {"x": node(k), "s": node(), "t": node(h), "n": ntype(k, k), "b": ntype(k), "o": ntype()}
    edges = {"c": edge(), "e": edge(h), "f": edge(k), "p": etype(), "q": etype(h), "r": etype(k)}
    for params in (nodes, edges):
        for name in ("s", "t", "c", "e"):
            if name in params and draw(st.booleans()):
                params[name] = constant(params[name])
    maps = {"w": etype(k, k), "m": etype(k, h, k), "own": etype(h, k, k), "u": shared(k, k)}
    maps |= {"y": etype(k, 2 * k), "z": etype(2 * k, k)}
    return layer(**nodes, **edges, **maps, v=shared(k), k=k, draw=draw)


def check(found, expected, where):
    for rows, right in zip(found, expected, strict=True):
        assert relative_error(rows, right) <= TOLERANCE, where


@settings(max_examples=60, derandomize=True, suppress_health_check=list(HealthCheck))
@given(program=programs(), graph=st.sampled_from(GRAPHS))
def test_all_ways_compute_the_same(program, graph):
    note(show(program))
    values = {name: rows / 2 for name, rows in random_parameters(program, graph).items()}
    expected = interpret_results(program, values, graph)
    for way in alternatives(program):
        for fused in (True, False):
            plan = lower(way.program, fuse_sums=fused)
            found = run_results(plan, values, graph)
            check(found, expected, (way.id, fused))
            for launch in plan.launches:
                CppBackend().source(launch, Schedule())  # prints what it would compile


@settings(max_examples=40, derandomize=True, suppress_health_check=list(HealthCheck))
@given(program=programs(), graph=st.sampled_from(GRAPHS))
def test_gradients_are_autograds(program, graph):
    """In stages that compute everything again, and in those that save what is worth it."""
    note(show(program))
    values = {name: rows / 2 for name, rows in random_parameters(program, graph).items()}
    grads = result_gradients(program, values, graph, {})
    wanted = [param.name for param in program.params if param.role != "constant"]
    expected = autograd_gradients(program, values, grads, graph, {}, wanted)
    assume(all(rows.isfinite().all() for rows in expected))  # a root of 0 has no derivative
    have = staged_gradients(backward(program, wanted), {**values, **grads}, graph, {})
    torch.testing.assert_close(have, expected, rtol=1e-8, atol=1e-8)
