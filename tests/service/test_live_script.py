"""The script of a job's page, without a browser."""

import json
import shutil
import subprocess

import pytest

from hetune.service.pages.render import static

WORLD = """
const heard = {};
class EventSource {
  static CLOSED = 2;
  constructor() { globalThis.source = this; }
  addEventListener(kind, what) { heard[kind] = what; }
  close() {}
}
Object.assign(globalThis, {
  EventSource,
  document: { getElementById: () => ({ dataset: {}, querySelector: () => null }) },
  location: { reload: () => console.log("reload") },
  addEventListener: (kind, what) => { heard[kind] = what; },
  setTimeout: (what, after) => { console.log(`after ${after}`); globalThis.due = what; return 7; },
  clearTimeout: (id) => { console.log(`not ${id}`); },
});
"""
PLAY = """
source.readyState = 0;
heard.error();
source.readyState = EventSource.CLOSED;
heard.error();
due();
heard.beforeunload();
"""


def test_a_page_whose_events_were_refused_loads_itself_anew():
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node: install it to have the script run")
    text = static("live.js").decode()
    source = f"{WORLD}(0, eval)({json.dumps(text)});{PLAY}"
    found = subprocess.run(
        [node, "--input-type=commonjs", "-e", source],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert found.stdout.split("\n") == ["after 5000", "reload", "not 7", ""]
