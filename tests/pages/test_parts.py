"""What pages are made of: tables, graphs from text, cards, numbers."""

import pytest
import torch
from tests.service._serving import tiny_graph

import hetune
from hetune.costmodel.evaluate.tables import TextTable
from hetune.service.core.formats.limits import ServiceLimits
from hetune.service.pages import figures
from hetune.service.pages.cards import html_of
from hetune.service.pages.distributions import Bin, view_of
from hetune.service.pages.edge_lines import graph_of_lines
from hetune.variants.errors import MalformedError, TooLargeError

# Graphs.


def test_what_a_graph_s_page_shows():
    view = view_of(tiny_graph())
    assert view.degrees == (Bin(0, 0, 4), Bin(1, 1, 0), Bin(2, 3, 3))
    assert view.relations == (("writes", 5), ("reads", 4))
    assert view.node_types == (("paper", 4), ("author", 3))
    assert sum(each.nodes for each in view.degrees) == 7


@pytest.mark.parametrize("nodes", [0, 3])
def test_a_graph_without_edges_has_one_bin(nodes):
    none = torch.empty(0, dtype=torch.int64)
    view = view_of(hetune.HeteroGraph(none, none, num_nodes=nodes, num_etypes=2))
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


def test_a_card_is_printed_without_html_of_its_own():
    table = TextTable("T", ("name", "n"), (("a", "1"), ("all", "2")), frozenset({"all"}))
    head = "# title\n\n- made: to\\_day \\<b\\> <b>\n\n## T\n\n"
    links = "[l](javascript:x) ![p](r.png) ![q](../s.png)"
    found = html_of(f"{head}{table.as_markdown()}\n{links}\n", "/m")
    assert "title" not in found
    assert "<li>made: to_day &lt;b&gt; &lt;b&gt;</li>" in found
    assert "<h2>T</h2>" in found
    assert '<th scope="col">name</th>\n<th scope="col" class="n">n</th>' in found
    assert '<td><strong>all</strong></td>\n<td class="n"><strong>2</strong></td>' in found
    assert '<img src="/m/pictures/r.png" alt="p" loading="lazy" />' in found
    assert found.count("<img") == 1
    assert "<a" not in found
    assert "style" not in found


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
