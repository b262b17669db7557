"""Differences of configuration and versions in the report."""

import json
import re
from pathlib import Path

from tests.support.report_page import read, section


def test_differing_keys_come_first_and_the_others_are_collapsed(rlher, two_agents: list[str]) -> None:
    rlher("report", *two_agents)
    shown, collapsed = section(read(), "configuration").split("<details>")
    assert re.findall(r'<th scope="row">(.*?)</th>(.*?)</tr>', shown) == [
        ("her.n_sampled_goal", "<td>4</td><td>2</td>"),
        ("seed", "<td>0, 1, 2</td><td>0, 1, 2</td>"),
    ]
    assert '<th scope="row">algo.learning_rate</th><td>0.001</td>' in collapsed
    assert "her.n_sampled_goal" not in collapsed


def test_versions_that_differ(rlher, two_agents: list[str]) -> None:
    for folder in Path("logs").glob("*/*"):
        torch = "2.9" if folder.parent.name == "bad" else "2.8"
        meta = {"python": "3.11.7", "packages": {"torch": torch, "numpy": "2.4"}, "git": {"commit": "0123456789abcdef"}}
        (folder / "meta.json").write_text(json.dumps(meta))
        (folder / "command.txt").write_text(f"rlher train seed={folder.name} 'a=<b>'\n")
    rlher("report", *two_agents)
    shown, collapsed = section(read(), "versions").split("<details>")
    assert re.findall(r'<th scope="row">(.*?)</th>(.*?)</tr>', shown) == [("torch", "<td>2.8</td><td>2.9</td>")]
    assert '<th scope="row">git.commit</th><td>0123456789</td>' in collapsed
    runs = section(read(), "runs")
    assert runs.count("<code>rlher train seed=1 &#39;a=&lt;b&gt;&#39;</code>") == 2
    assert "logs/good/2: seed 2, 1,000 steps" in runs
    assert "<code>rlher report logs/good logs/bad</code>" in read()
