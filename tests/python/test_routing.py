"""Which norm each parameter of known models gets through the Python front end, and the warnings."""
import pickle
from pathlib import Path

import normball
import pytest
import torch
from models import Airbench, Gpt, Vit, mixed
from normball.torch import ClippedScion, Scion, named_groups
from routing_models import CASES
from torch import nn

OPTIONS = dict(lr=0.01, alpha=0.1, rho=10.0)


def norms(optimizer):
    return {route.name: route.norm for route in optimizer._routing().routes if route.blocks}


def expected_airbench():
    table = {"whiten.weight": "spectral(input)", "whiten.bias": "rms", "head.weight": "sign"}
    for block in range(3):
        table.update({f"layers.{block}.{i}.weight": "spectral" for i in (0, 4)})
        table.update({f"layers.{block}.{i}.{leaf}": "rms" for i in (2, 5) for leaf in ("weight", "bias")})
    return table


def expected_gpt():
    table = {"transformer.wte.weight": "sign", "transformer.wpe.weight": "rms"}
    for block in range(2):
        prefix = f"transformer.h.{block}"
        for name in ("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj"):
            table.update({f"{prefix}.{name}.weight": "spectral", f"{prefix}.{name}.bias": "rms"})
        table.update({f"{prefix}.{name}.{leaf}": "rms" for name in ("ln_1", "ln_2") for leaf in ("weight", "bias")})
    table.update({f"transformer.ln_f.{leaf}": "rms" for leaf in ("weight", "bias")})
    return table


def expected_vit():
    table = {"cls_token": "rms", "pos_embed": "rms", "patch_embed.proj.weight": "spectral(input)",
             "patch_embed.proj.bias": "rms", "norm.weight": "rms", "norm.bias": "rms", "head.weight": "sign",
             "head.bias": "rms"}
    for block in range(2):
        for name in ("attn.qkv", "attn.proj", "mlp.fc1", "mlp.fc2"):
            table.update({f"blocks.{block}.{name}.weight": "spectral", f"blocks.{block}.{name}.bias": "rms"})
        table.update({f"blocks.{block}.{n}.{leaf}": "rms" for n in ("norm1", "norm2") for leaf in ("weight", "bias")})
    return table


MODELS = [(Airbench, expected_airbench), (Gpt, expected_gpt), (Vit, expected_vit)]


@pytest.mark.parametrize("make,expected", MODELS)
@pytest.mark.parametrize("form", ["module", "named_groups", "named_parameters"])
def test_known_models(make, expected, form):
    model = make()
    params = {"module": lambda: model, "named_groups": lambda: named_groups(model),
              "named_parameters": model.named_parameters}[form]()
    optimizer = ClippedScion(params, **OPTIONS)
    assert norms(optimizer) == expected()
    table = optimizer.explain(model)
    for name, norm in expected().items():
        assert any(line.split()[0] == name and norm in line for line in table.splitlines()), name
    assert "warning" not in table


def rows(table):
    """{parameter: (norm, radius)} of an explained table, by its first line's columns."""
    lines = [line for line in table.splitlines() if not line.startswith("warning")]
    at = [lines[0].index(title) for title in ("norm", "radius", "why")]
    return {line.split()[0]: (line[at[0]:at[1]].strip(), line[at[1]:at[2]].strip()) for line in lines[1:]}


@pytest.mark.parametrize("form", ["module", "parameters", "named_parameters", "groups"])
def test_explain_shows_what_steps(form):
    """With alpha = 1 and a small lr the step of each parameter is lr times the radius of the table in its norm."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(20, 8), nn.Linear(8, 12), nn.LayerNorm(12), nn.Linear(12, 6))
    params = {"module": lambda: model, "parameters": model.parameters, "named_parameters": model.named_parameters,
              "groups": lambda: [dict(params=list(m.parameters())) for m in model]}[form]()
    optimizer = Scion(params, lr=1e-3, alpha=1.0, radii={"hidden": 50, "output": 3000, "onehot": 7})
    table = rows(optimizer.explain(model))
    assert set(table) == {name for name, _ in model.named_parameters()}
    before = {name: p.detach().double().clone() for name, p in model.named_parameters()}
    for p in model.parameters():
        p.grad = torch.randn_like(p)
    optimizer.step()
    for name, p in model.named_parameters():
        norm, radius = table[name]
        moved = normball.norm((before[name] - p.detach().double()).numpy(), norm)
        assert moved == pytest.approx(1e-3 * float(radius), rel=1e-3), (name, norm)


def test_explain_of_another_model_is_refused():
    optimizer = ClippedScion(nn.Linear(3, 2), **OPTIONS)
    with pytest.raises(ValueError, match="none of the 2 parameters of this Linear.*the model that it trains"):
        optimizer.explain(nn.Linear(3, 2))
    with pytest.raises(ValueError, match="must be the module.*list"):
        optimizer.explain([])


def test_a_group_that_joins_later_does_not_change_what_was_guessed():
    for stepped in (False, True):
        body = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4))
        more = nn.Linear(4, 5)
        optimizer = ClippedScion(body, lr=0.1, alpha=0.5, rho=10.0)
        assert norms(optimizer)["2.weight"] == "sign"
        if stepped:
            body(torch.ones(3, 6)).sum().backward()
            optimizer.step()
        optimizer.add_param_group(named_groups(more, prefix="more")[0])
        assert norms(optimizer)["2.weight"] == ("sign" if stepped else "spectral")
        assert norms(optimizer)["more.weight"] == ("spectral" if stepped else "sign")
        more(body(torch.ones(3, 6))).sum().backward()
        optimizer.step()
        if stepped:
            again = ClippedScion(named_groups(body) + named_groups(more, prefix="more"), lr=0.1, alpha=0.5, rho=10.0)
            again.load_state_dict(optimizer.state_dict())
            assert norms(again) == norms(optimizer)
            with pytest.raises(ValueError):
                optimizer.add_param_group({"params": [more.weight]})
            assert norms(again) == norms(optimizer)


def test_several_models_in_one_optimizer():
    encoder, decoder = nn.Linear(5, 3), nn.Linear(3, 5)
    both = ClippedScion(named_groups(encoder) + named_groups(decoder), **OPTIONS)
    assert list(norms(both)) == ["weight", "bias", "group1.weight", "group1.bias"]
    prefixed = ClippedScion(named_groups(encoder, prefix="encoder") + named_groups(decoder, "decoder"), **OPTIONS,
                            rules={"decoder.weight": dict(norm="row")})
    assert norms(prefixed) == {"encoder.weight": "spectral", "encoder.bias": "rms", "decoder.weight": "row",
                               "decoder.bias": "rms"}
    pairs = [dict(params=list(encoder.named_parameters())), dict(params=list(decoder.named_parameters()))]
    starts = [p.detach().clone() for m in (encoder, decoder) for p in m.parameters()]
    optimizer = ClippedScion(pairs, **OPTIONS, layer_reports=True)
    for m in (encoder, decoder):
        for p in m.parameters():
            p.grad = torch.ones_like(p)
    optimizer.step()
    assert [layer.name for layer in optimizer.report.layers] == ["weight", "bias", "group1.weight", "group1.bias"]
    assert not any(torch.equal(p, q) for p, q in zip(starts, [*encoder.parameters(), *decoder.parameters()]))


def test_module_types_count_where_names_say_nothing():
    model = nn.Sequential(nn.Embedding(50, 8), nn.Linear(8, 12), nn.LayerNorm(12), nn.Linear(12, 6))
    assert norms(ClippedScion(model, **OPTIONS)) == {
        "0.weight": "col(transposed)", "1.weight": "spectral", "1.bias": "rms", "2.weight": "rms", "2.bias": "rms",
        "3.weight": "sign", "3.bias": "rms"}
    conv = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 3, groups=8), nn.ConvTranspose2d(8, 4, 2))
    assert norms(ClippedScion(conv, **OPTIONS)) == {
        "0.weight": "spectral(input)", "0.bias": "rms", "1.weight": "row", "1.bias": "rms",
        "2.weight": "spectral(transposed)", "2.bias": "rms"}


def test_an_untied_gpt_has_a_one_hot_embedding_and_a_head():
    found = norms(ClippedScion(Gpt(tied=False), **OPTIONS))
    assert found["transformer.wte.weight"] == "col(transposed)" and found["lm_head.weight"] == "sign"


def test_rules_radii_and_splits_of_a_gpt():
    model = Gpt()
    optimizer = ClippedScion(model, **OPTIONS, radii={"hidden": 50, "output": 3000, "bias": 2},
                             solver="polar_express", rules={"*.c_attn.weight": dict(split=3),
                                                            "*.ln_?.*": dict(norm="euclidean", radius=7.0)})
    routes = {route.name: route for route in optimizer._routing().routes}
    attention = routes["transformer.h.0.attn.c_attn.weight"]
    assert [block.shape.rows for block in attention.blocks] == [32, 32, 32] and attention.radius == 50
    assert attention.norm == "spectral(solver=polar_express)"
    assert routes["transformer.wte.weight"].radius == 3000 and routes["transformer.h.0.mlp.c_fc.bias"].radius == 2
    assert routes["transformer.h.1.ln_2.weight"].norm == "euclidean" and routes["transformer.h.1.ln_2.weight"].radius == 7
    assert "3 of 32x32" in optimizer.explain()


def test_routing_and_training_agree():
    """What explain() shows is what the step uses."""
    model = mixed()
    routed = ClippedScion(model, **OPTIONS)
    table = norms(routed)
    other = mixed()
    explicit = ClippedScion([dict(params=[p], norm=table[name]) for name, p in other.named_parameters()], **OPTIONS)
    for m, o in ((model, routed), (other, explicit)):
        for p in m.parameters():
            p.grad = torch.ones_like(p).cumsum(0)
        o.step()
    assert routed.report.s == explicit.report.s
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters()))


def explained(params, model=None, grad_clip=0.0, **options):
    return ClippedScion(params, **{**OPTIONS, **options}).explain(model, grad_clip)


@pytest.mark.filterwarnings("ignore:optimizer contains a parameter group with duplicate parameters")
def test_each_warning_is_given():
    tied = nn.Parameter(torch.zeros(50, 8))
    assert "one tied weight listed twice" in explained([("wte.weight", tied), ("lm_head.weight", tied)])
    depthwise = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 3, groups=8))
    assert "looks like a depthwise convolution" in explained(depthwise.named_parameters())
    assert "depthwise convolution" in explained(depthwise) and "warning: '1.weight'" not in explained(depthwise)
    embedding = nn.Sequential(nn.Embedding(50, 8), nn.Linear(8, 4))
    assert "routed to spectral" in explained(embedding, rules={"0.weight": dict(norm="spectral")})
    assert "could be a 1-d convolution or stacked matrices" in explained([torch.zeros(8, 16, 4)])
    assert "clip_grad_norm" in explained(embedding, grad_clip=1.0)
    assert "no output head was recognized" in explained([("a", torch.zeros(4, 3)), ("b", torch.zeros(2, 4))])
    partly = explained(embedding[1].parameters(), model=embedding)
    assert "'0.weight' is in no parameter group" in partly


FIXTURE = Path(__file__).parent.parent / "normball_torch" / "routing_fixture"
RADII = {"input": 2, "onehot": 3, "hidden": 50, "output": 3000, "bias": 0.5}


@pytest.mark.parametrize("name", CASES)
def test_the_table_is_the_one_that_libtorch_has(name):
    make, rules = CASES[name]
    model = make()
    table = explained(model, model, rules=rules, radii=RADII)
    assert table == (FIXTURE / f"{name}.txt").read_text()


TRAINER = ["trainer_gpt", "trainer_cnn", "trainer_mlp"]


@pytest.mark.parametrize("name", TRAINER)
def test_the_table_is_the_one_that_the_trainer_has(name):
    rows = [line.split() for line in (FIXTURE / f"{name}.parameters").read_text().splitlines()]
    group = {"params": [nn.Parameter(torch.zeros(*map(int, row[2].split("x")))) for row in rows],
             "param_names": [row[0] for row in rows], "kinds": [row[1] for row in rows]}
    rules = {row[0]: {"role": row[3]} for row in rows if len(row) > 3}
    assert explained([group], rules=rules, radii=RADII) == (FIXTURE / f"{name}.txt").read_text()
    assert explained([group], rules=rules, radii="auto") == (FIXTURE / f"{name}_auto.txt").read_text()


def test_every_table_of_the_fixture_is_tested():
    assert {path.stem for path in FIXTURE.iterdir()} == {*CASES, *TRAINER, *(f"{name}_auto" for name in TRAINER)}


def test_weight_normalization():
    model = nn.Sequential(nn.utils.weight_norm(nn.Conv2d(3, 8, 3)), nn.utils.weight_norm(nn.Linear(8, 4)))
    assert norms(ClippedScion(model, **OPTIONS)) == {
        "0.weight_g": "rms", "0.weight_v": "spectral(input)", "0.bias": "rms", "1.weight_g": "rms", "1.weight_v": "sign",
        "1.bias": "rms"}
    reparametrized = nn.Sequential(nn.Conv2d(8, 8, 3, groups=8, bias=False), nn.Linear(8, 4, bias=False))
    nn.utils.parametrizations.orthogonal(reparametrized[1])
    nn.utils.parametrizations.spectral_norm(reparametrized[0])
    assert norms(ClippedScion(reparametrized, **OPTIONS)) == {
        "0.parametrizations.weight.original": "row", "1.parametrizations.weight.original": "sign"}


def test_rules_give_lrs_that_follow_the_schedule():
    a, b = (nn.Parameter(torch.zeros(4, 3, dtype=torch.float64)) for _ in range(2))
    optimizer = ClippedScion([("a", a), ("b", b)], lr=0.4, alpha=1.0, rho=1e-9, norm="sign(unit)",
                             rules={"b": dict(lr=0.8)})
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    for k in range(3):
        before = a.detach().clone(), b.detach().clone()
        a.grad, b.grad = torch.ones_like(a), torch.ones_like(b)
        optimizer.step()
        schedule.step()
        assert torch.allclose(before[0] - a, torch.full_like(a, 0.4 * 0.5 ** k))
        assert torch.allclose(before[1] - b, torch.full_like(b, 0.8 * 0.5 ** k))
    assert "lr 0.8 by rule 'b'" in optimizer.explain()
    with pytest.raises(ValueError, match="lr.*-1"):
        ClippedScion([("a", a)], **OPTIONS, rules={"a": dict(lr=-1.0)})
    with pytest.raises(ValueError, match="'a'.*1.5"):
        ClippedScion([("a", a)], **OPTIONS, constrained=True, rules={"a": dict(lr=1.5)})


@pytest.mark.parametrize("grouped", [False, True])
def test_a_rule_on_any_name_of_a_tied_weight_reaches_it(grouped):
    model = nn.Module()
    model.wte, model.lm_head = nn.Embedding(20, 8), nn.Linear(8, 20, bias=False)
    model.lm_head.weight = model.wte.weight
    given = named_groups(model, prefix="m") + named_groups(nn.Linear(8, 8), prefix="n") if grouped else model
    name = "m.lm_head.weight" if grouped else "lm_head.weight"
    optimizer = ClippedScion(given, **OPTIONS, rules={name: dict(norm="row", radius=7.0)})
    for each in (optimizer, pickle.loads(pickle.dumps(optimizer))):
        route = each._routing().routes[0]
        assert (route.name.endswith("wte.weight"), route.norm, route.radius) == (True, "row", 7.0)
        assert "lm_head" not in each.explain().replace(f"rule '{name}'", "")
    weight = model.wte.weight.detach().clone()
    model.wte.weight.grad = torch.randn(20, 8)
    optimizer.step()
    moved = (weight - model.wte.weight.detach()).norm(dim=1)
    assert torch.allclose(moved, moved[0].expand(20), rtol=1e-4), "the step of the rule's norm has rows of one length"
    loaded = ClippedScion(given, **OPTIONS, rules={name: dict(norm="row", radius=7.0)})
    loaded.load_state_dict(optimizer.state_dict())
    loaded.step()
    with pytest.raises(ValueError, match="matches no parameter"):
        ClippedScion(given, **OPTIONS, rules={"lm_haed.weight": dict(norm="row")})
    with pytest.raises(ValueError, match="aliases of group 0 must be a dict"):
        ClippedScion([dict(params=[torch.zeros(2, 2)], param_names=["a"], aliases=["b"])], **OPTIONS)
