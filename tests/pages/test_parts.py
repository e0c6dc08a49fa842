"""What pages are made of: plots, tables, graphs from text, cards, numbers."""

import pytest
import torch
from tests.service._serving import tiny_graph

import hetune
from hetune.costmodel.evaluate.tables import TextTable
from hetune.service.core.formats.limits import ServiceLimits
from hetune.service.pages import figures
from hetune.service.pages.cards import Cells, Fact, Heading, Paragraph, Picture, parts_of
from hetune.service.pages.distributions import Bin, view_of
from hetune.service.pages.edges import graph_of_lines
from hetune.service.pages.plots import LogAxis, histogram, ranking, short
from hetune.variants.errors import MalformedError, TooLargeError

# Plots.


@pytest.mark.parametrize(
    ("low", "high", "texts"),
    [
        (1, 8, ["1", "2", "5"]),
        (0.5, 20, ["0.5", "1", "2", "5", "10", "20"]),
        (1, 1000, ["1", "10", "100", "1k"]),
        (1, 3e6, ["1", "10", "100", "1k", "10k", "100k", "1M"][:7:2]),
        (3, 4, []),
    ],
)
def test_ticks_are_round_and_few(low, high, texts):
    assert [tick.text for tick in LogAxis(low, high, 0, 100).ticks()] == texts


def test_an_axis_is_logarithmic():
    axis = LogAxis(1, 100, 10, 30)
    assert [axis.at(value) for value in (1, 10, 100)] == [10, 20, 30]
    assert LogAxis(2, 2, 10, 30).at(2) == 10


@pytest.mark.parametrize(
    ("value", "text"), [(0.5, "0.5"), (20, "20"), (5000, "5k"), (2e6, "2M"), (1e9, "1G")]
)
def test_round_numbers_are_short(value, text):
    assert short(value) == text


def test_bars_stand_on_the_axis_inside_the_picture():
    plot = histogram("id", "t", "d", ("x", "y"), [(1, 7), (2, 1), (64, 1000)])
    assert len(plot.bars) == 3
    for bar in plot.bars:
        assert plot.left <= bar.x < bar.x + bar.width <= plot.right
        assert bar.y >= plot.top
        assert bar.y + bar.height == pytest.approx(plot.bottom)
    heights = [bar.height for bar in plot.bars]
    assert heights[1] < heights[0] < heights[2]


def test_dots_are_inside_the_picture_and_none_covers_another():
    plot = ranking("id", "t", "d", ("x", "y"), [10**6] * 3 + [1] * 1000)
    assert len(plot.dots) == len(set(plot.dots)) <= 1003
    for x, y in plot.dots:
        assert plot.left <= x <= plot.right
        assert plot.top <= y <= plot.bottom


# Graphs.


def test_what_a_graph_s_page_shows():
    view = view_of(tiny_graph())
    assert view.degrees == (Bin(0, 0, 4), Bin(1, 1, 0), Bin(2, 3, 3))
    assert view.relations == (("writes", 5), ("reads", 4))
    assert view.node_types == (("paper", 4), ("author", 3))
    assert "3 of 7 nodes have an in-degree of 2–3; the largest is 3, and 4" in (
        view.degree_plot.description
    )
    assert sum(each.nodes for each in view.degrees) == 7


@pytest.mark.parametrize("nodes", [0, 3])
def test_a_graph_without_edges_has_no_plots(nodes):
    none = torch.empty(0, dtype=torch.int64)
    view = view_of(hetune.HeteroGraph(none, none, num_nodes=nodes, num_etypes=2))
    assert view.degree_plot is view.relation_plot is None
    assert view.degrees == (Bin(0, 0, nodes),)


def test_a_graph_from_lines():
    text = "# a comment\na:1 r b:1\n\n  b:1 s a:2 \na:1 r a:2\nplain r b:1\n:x r b:\n"
    named = graph_of_lines(text, ServiceLimits())
    graph = named.graph
    assert named.nodes == ("a:1", "a:2", "b:1", "node:plain", "node::x", "node:b:")
    assert graph.ntype_names == ("a", "b", "node")
    assert graph.src.tolist() == [0, 2, 0, 3, 4]
    assert graph.dst.tolist() == [2, 1, 1, 2, 5]
    assert graph.is_canonical  # r joins several pairs of types, and is split
    assert len(graph.etype_names) == 5
    two = graph_of_lines("x y\ny x", ServiceLimits())
    assert two.nodes == ("x", "y")
    assert two.graph.etype_names == ("edge",)


@pytest.mark.parametrize(
    ("text", "kind", "says"),
    [
        ("", MalformedError, "no edges"),
        ("# only this", MalformedError, "no edges"),
        ("a b\na", MalformedError, "line 2 has 1 words"),
        ("a b c d", MalformedError, "line 1 has 4 words"),
        ("a b\n" * 6, TooLargeError, "6 edges"),
        ("a b\nc d", TooLargeError, "4 nodes"),
        ("a r b\na s b\na t b", TooLargeError, "3 types"),
    ],
)
def test_lines_that_are_no_graph(text, kind, says):
    with pytest.raises(kind, match=says):
        graph_of_lines(text, ServiceLimits(nodes=3, edges=5, types=2))


# Cards.


def test_a_card_is_read_as_it_is_written():
    table = TextTable("T", ("name", "n"), (("a", "1"), ("all", "2")), frozenset({"all"}))
    head = "# title\n\n- made: to\\_day \\<b\\>\n\n## T\n\n"
    assert parts_of(f"{head}{table.as_markdown()}\nText.\n![p](r.png)\n") == (
        Fact("made", "to_day <b>"),
        Heading("T"),
        Cells(("name", "n"), (("a", "1"), ("all", "2")), frozenset({1})),
        Paragraph("Text."),
        Picture("p", "r.png"),
    )
    assert parts_of("![p](../r.png)") == (Paragraph("![p](../r.png)"),)
    assert parts_of("") == ()


# Numbers.


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (figures.count(1234567), "1,234,567"),
        (figures.milliseconds(4.56e-5), "0.046"),
        (figures.milliseconds(12.3), "12,300"),
        (figures.milliseconds(None), "–"),
        (figures.size(0), "0 B"),
        (figures.size(999), "999 B"),
        (figures.size(12345), "12.3 kB"),
        (figures.size(1.2e15), "1200 TB"),
        (figures.size(None), "–"),
        (figures.share(0), "0.0%"),
        (figures.share(1e-9), "<0.1%"),
        (figures.share(0.1234), "12.3%"),
        (figures.factor(1.061), "1.06×"),
        (figures.when("2026-01-02T03:04:05+01:00"), "2026-01-02 02:04:05 UTC"),
        (figures.when(None), "–"),
        (figures.number(-0.12345), "-0.1235"),
        (figures.cut("a" * 401), "a" * 400 + "…"),
    ],
)
def test_numbers_for_readers(shown, text):
    assert shown == text
