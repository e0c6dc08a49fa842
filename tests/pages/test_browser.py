"""Pages in a browser: they lead somewhere, ask for nothing elsewhere, and all can use them."""

import os
import re
import shutil
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.service._serving import make_service, serving, tiny_graph

from hetune.service.core.jobs.documents import JobRequest
from hetune.service.server.app import application

from ._world import LIMITS, campaign, work

playwright = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install it")
expect = playwright.expect
expect.set_options(timeout=60_000)
pytestmark = pytest.mark.browser

CHECKS = (Path(__file__).parent / "checks.js").read_text(encoding="utf-8")
CHROMIUM = os.environ.get("HETUNE_TEST_CHROMIUM") or shutil.which("chromium")
KEY = "open sesame"
LEFT = "net::ERR_ABORTED"  # what Chromium says of requests that it gave up itself
NAMES = (
    *("overview", "graphs", "graph", "models", "model", "choice", "jobs", "done", "running"),
    *("cost models", "cost model", "playground"),
)


def check(page, name):
    """What a function of `checks.js` says of a page."""
    return page.evaluate(f"() => {{ {CHECKS}\nreturn {name}(); }}")


@pytest.fixture(scope="module")
def chromium():
    """A headless Chromium."""
    if CHROMIUM is None:
        pytest.skip("no Chromium: install it (Debian: apt-get install chromium)")
    with playwright.sync_playwright() as started:
        # The tests may run as root, where its sandbox does not work; pages are ours.
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def served():
    """Serves applications until the test's pages are closed; gives the URL of each."""
    with ExitStack() as stack:
        yield lambda app: stack.enter_context(serving(app))


@pytest.fixture
def opened(chromium, served):
    """Opens pages, and checks that nothing went wrong on them, nor was asked for elsewhere.

    It needs `served`, so that no page outlives its server.
    """
    contexts, wrong = [], []

    def open_page(url, path="/", **options):
        context = chromium.new_context(**options)
        context.set_default_timeout(60_000)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: wrong.append(message.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda r: r.url.startswith(url) or wrong.append(f"asks for {r.url}"))
        # Whoever leaves a page does not wait for its icon, nor for the end of a job's events.
        page.on("requestfailed", lambda r: r.failure == LEFT or wrong.append((r.url, r.failure)))
        page.goto(url + path)
        return page

    open_page.wrong = wrong
    yield open_page
    for context in contexts:
        context.close()
    assert wrong == []


@pytest.mark.parametrize("name", NAMES)
def test_everybody_can_use_a_page(opened, url, pages, name):
    page = opened(url, pages[name])
    for details in page.locator("details").all():
        details.evaluate("element => { element.open = true }")
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        assert check(page, "faint") == [], theme
    assert check(page, "unnamed") == []
    assert check(page, "misplaced") == []
    assert page.evaluate("document.querySelectorAll('main h1').length") == 1
    assert page.evaluate("document.documentElement.lang") == "en"
    assert page.title().endswith("· hetune")


def test_the_checks_find_what_is_wrong(chromium):
    page = chromium.new_page()
    page.set_content(
        "<h1>one</h1><h3 id=a>three</h3><p id=a style='color: #888'>faint</p><input><img src=''>"
        "<button></button><svg></svg><nav></nav><table><tr><th>head</th></tr></table>"
        "<p aria-describedby=nothing>text</p>"
    )
    assert check(page, "faint") == ['3.54: <p id="a" style="color: #888">faint</p>']
    assert len(check(page, "unnamed")) == 7
    assert check(page, "misplaced") == [3, "a"]
    page.close()


@pytest.mark.parametrize("name", NAMES)
def test_a_page_fits_a_narrow_screen(opened, url, pages, name):
    page = opened(url, pages[name], viewport={"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.parametrize("name", ["overview", "choice", "jobs", "playground"])
def test_the_keyboard_reaches_everything(opened, url, pages, name):
    page = opened(url, pages[name])
    expected = check(page, "reachable")
    assert len(expected) > 8
    for name in expected:
        page.keyboard.press("Tab")
        assert check(page, "focused") == [name, True]
    page.reload()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("#content$"))
    expect(page.locator("#content")).to_be_focused()


@pytest.mark.parametrize("script", [True, False])
def test_from_page_to_page(opened, url, script):
    page = opened(url, java_script_enabled=script)
    for link, heading in (
        *(("Graphs", "Graphs"), ("Models", "Models"), ("Jobs", "Jobs")),
        *(("Cost models", "Cost models"), ("Playground", "Playground"), ("hetune", "Overview")),
    ):
        page.get_by_label("Pages").get_by_role("link", name=link, exact=True).click()
        expect(page.locator("h1")).to_have_text(heading)
    page.get_by_role("link", name="Graphs", exact=True).first.click()
    page.locator("main a.id").first.click()
    page.locator("table a", has_text=re.compile("^m$")).click()
    expect(page.get_by_role("heading", name="Layer 0: rgcn")).to_be_visible()


@pytest.mark.parametrize("script", [True, False])
def test_the_theme_is_remembered(opened, url, pages, script):
    page = opened(url, pages["choice"], java_script_enabled=script, color_scheme="light")
    grounds = {}
    for theme in ("dark", "light", "auto"):
        page.get_by_role("button", name=theme, exact=True).click()
        expect(page.locator(f"html[data-theme={theme}]")).to_have_count(1)
        expect(page.locator("button[aria-pressed=true]")).to_have_text([theme])
        expect(page).to_have_url(url + pages["choice"])  # the query, too
        if script:
            ground = "getComputedStyle(document.body).backgroundColor"
            grounds[theme] = page.evaluate(ground)
    if script:
        assert grounds["light"] == grounds["auto"] != grounds["dark"]


@pytest.mark.parametrize("script", [True, False])
def test_the_playground(opened, url, script):
    page = opened(url, "/ui/playground", java_script_enabled=script)
    page.get_by_label("Edges, one a line").fill("a knows b\nb knows <b>c</b>")
    page.get_by_label("Model", exact=True).select_option("rgat")
    page.get_by_label("Heads").select_option("2")
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_role("heading", name="What came out")).to_be_visible()
    expect(page.locator("main")).to_contain_text("drawn rgat on 3 nodes, 2 edges")
    first = page.get_by_label("First rows of the output")
    expect(first.get_by_text("<b>c</b>")).to_be_visible()
    expect(page.get_by_label("Heads")).to_have_value("2")  # to be run again, changed


@pytest.fixture
def mine(tmp_path, registry, served):
    """A service of the test's own, with a candidate in its model registry, and where it is."""
    shutil.copytree(registry, tmp_path / "registry")
    service = make_service(tmp_path, limits=LIMITS)
    return service, served(application(service))


def test_a_job_is_watched_as_it_goes_on(opened, mine):
    service, url = mine
    page = opened(url, "/ui/jobs")
    page.get_by_label("Campaign").select_option("smoke")
    page.get_by_role("button", name="Submit").click()
    page.wait_for_url("**/ui/jobs/1")
    state = page.locator("[data-state]")
    expect(state).to_have_text("queued")
    lines = page.locator("[data-log] li").count()
    work(service, most=2)
    page.locator("[data-state] .running").wait_for()
    page.locator("[data-figure=problems_done]", has_text=re.compile("^2$")).wait_for()
    page.locator("[data-log] li").nth(lines + 3).wait_for()
    expect(page.locator("progress")).not_to_have_js_property("value", 0)
    texts = page.locator("[data-log] li").all_inner_texts()
    assert len(texts) == len(set(texts))  # none is told twice
    page.get_by_role("button", name="Cancel").click()
    page.get_by_text("cancelled", exact=True).first.wait_for()
    expect(page.get_by_role("button", name="Cancel")).to_have_count(0)


def test_the_page_of_a_job_that_ends_shows_how_it_ended(opened, mine):
    service, url = mine
    job = service.jobs.submit(JobRequest(campaign=campaign())).id
    page = opened(url, f"/ui/jobs/{job}")
    page.locator("[data-state] .queued").wait_for()
    work(service)
    page.locator("#job:not([data-events]) [data-state] .succeeded").wait_for()
    assert "live.js" not in page.content()
    expect(page.get_by_label("Variants of task 1")).to_be_visible()


def test_whoever_leaves_the_page_of_a_job_that_ends_gets_the_page_asked_for(opened, mine):
    service, url = mine
    job = service.jobs.submit(JobRequest(campaign=campaign())).id
    page = opened(url, f"/ui/jobs/{job}")
    page.locator("[data-state] .queued").wait_for()

    def slowly(route):
        work(service)
        time.sleep(1)  # long enough for the end of the job to be told
        route.continue_()

    page.route("**/ui/graphs", slowly)
    page.get_by_role("link", name="Graphs").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Graphs")


def test_without_javascript_the_page_of_a_job_loads_itself_anew(opened, mine):
    service, url = mine
    job = service.jobs.submit(JobRequest(campaign=campaign())).id
    page = opened(url, f"/ui/jobs/{job}", java_script_enabled=False)
    work(service)
    page.locator("[data-state] .succeeded").wait_for(timeout=60_000)


@pytest.mark.parametrize("script", [True, False])
def test_a_cost_model_is_promoted_and_rolled_back(opened, mine, script):
    _, url = mine
    page = opened(url, "/ui/cost-models", java_script_enabled=script)
    page.get_by_role("button", name="Promote").click()
    champion = page.locator("tr.marked .tag", has_text="champion")
    champion.wait_for()
    page.get_by_role("button", name="Roll back").click()
    page.get_by_role("button", name="Promote").wait_for()
    expect(champion).to_have_count(0)
    page.get_by_role("link", name=re.compile(r"^\d{8}-")).first.click()
    pictures = page.locator("main img")
    expect(pictures.first).to_be_attached()
    pictures.first.scroll_into_view_if_needed()
    assert pictures.first.evaluate("image => image.decode().then(() => image.naturalWidth)") > 100


@pytest.mark.parametrize("script", [True, False])
def test_a_model_is_measured(opened, mine, script):
    service, url = mine
    service.graphs.add(tiny_graph())
    page = opened(url, "/ui/models/m", java_script_enabled=script)
    page.get_by_role("button", name="Choose").click()
    table = page.get_by_label("Variants of layer 0", exact=True)
    assert "×" not in table.inner_text()
    page.get_by_role("button", name="Measure").click()
    expect(table.locator("td", has_text="×").nth(4)).to_be_visible()
    page.get_by_text("Why: predicted time by launch").first.click()
    expect(page.get_by_label("Launches of layer 0")).to_be_visible()
    page.get_by_role("button", name="Unload").click()
    page.get_by_text("on disk").wait_for()
    assert not service.models.is_loaded("m", 1)


@pytest.mark.parametrize("script", [True, False])
def test_a_key_is_asked_for(opened, served, tmp_path, script):
    url = served(application(make_service(tmp_path / "data"), key=KEY))
    page = opened(url, "/ui/jobs", java_script_enabled=script)
    if script:
        found = [check(page, name) for name in ("faint", "unnamed", "misplaced")]
        assert found == [[], [], []]
    page.get_by_label("Key").fill("close sesame")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_contain_text("none of this service's keys")
    page.get_by_label("Key").fill(KEY)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url("**/ui/jobs")
    assert KEY not in str(page.context.cookies())
    [session] = [c for c in page.context.cookies() if c["name"] == "hetune_session"]
    assert session["httpOnly"]
    assert session["sameSite"] == "Strict"
    if script:
        assert "hetune_session" not in page.evaluate("document.cookie")
    page.get_by_role("button", name="Log out").click()
    page.get_by_label("Key").wait_for()
    page.goto(f"{url}/ui/jobs")
    expect(page).to_have_url(re.compile("/ui/login"))
    # That a form was answered by a 401 is told in the console, and nowhere else.
    opened.wrong[:] = [text for text in opened.wrong if "401 (Unauthorized)" not in text]


def test_the_policy_lets_no_script_of_a_page_run(opened, url):
    page = opened(url)
    with (
        page.expect_console_message(lambda message: "script-src" in message.text),
        page.expect_console_message(lambda message: "style-src" in message.text),
    ):
        page.evaluate(
            "() => { const s = document.createElement('script'); s.textContent = 'window.ran = 1';"
            " document.head.append(s); document.body.setAttribute('style', 'color: red') }"
        )
    assert page.evaluate("window.ran") is None
    assert page.evaluate("getComputedStyle(document.body).color") != "rgb(255, 0, 0)"
    assert len(opened.wrong) == 2
    assert all("Content Security Policy" in text for text in opened.wrong)
    opened.wrong.clear()


def test_no_page_outlives_its_server(opened, mine):
    page = opened(mine[1], "/ui/jobs")
    with page.expect_request("**/icon.svg?0.*"):
        page.evaluate("void setInterval(() => fetch(`/ui/static/icon.svg?${Math.random()}`), 5)")
