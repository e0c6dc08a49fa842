"""`hetune kge rank`, and the files of models that it reads."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import save_file

import hetune as library
from hetune.errors import InputError
from hetune.kge import ScoreModel

TRIPLES = torch.tensor([[0, 0, 1], [1, 1, 2], [2, 0, 3], [3, 1, 0], [0, 1, 3]])


def distmult(h, r, t):
    return (h * r * t).sum()


def gated(h, r, t):
    return torch.tanh(h * r + t).sum()


def fft(h, r, t):
    return (torch.fft.fft(h).real * r * t).sum()


def made(function):
    random = torch.Generator().manual_seed(0)
    entity, r = (torch.randn(count, 4, generator=random) for count in (4, 2))
    score = library.kge.score(function)
    return score, {"entity": entity, "r": r}


@pytest.fixture
def folder(tmp_path):
    """The last two are for tests."""
    for name, part in (("train", TRIPLES[:3]), ("test", TRIPLES[3:])):
        lines = (f"{h}\t{r}\t{t}\n" for h, r, t in part.tolist())
        (tmp_path / f"{name}.txt").write_text("".join(lines))
    return tmp_path


@pytest.mark.parametrize("function", [distmult, gated])
def test_ranks_of_a_file(function, folder, hetune):
    score, tables = made(function)
    path = folder / "model.safetensors"
    model = score.model(**tables)
    model.save(path)
    for side in ("head", "tail"):
        found = ScoreModel.load(path).all(TRIPLES[:, 0], TRIPLES[:, 1], side=side)
        want = score.all(TRIPLES[:, 0], TRIPLES[:, 1], side=side, **tables)
        torch.testing.assert_close(found, want)
    result = hetune("kge", "rank", folder, path, "--hits", "1,2")
    assert result.exit_code == 0, result.output
    ranking = library.kge.rank(score, TRIPLES[3:], known=TRIPLES, k=(1, 2), **tables)
    (row,) = (line.split() for line in result.stdout.splitlines() if "both" in line)
    figures = (
        f"{ranking.mrr:.4f}",
        f"{ranking.mr:.1f}",
        *(f"{h:.4f}" for h in ranking.hits.values()),
    )
    assert row == ["both", *figures]
    raw = hetune("kge", "rank", folder, path, "--raw", "--split", "train")
    assert raw.exit_code == 0, raw.output
    ranking = library.kge.rank(score, TRIPLES[:3], **tables)
    assert f"{ranking.mrr:.4f}" in raw.stdout


def test_what_is_no_model(folder, hetune):
    path = folder / "model.safetensors"
    path.write_bytes(b"none")
    result = hetune("kge", "rank", folder, path)
    assert result.exit_code == 2
    assert "cannot be read as a safetensors file" in result.stderr
    save_file({"x": torch.ones(2)}, path)
    with pytest.raises(InputError, match="no program in its metadata"):
        ScoreModel.load(path)
    tables = {"x": torch.ones(3, 2)}
    body = "  h: edge[2] = take x edge src\n  t: edge[2] = take x edge dst\n"
    for text, message in (
        ("nothing", "is none"),
        (f"program p(x: node[2] feature)\n{body}  return h\n", "one number of each edge"),
        (
            f"program p(x: node[2] feature)\n{body}  s: edge[] = dot h t\n"
            "  n: node[] = sum s node dst\n  u: edge[] = take n edge dst\n  return u\n",
            "leave sums out",
        ),
        (
            f"program p(x: node[2] feature, r: etype[2])\n{body}  s: edge[] = dot t r\n"
            "  return s\n",
            "the tables are x",
        ),
        (
            "program p(x: node[3] feature)\n  h: edge[3] = take x edge src\n"
            "  s: edge[] = dot h h\n  return s\n",
            r"give floats \[3, 3\]",
        ),
    ):
        save_file(tables, path, {"program": text})
        with pytest.raises(InputError, match=message):
            ScoreModel.load(path)
    score, tables = made(fft)
    with pytest.raises(InputError, match="is no program"):
        score.model(**tables)


def test_a_table_that_is_given_twice_is_saved_twice(tmp_path):
    table = torch.arange(12.0).view(3, 4)
    tables = {"entity": (table, table), "r": (table, table)}
    score, path = library.kge.scores["simple"], tmp_path / "model.safetensors"
    score.model(**tables).save(path)
    query = torch.tensor([0, 2]), torch.tensor([1, 0])
    torch.testing.assert_close(ScoreModel.load(path).all(*query), score.all(*query, **tables))
