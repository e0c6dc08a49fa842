"""Models of triples of PyG and PyKEEN: compiled, they score, learn and are kept as they are."""

import copy
import pickle
import warnings

import pytest
import torch

import hetune
from hetune.variants.frontend.kge.model_scores import CompiledKGEModel

ENTITIES, RELATIONS, WIDTH, TRIPLES = 50, 7, 16, 200


def triples(seed=0, count=TRIPLES):
    random = torch.Generator().manual_seed(seed)
    sizes = ENTITIES, RELATIONS, ENTITIES
    return [torch.randint(size, (count,), generator=random) for size in sizes]


def seeded(make, *args, **kwargs):
    torch.manual_seed(0)
    return make(*args, **kwargs)


def gradients(model, score, up):
    model.zero_grad()
    found = score()
    (found.squeeze(-1) * up.to(found.dtype)).sum().backward()
    grads = {name: p.grad for name, p in model.named_parameters()}
    return {"scores": found.detach(), **{name: g.to_dense() for name, g in grads.items()}}


def check_close(found, expected, tolerance=1e-5):
    assert found.keys() == expected.keys()
    largest = max(float(each.abs().max()) for each in expected.values())
    for name, want in expected.items():
        scale = float(want.abs().max()) if name == "scores" else largest
        assert float((found[name] - want).abs().max()) <= tolerance * scale, name


class TestPyg:
    kge = pytest.importorskip("torch_geometric.nn.kge")

    @pytest.mark.parametrize("name", ["TransE", "DistMult", "ComplEx", "RotatE"])
    def test_scores_and_gradients_are_those_of_float64(self, name):
        model = seeded(getattr(self.kge, name), ENTITIES, RELATIONS, WIDTH, sparse=name == "TransE")
        compiled = hetune.compile(model)
        assert isinstance(compiled, type(model))
        assert repr(compiled) == repr(model)
        up, given = torch.randn(TRIPLES), triples()
        found = gradients(compiled, lambda: compiled(*given), up)
        assert all(p.grad.is_sparse is (name == "TransE") for p in model.parameters())
        exact = copy.deepcopy(model).double()
        check_close(found, gradients(exact, lambda: exact(*given), up))
        assert compiled.status().variant
        with torch.no_grad():  # other triples, fewer of them
            others = triples(1, 90)
            check_close({"scores": compiled(*others)}, {"scores": exact(*others)})
            h, r, t = (ids[:5] for ids in others)
            all_tails, all_heads = compiled.all(h, r), compiled.all(t, r, side="head")
            at, every = (
                torch.arange(ENTITIES).repeat(5),
                torch.arange(5).repeat_interleave(ENTITIES),
            )
            wanted = exact(h[every], r[every], at), exact(at, r[every], t[every])
            for found, want in zip((all_tails, all_heads), wanted, strict=True):
                check_close({"scores": found.flatten()}, {"scores": want})
            assert compiled.test(*triples(2, 3), batch_size=20, log=False) == pytest.approx(
                model.test(*triples(2, 3), batch_size=20, log=False)
            )

    def test_a_step_with_sparse_gradients_takes_no_memory_for_each_entity(self):
        count, given = 200_000, triples()
        model = seeded(self.kge.TransE, count, RELATIONS, WIDTH, sparse=True)
        compiled = hetune.compile(model)
        up = torch.randn(TRIPLES)
        for rows in (given, triples(1)):
            with torch.profiler.profile(profile_memory=True) as profile:
                model.zero_grad()
                compiled(*rows).backward(up)
            taken = [event.cpu_memory_usage for event in profile.events()]
        assert 0 < max(taken) < 8 * count
        gradient = model.node_emb.weight.grad
        assert gradient.is_sparse
        assert gradient._nnz() == len(torch.cat((rows[0], rows[2])).unique())
        with pytest.raises(hetune.errors.InputError, match=rf"tails\[1\] is {count}"):
            compiled(torch.tensor([0, 1]), torch.tensor([0, 1]), torch.tensor([3, count]))

    @pytest.mark.parametrize("sparse", [False, True])
    def test_it_learns_in_pyg_s_own_loop(self, sparse):
        def losses(compile):
            model = seeded(self.kge.DistMult, ENTITIES, RELATIONS, WIDTH, sparse=sparse)
            model = compile(model)
            kind = torch.optim.SparseAdam if sparse else torch.optim.Adagrad
            optimizer, found = kind(list(model.parameters()), lr=0.1), []
            for batch in model.loader(*triples(), batch_size=64, shuffle=True):
                optimizer.zero_grad()
                loss = model.loss(*batch)
                loss.backward()
                optimizer.step()
                found.append(loss.item())
            return found

        plain = losses(lambda model: model)
        assert losses(hetune.compile) == pytest.approx(plain, rel=1e-5)
        assert plain[0] != plain[-1]

    def test_it_is_the_model_in_all_but_its_class(self):
        model = seeded(self.kge.RotatE, ENTITIES, RELATIONS, WIDTH)
        compiled, given = hetune.compile(model), triples()
        assert compiled.module is model
        assert list(compiled.state_dict()) == list(model.state_dict())
        assert not compiled.eval().training | model.training
        before = compiled(*given)
        compiled.margin += 1.0  # a Python number that the score reads
        assert model.margin == 2.0
        torch.testing.assert_close(compiled(*given), before + 1.0)
        twin = copy.deepcopy(compiled)
        assert isinstance(twin, CompiledKGEModel)
        with torch.no_grad():
            twin.node_emb.weight.mul_(2.0)
        torch.testing.assert_close(compiled(*given), model(*given))
        torch.testing.assert_close(twin(*given), twin.module(*given))
        loaded = pickle.loads(pickle.dumps(compiled))
        assert type(loaded) is type(model)
        again = hetune.compile(compiled)
        assert again.module is model
        model.node_emb = torch.nn.Embedding(ENTITIES, WIDTH)
        torch.testing.assert_close(compiled(*given), model(*given))

    def test_what_is_no_batch_of_triples(self):
        compiled = hetune.compile(seeded(self.kge.DistMult, ENTITIES, RELATIONS, WIDTH))
        h, r, t = triples()
        for wrong in ((h, r, t + ENTITIES), (h - ENTITIES, r, t), (h, r + RELATIONS, t)):
            with pytest.raises(hetune.HetuneError, match="there are"):
                compiled(*wrong)
        assert compiled(h[:0], r[:0], t[:0]).shape == (0,)
        assert compiled.double()(h, r, t).dtype is torch.float64

    def test_a_model_that_is_no_lookup_is_refused(self):
        class Weighted(self.kge.DistMult):
            def __init__(self, *args):
                super().__init__(*args)
                self.lin = torch.nn.Linear(WIDTH, WIDTH)

        with pytest.raises(hetune.errors.InputError, match=r"lin\.weight is no embedding's"):
            hetune.compile(Weighted(ENTITIES, RELATIONS, WIDTH))


@pytest.mark.filterwarnings("ignore:.*pin_memory", "ignore::DeprecationWarning")
class TestPykeen:
    """Models of PyKEEN, with its regularizers, normalizers and constrainers."""

    @pytest.fixture(scope="class")
    def pykeen(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return pytest.importorskip("pykeen.models", reason="needs pykeen")

    def made(self, pykeen, name, **options):
        from pykeen.triples import CoreTriplesFactory

        facts = CoreTriplesFactory(torch.stack(triples(), 1), ENTITIES, RELATIONS)
        model = getattr(pykeen, name)(
            triples_factory=facts, random_seed=0, embedding_dim=WIDTH, **options
        )
        return model, facts

    @pytest.mark.parametrize(
        "name", ["TransH", "TransR", "RESCAL", "SimplE", "MuRE", "ComplEx", "RotatE"]
    )
    def test_scores_and_gradients_are_those_of_float64(self, pykeen, name):
        model, _ = self.made(pykeen, name)
        compiled, batch, up = hetune.compile(model), torch.stack(triples(), 1), torch.randn(TRIPLES)
        assert isinstance(compiled, type(model))
        found = gradients(compiled, lambda: compiled.score_hrt(batch), up)
        term = torch.as_tensor(compiled.collect_regularization_term()).item()
        exact = copy.deepcopy(model).double()
        check_close(found, gradients(exact, lambda: exact.score_hrt(batch), up))
        wanted = torch.as_tensor(exact.collect_regularization_term()).item()
        assert term == pytest.approx(wanted, rel=1e-5)
        assert compiled.status().variant

    @pytest.mark.parametrize(
        ("loop", "name"),  # TransE has constrainers, DistMult a regularizer of rows
        [("SLCWATrainingLoop", "TransE"), ("LCWATrainingLoop", "DistMult")],
    )
    def test_it_learns_in_pykeen_s_own_loop(self, pykeen, loop, name):
        from pykeen import training
        from pykeen.evaluation import RankBasedEvaluator

        def results(compile):
            model, facts = self.made(pykeen, name)
            model = compile(model)
            optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
            given = {"model": model, "triples_factory": facts, "optimizer": optimizer}
            options = {"use_tqdm": False, "use_tqdm_batch": False}
            torch.manual_seed(1)
            losses = getattr(training, loop)(**given).train(facts, 2, batch_size=64, **options)
            ranks = RankBasedEvaluator().evaluate(model, facts.mapped_triples, use_tqdm=False)
            return [*losses, ranks.get_metric("mrr")]

        plain = results(lambda model: model)
        compiled = results(hetune.compile)
        assert compiled == pytest.approx(plain, rel=1e-4)
        assert plain[1] < plain[0]

    def test_what_is_left_to_pykeen(self, pykeen):
        batch = torch.stack(triples(), 1)
        model, _ = self.made(pykeen, "HolE")  # a Fourier transform
        compiled = hetune.compile(model)
        with pytest.warns(hetune.FallbackWarning, match="fft"):
            first = compiled.score_hrt(batch)
        torch.testing.assert_close(first, model.score_hrt(batch))
        assert torch.equal(compiled.score_hrt(batch), model.score_hrt(batch))
        with pytest.raises(hetune.errors.InputError, match="ConvEInteraction has parameters"):
            hetune.compile(self.made(pykeen, "ConvE")[0])
        dropout = {"entity_representations_kwargs": {"shape": (WIDTH,), "dropout": 0.5}}
        from pykeen.models import ERModel
        from pykeen.triples import CoreTriplesFactory

        facts = CoreTriplesFactory(batch, ENTITIES, RELATIONS)
        relations = {"relation_representations_kwargs": {"shape": (WIDTH,)}}
        given = {"triples_factory": facts, "interaction": "distmult", **dropout, **relations}
        compiled = hetune.compile(ERModel(**given, random_seed=0))
        assert (seeded(compiled.score_hrt, batch) != compiled.score_hrt(batch)).any()
        assert torch.equal(
            seeded(compiled.score_hrt, batch), seeded(compiled.module.score_hrt, batch)
        )
        compiled.eval()
        with torch.no_grad():
            check_close(*({"scores": m.score_hrt(batch)} for m in (compiled, compiled.module)))
