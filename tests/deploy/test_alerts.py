"""Alerts: on metrics and labels that there are, each with something to do."""

import re

import pytest

from hetune import errors
from hetune.service.http.problems import STATUS

from ._files import DEPLOY, ROOT, load

[FILE] = load(DEPLOY / "prometheus/alerts.yml")
RULES = {rule["alert"]: rule for group in FILE["groups"] for rule in group["rules"]}
OF_PROMETHEUS = {"instance", "job"}


def samples():
    """Labels by sample, of the metrics in the documents, which are those that there are."""
    found = {"up": set()}
    for line in (ROOT / "docs/service-reference.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("| `hetune_"):
            name, kind, labels, _ = (cell.strip() for cell in line.strip("|").split("|"))
            known = set(re.findall(r"`(\w+)`", labels))
            name = name.strip("`")
            if kind == "histogram":
                found |= {f"{name}_{end}": known for end in ("sum", "count")}
                found[f"{name}_bucket"] = known | {"le"}
            else:
                found[name] = known
    return found


@pytest.mark.parametrize("name", RULES)
def test_an_alert_is_about_metrics_that_there_are(name):
    expression = RULES[name]["expr"]
    known = samples()
    named = set(re.findall(r"\b(hetune_\w+|up)\b", expression))
    assert named
    assert named <= set(known)
    labels = set.union(*(known[sample] for sample in named)) | OF_PROMETHEUS
    for group in re.findall(r"by \((.*?)\)", expression):
        assert set(group.split(", ")) <= labels
    for label, _ in re.findall(r'(\w+)(?:=~?|!=)"([^"]*)"', expression):
        assert label in labels
    kept = [set(group.split(", ")) for group in re.findall(r"by \((.*?)\)", expression)]
    for label in re.findall(r"\$labels\.(\w+)", RULES[name]["annotations"]["summary"]):
        assert all(label in group for group in kept)


def reasons():
    """Reasons of failures that an alert is about, by alert."""
    for name, rule in RULES.items():
        for names in re.findall(r'reason=~?"([\w|]+)"', rule["expr"]):
            yield name, set(names.split("|"))


def test_reasons_of_failures_are_errors_that_there_are():
    assert list(reasons())
    for _, named in reasons():
        assert named <= {kind.__name__ for kind in STATUS}


def test_an_alert_about_an_error_is_about_all_kinds_of_it():
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    for alert, named in reasons():
        above = tuple(kind for kind in kinds if kind.__name__ in named)
        assert named == {kind.__name__ for kind in kinds if issubclass(kind, above)}, alert


@pytest.mark.parametrize("name", RULES)
def test_an_alert_says_how_urgent_it_is_and_the_documents_what_to_do(name):
    rule = RULES[name]
    assert rule["labels"]["severity"] in ("page", "ticket")
    page = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
    assert f"| `{name}` |" in page


def test_the_documents_name_no_other_alert():
    page = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(Hetune\w+)` \|", page, re.M)) == set(RULES)
