"""`rlher report`: what is on the page, and what Chromium makes of it."""

import base64
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from selenium.webdriver import ActionChains, Chrome, Keys
from selenium.webdriver.common.actions.wheel_input import ScrollOrigin
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

from rlher.analysis import loading, plotting
from rlher.analysis.html import media
from rlher.evaluation.video.writer import open_video
from tests.conftest import Make
from tests.support.browser import chromium, complaints, is_installed, requests, switches

STUDY = Path(__file__).parents[2] / "logs" / "benchmark" / "optimize-bits15"
NASTY = "</script><script>hacked = 1</script><img src=x onerror='hacked = 2'>\"'{{ 7 * 7 }}"


def film(path: Path, frames: list[np.ndarray], fps: int) -> None:
    with open_video(path, frames[0].shape[1::-1], fps) as add:
        for frame in frames:
            add(frame)


def read(path: str | Path = "logs/report.html") -> str:
    return Path(path).read_text(encoding="utf-8")


def data(page: str) -> list[dict[str, Any]]:
    """What the page's script draws."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page)
    assert found
    return json.loads(found[1])


def section(page: str, name: str) -> str:
    return page.split(f'<section id="{name}">')[1].split("</section>")[0]


@pytest.fixture
def two_agents(make_run: Make) -> list[str]:
    for seed in range(3):
        make_run(f"good/{seed}", seed, 0.1)
        make_run(f"bad/{seed}", seed, 0.04 + 0.01 * seed, her={"n_sampled_goal": 2})
    return ["logs/good", "logs/bad"]


# ------------------------------------------------------------------------------------------ what is on it


def test_the_page_has_the_numbers_of_plot_and_compare(rlher, two_agents: list[str], tmp_path: Path) -> None:
    compared = rlher("compare", *two_agents).out
    done = rlher("report", *two_agents)
    assert (done.code, done.out, done.err) == (0, "logs/report.html\n", "")
    page = read()
    told = [
        cell.strip() for line in compared.splitlines() if line.startswith("| Some") for cell in line.split("|")[1:-1]
    ]
    assert "1,000 (1 of 3 never)" in told
    assert re.findall(r"<td>(.*?)</td>", section(page, "comparison")) == told
    success, profile = data(page)
    assert [line["label"] for line in success["lines"]] == ["good (3 seeds)", "bad (3 seeds)"]
    found, _ = loading.read([str(tmp_path / "logs" / "good")], "logs")
    drawn = plotting.numbers(plotting.averages([loading.Group("Some-v0", "good", found)], "timesteps", "success_rate"))
    for name, column in (("x", "x"), ("y", "iqm"), ("low", "low"), ("high", "high")):
        assert success["lines"][0][name] == pytest.approx(drawn[column].tolist())
    assert [len(x) for x, _ in success["lines"][0]["seeds"]] == [10, 10, 10]
    bad = profile["lines"][1]
    assert bad["x"] == pytest.approx([0, 0.4, 0.4, 0.5, 0.5, 0.6, 0.6, 1, 1])
    assert bad["y"] == pytest.approx([1, 1, 2 / 3, 2 / 3, 1 / 3, 1 / 3, 0, 0, 0], abs=1e-6)


def test_the_page_needs_nothing_else(rlher, two_agents: list[str]) -> None:
    rlher("report", *two_agents)
    page = read()
    assert re.findall(r'\b(?:src|href)="(?!data:|#)', page) == []
    assert re.findall(r"@import|url\((?!#)", page) == []
    policy = re.search(r'http-equiv="Content-Security-Policy" content="(.*?)"', page)
    assert policy
    assert policy[1].startswith("default-src &#39;none&#39;;")
    assert "unsafe" not in policy[1]


def test_what_differs_comes_first_and_the_rest_is_folded_away(rlher, two_agents: list[str]) -> None:
    rlher("report", *two_agents)
    shown, folded = section(read(), "configuration").split("<details>")
    assert re.findall(r'<th scope="row">(.*?)</th>(.*?)</tr>', shown) == [
        ("her.n_sampled_goal", "<td>4</td><td>2</td>"),
        ("seed", "<td>0, 1, 2</td><td>0, 1, 2</td>"),
    ]
    assert '<th scope="row">algo.learning_rate</th><td>0.001</td>' in folded
    assert "her.n_sampled_goal" not in folded


def test_versions_and_commands(rlher, two_agents: list[str]) -> None:
    for folder in Path("logs").glob("*/*"):
        torch = "2.9" if folder.parent.name == "bad" else "2.8"
        meta = {"python": "3.11.7", "packages": {"torch": torch, "numpy": "2.4"}, "git": {"commit": "0123456789abcdef"}}
        (folder / "meta.json").write_text(json.dumps(meta))
        (folder / "command.txt").write_text(f"rlher train seed={folder.name} 'a=<b>'\n")
    rlher("report", *two_agents)
    shown, folded = section(read(), "versions").split("<details>")
    assert "were not made alike" in shown
    assert re.findall(r'<th scope="row">(.*?)</th>(.*?)</tr>', shown) == [("torch", "<td>2.8</td><td>2.9</td>")]
    assert '<th scope="row">git.commit</th><td>0123456789</td>' in folded
    runs = section(read(), "runs")
    assert runs.count("<code>rlher train seed=1 &#39;a=&lt;b&gt;&#39;</code>") == 2
    assert "logs/good/2: seed 2, 1,000 steps" in runs
    assert "<code>rlher report logs/good logs/bad</code>" in read()


def test_one_run_has_a_line_and_no_claim(rlher, make_run: Make) -> None:
    folder = make_run("sac/Some-v0_1")
    assert rlher("report", str(folder), "--output", "a/b.html", "--title", "Mine & yours").code == 0
    page = read("a/b.html")
    assert "<h1>Mine &amp; yours</h1>" in page
    assert "fewer than 3 seeds, so no claim can be made about Some-v0, sac, future." in page
    (chart,) = data(page)
    (line,) = chart["lines"]
    assert (len(line["x"]), line["low"], line["seeds"]) == (10, [], [])
    assert "What differs" not in page


def test_by_makes_the_groups(rlher, two_agents: list[str]) -> None:
    rlher("report", "--by", "her.n_sampled_goal")
    (success, _) = data(read())
    assert {line["label"] for line in success["lines"]} == {"n_sampled_goal=4 (3 seeds)", "n_sampled_goal=2 (3 seeds)"}


def test_a_panel_an_environment(rlher, make_run: Make) -> None:
    make_run("a")
    make_run("b", env={"id": "Other-v0"})
    rlher("report")
    assert [chart["title"] for chart in data(read())] == ["Some-v0", "Other-v0"]
    assert '<th scope="col">Other-v0, sac, future</th>' in section(read(), "configuration")


# ----------------------------------------------------------------------------------------------- clips


def test_clips_are_on_the_page_as_far_as_there_is_room(rlher, make_run: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_run("a")
    (folder / "clips").mkdir()
    frames = [np.full((32, 32, 3), shade, np.uint8) for shade in (0, 128, 255)]
    film(folder / "clips" / "best_100.mp4", frames, 10)
    film(folder / "enjoy.gif", frames, 10)
    (folder / "enjoy.mp4").write_bytes(b"\0" * 100)
    os.mkfifo(folder / "clips" / "pipe.mp4")
    (folder / "clips" / "stranger.txt").write_text("no clip")
    done = rlher("report")
    clips = section(read(), "clips")
    assert "logs/a/enjoy.mp4: left out, it is damaged or not finished" in done.err
    assert "logs/a/enjoy.mp4: left out" in read()
    assert re.findall(r'<(video|img) src="(data:.*?);', clips) == [
        ("img", "data:image/gif"),
        ("video", "data:video/mp4"),
    ]
    monkeypatch.setattr(media, "CLIP_BYTES", 200)
    assert "best_100.mp4: left out, its 0 MB are more than 0" in rlher("report").err
    monkeypatch.setattr(media, "CLIP_BYTES", 10**6)
    monkeypatch.setattr(media, "PAGE_BYTES", (folder / "enjoy.gif").stat().st_size)
    assert "best_100.mp4: left out, the page has 0 MB of clips already" in rlher("report").err
    assert "enjoy.gif" in section(read(), "clips")


# ---------------------------------------------------------------------------------------------- studies


def test_a_study(rlher) -> None:
    done = rlher("report", str(STUDY))
    assert (done.code, done.err) == (0, "")
    page = read()
    tuning = section(page, "tuning")
    assert "<h1>bits15-poor-start</h1>" in page
    assert "20 done, 20 pruned trials" in tuning
    row = ["trial 8", "98.6 %", "100 / 96 / 100 / 99 / 98", "0.532", "2,960", "+0.826 [+0.770, +0.882]"]
    assert "".join(f"<td>{cell}</td>" for cell in row) in tuning
    assert "her.goal_selection_strategy=mix" in tuning
    assert "All 40 trials" in tuning
    assert tuning.count('src="data:image/png;base64,') == 1
    assert "--study-name bits15-poor-start" in tuning
    assert 'id="curves"' not in page


def test_a_study_beside_runs_and_its_own_best_ones(rlher, two_agents: list[str], make_run: Make) -> None:
    shutil.copytree(STUDY, "logs/optuna/study")
    make_run("optuna/study/trials/0/sac/Some-v0_1", 7, algo={"gamma": 0.5})
    make_run("optuna/study/reruns/0/sac/Some-v0_1", 1000, algo={"gamma": 0.9})
    rlher("report", *two_agents, "logs/optuna/study")
    labels = [line["label"] for line in data(read())[0]["lines"]]
    assert labels == ["good (3 seeds)", "bad (3 seeds)", "sac, future (1 seed)"]
    assert "gamma" in section(read(), "configuration").split("<details>")[0]


def test_a_study_that_has_only_begun(rlher) -> None:
    Path("study").mkdir()
    Path("study/journal.log").touch()
    assert rlher("report", "study", "--output", "a.html").code == 0
    assert "study: no verdict yet" in read("a.html")


@pytest.mark.parametrize(
    ("file", "content", "told"),
    [
        ("verdict.json", '{"study": "s", "candidates": [{"number": 1}]}', "its candidates are damaged"),
        ("verdict.json", '{"candidates": 3}', "its candidates are damaged"),
        ("verdict.json", "[1", "no verdict yet"),
        ("trials.csv", 'a,b\n1,2,3\n"', "trials.csv: "),
        ("trials.csv", "", "trials.csv: "),
        ("trials.csv", "a,b\n1\n", "All 1 trials"),
        ("strategies.png", "no picture", "strategies.png: left out, it is damaged"),
    ],
)
def test_a_damaged_study_is_told_and_the_rest_shown(rlher, file: str, content: str, told: str) -> None:
    shutil.copytree(STUDY, "study")
    Path("study", file).write_text(content)
    assert rlher("report", "study", "--output", "a.html").code == 0
    assert told in read("a.html")
    assert "exploration_fraction: 0.3" in read("a.html")


# -------------------------------------------------------------------------------------------- the hostile


def test_what_comes_from_files_is_escaped(rlher, make_run: Make) -> None:
    nasty = NASTY.replace("/", "∕")  # which no folder's name may hold
    folder = make_run(nasty, env={"id": NASTY}, algo={"activation": NASTY, NASTY: 1}, her={"goal_mix": [NASTY]})
    (folder / "command.txt").write_text(NASTY)
    (folder / "meta.json").write_text(json.dumps({NASTY: NASTY}))
    (folder / "result.json").write_text(json.dumps({"success_rate": 0.5, "status": NASTY}))
    make_run("broken<b>").joinpath("evaluations.csv").unlink()
    shutil.copytree(STUDY, f"study{nasty}")
    done = rlher("report", "logs", f"study{nasty}", "--title", NASTY)
    assert done.code == 0, done.err
    page = read()
    assert page.count("hacked") > 10
    assert "<script>hacked" not in page
    assert "<img src=x" not in page
    assert "<b>" not in page
    assert "49" not in section(page, "runs"), "a template inside a value"
    assert page.count("<script") == 2


def test_numbers_that_are_none(rlher, make_run: Make, two_agents: list[str]) -> None:
    (make_run("nan") / "result.json").write_text('{"success_rate": NaN, "episodes": "many"}')
    (make_run("seven") / "result.json").write_text('{"success_rate": 7}')
    (make_run("percent") / "evaluations.csv").write_text("timesteps,success_rate\n100,55\n")
    (make_run("text") / "evaluations.csv").write_text("timesteps,success_rate\n100,high\n")
    holes = make_run("holes/0", 9)
    (holes / "result.json").unlink()
    (holes / "evaluations.csv").write_text("timesteps,success_rate,crash_rate\n100,0.5,inf\n200,nan,-inf\n300,0.25,\n")
    done = rlher("report", *two_agents, *(f"logs/{name}" for name in ("nan", "seven", "percent", "text", "holes")))
    assert done.code == 0, done.err
    for name in ("seven", "percent"):
        assert re.search(rf"logs/{name}: its \S+ has .*not from 0 to 1", done.err)
    assert "logs/text: not evaluated yet" in done.err
    assert [line["y"] for line in data(read())[0]["lines"] if line["label"] == "holes (1 seed)"] == [[0.5, 0.25]]
    assert "<td>25.0 %</td>" in section(read(), "comparison")
    assert "NaN" not in json.dumps(data(read()))


def test_a_name_that_is_no_text(rlher, make_run: Make) -> None:
    folder = make_run("a")
    os.rename(folder, os.fsencode(folder) + b"\xff")
    assert rlher("report").code == 0
    assert "logs/a?: seed 0" in read()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--output", "a.pdf"), "must end in .html"),
        (("--output", "logs/a/config.yaml/a.html"), "cannot write"),
        (("nowhere",), "there is no folder nowhere."),
        (("--by", "her.n_sampled_gaol"), "did you mean 'her.n_sampled_goal'"),
    ],
)
def test_mistakes_get_a_sentence(rlher, make_run: Make, words: tuple[str, ...], sentence: str) -> None:
    make_run("a")
    done = rlher("report", *words)
    assert done.code == 2
    assert sentence in done.err
    assert "Traceback" not in done.err


def test_the_page_is_in_the_package() -> None:
    root = Path(__file__).parents[2]
    project = (root / "pyproject.toml").read_text()
    assert '"rlher.analysis.html" = ["page.*"]' in project
    folders = {".".join(path.parent.relative_to(root).parts) for path in (root / "rlher").rglob("__init__.py")}
    named = set(re.findall(r'"([\w.]+)"', re.search(r"\npackages = \[(.*?)\]", project)[1]))  # type: ignore[index]
    assert folders <= named


# ------------------------------------------------------------------------------------------- in a browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Chrome]:
    if not is_installed():
        assert "CI" not in os.environ, "CI installs Chromium"
        pytest.skip("no Chromium here: apt-get install chromium chromium-driver")
    with chromium() as found:
        yield found


@pytest.fixture
def page(browser: Chrome, rlher, make_run: Make, two_agents: list[str], tmp_path: Path) -> Chrome:
    """The report on two agents, one of them called something nasty, with a clip and a study, open in a browser."""
    nasty = NASTY.replace("/", "∕")
    Path("logs/bad").rename(f"logs/{nasty}")
    frames = [np.full((32, 32, 3), shade, np.uint8) for shade in (0, 128, 255)]
    for name in ("enjoy.mp4", "enjoy.gif"):
        film(tmp_path / "logs" / "good" / "0" / name, frames, 10)
    assert rlher("report", "logs/good", f"logs/{nasty}", str(STUDY)).code == 0
    browser.get((tmp_path / "logs" / "report.html").as_uri())
    return browser


def chart(page: Chrome) -> WebElement:
    found = page.find_element(By.CSS_SELECTOR, ".plot > svg")
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", found)
    return found


def ticks(page: Chrome, axis: str) -> list[str]:
    return [tick.text for tick in chart(page).find_elements(By.CSS_SELECTOR, f"text.{axis}")]


def is_drawn(page: Chrome) -> list[bool]:
    """Whether each of the first chart's lines is to be seen."""
    return [line.is_displayed() for line in chart(page).find_elements(By.CSS_SELECTOR, ".iqm path")]


def drag(page: Chrome, right: int, down: int) -> None:
    ActionChains(page).move_to_element(chart(page)).click_and_hold().move_by_offset(right, down).release().perform()


def test_it_renders_quietly_and_fetches_nothing(page: Chrome) -> None:
    fetched = [url for url in requests(page) if not url.startswith("data:")]
    assert len(fetched) == 1, fetched
    assert fetched[0].endswith("report.html")
    assert complaints(page) == []
    assert is_drawn(page) == [True, True]
    assert len(chart(page).find_elements(By.CSS_SELECTOR, ".seeds path")) == 6
    assert ticks(page, "x") == ["0", "200", "400", "600", "800", "1k"]
    assert ticks(page, "y") == ["0 %", "20 %", "40 %", "60 %", "80 %", "100 %"]
    width = "return document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    assert page.execute_script(width), "no part of it is wider than the window"
    sides = "return [...document.querySelectorAll('video, img')].map((each) => each.videoWidth ?? each.naturalWidth)"
    video, image, picture = page.execute_script(sides)
    assert (video, image) == (32, 32)
    assert picture > 100


def test_nothing_from_a_file_runs(page: Chrome) -> None:
    assert "onerror" in page.find_element(By.CSS_SELECTOR, ".legend").text
    script = "const s = document.createElement('script'); s.textContent = 'hacked = 3'; document.body.append(s)"
    page.execute_script(script)
    assert page.execute_script("return typeof hacked") == "undefined"
    assert any("Content Security Policy" in line for line in complaints(page))


def test_a_button_hides_its_line_by_mouse_and_by_key(page: Chrome) -> None:
    button = page.find_elements(By.CSS_SELECTOR, ".legend button")[1]
    button.click()
    assert is_drawn(page) == [True, False]
    assert button.get_attribute("aria-pressed") == "false"
    ActionChains(page).move_to_element(chart(page)).perform()
    assert len(page.find_elements(By.CSS_SELECTOR, ".tip div")) == 1
    button.send_keys(Keys.ENTER)
    assert is_drawn(page) == [True, True]


def test_zoom(page: Chrome) -> None:
    whole = ticks(page, "x"), ticks(page, "y")
    drag(page, 200, 2)
    assert ticks(page, "x")[0] not in ("0", "200")
    assert ticks(page, "y") == whole[1], "a drag along one axis leaves the other"
    drag(page, 100, 50)
    assert ticks(page, "y") != whole[1]
    ActionChains(page).double_click(chart(page)).perform()
    assert (ticks(page, "x"), ticks(page, "y")) == whole
    wheel = ScrollOrigin.from_element(chart(page))
    with_ctrl = ActionChains(page).key_down(Keys.CONTROL).scroll_from_origin(wheel, 0, -100).key_up(Keys.CONTROL)
    with_ctrl.perform()
    assert (ticks(page, "x"), ticks(page, "y")) != whole
    page.find_element(By.CSS_SELECTOR, ".reset").click()
    assert (ticks(page, "x"), ticks(page, "y")) == whole
    chart(page).send_keys("+")
    assert ticks(page, "x") != whole[0]
    chart(page).send_keys(Keys.ESCAPE)
    assert ticks(page, "x") == whole[0]
    assert complaints(page) == []


def test_values_are_read_off(page: Chrome) -> None:
    chart(page).send_keys(Keys.ARROW_RIGHT)
    first, second, third = page.find_element(By.CSS_SELECTOR, ".tip").text.splitlines()[:3]
    assert re.fullmatch(r"environment steps: [56]00", first)
    steps = int(first[-3:])
    assert second.strip() == f"good (3 seeds): {steps / 10:.1f} % [{steps / 10:.1f} %, {steps / 10:.1f} %]"
    assert f"(3 seeds): {steps / 20:.1f} % [{steps / 25:.1f} %" in third


def test_a_command_is_copied(page: Chrome) -> None:
    button = page.find_element(By.CSS_SELECTOR, "footer button.copy")
    button.click()
    marked = page.execute_script("return String(getSelection())")
    assert button.text == "copied" or (button.text == "Ctrl-C" and marked.startswith("rlher report logs/good"))


def test_all_of_it_is_printed(page: Chrome, tmp_path: Path) -> None:
    def pages(pdf: bytes) -> int:
        return len(re.findall(rb"/Type\s*/Page\b", pdf))

    out = tmp_path / "report.pdf"
    words = [*switches(), f"--user-data-dir={tmp_path / 'profile'}", "--no-pdf-header-footer", f"--print-to-pdf={out}"]
    url = (tmp_path / "logs" / "report.html").as_uri()
    done = subprocess.run(["chromium", *words, url], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    folded = "return document.querySelectorAll('details:not([open])').length"
    assert page.execute_script(folded) == 2, "the trials, and the keys that do not differ"
    opened = pages(base64.b64decode(page.print_page()))
    assert page.execute_script(folded) == 2, "as it was"
    page.execute_script("Object.defineProperty(HTMLDetailsElement.prototype, 'open', {set() {}})")
    assert pages(out.read_bytes()) == opened > pages(base64.b64decode(page.print_page())) > 1
