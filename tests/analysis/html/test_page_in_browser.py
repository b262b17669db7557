"""The report in Chromium: drawing, zoom, values, copying, dark mode and printing."""

import base64
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver import ActionChains, Chrome, Keys
from selenium.webdriver.common.actions.wheel_input import ScrollOrigin
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

from rlher.core import stats
from tests.analysis.conftest import HTML_IN_NAME, STUDY, write_clip
from tests.conftest import Make
from tests.support.browser import browser_arguments, chromium, console_messages, is_installed, requested_urls

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def browser() -> Iterator[Chrome]:
    if not is_installed():
        assert "CI" not in os.environ, "CI installs Chromium"
        pytest.skip("needs Chromium: apt-get install chromium chromium-driver")
    with chromium() as found:
        yield found


@pytest.fixture
def page(browser: Chrome, rlher, make_run: Make, two_agents: list[str], tmp_path: Path) -> Chrome:
    """The report on two agents, one of them with HTML in its name, with a clip and a study, open in a browser."""
    in_folder = HTML_IN_NAME.replace("/", "∕")
    Path("logs/bad").rename(f"logs/{in_folder}")
    for name in ("enjoy.mp4", "enjoy.gif"):
        write_clip(tmp_path / "logs" / "good" / "0" / name)
    assert rlher("report", "logs/good", f"logs/{in_folder}", str(STUDY)).code == 0
    browser.get((tmp_path / "logs" / "report.html").as_uri())
    return browser


def chart(page: Chrome) -> WebElement:
    found = page.find_element(By.CSS_SELECTOR, ".plot > svg")
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", found)
    return found


def ticks(page: Chrome, axis: str) -> list[str]:
    return [tick.text for tick in chart(page).find_elements(By.CSS_SELECTOR, f"text.{axis}")]


def visible_lines(page: Chrome) -> list[bool]:
    """Return whether each line of the first chart is visible."""
    return [line.is_displayed() for line in chart(page).find_elements(By.CSS_SELECTOR, ".iqm path")]


def drag(page: Chrome, right: int, down: int) -> None:
    ActionChains(page).move_to_element(chart(page)).click_and_hold().move_by_offset(right, down).release().perform()


def test_the_page_renders_without_messages_and_requests(page: Chrome) -> None:
    fetched = [url for url in requested_urls(page) if not url.startswith("data:")]
    assert len(fetched) == 1, fetched
    assert fetched[0].endswith("report.html")
    assert console_messages(page) == []
    assert visible_lines(page) == [True, True]
    assert len(chart(page).find_elements(By.CSS_SELECTOR, ".seeds path")) == 6
    assert len(page.find_elements(By.CSS_SELECTOR, ".small .plot > svg")) == 2
    assert ticks(page, "x") == ["0", "200", "400", "600", "800", "1k"]
    assert ticks(page, "y") == ["0%", "20%", "40%", "60%", "80%", "100%"]
    width = "return document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    assert page.execute_script(width), "no horizontal scrolling"
    sides = "return [...document.querySelectorAll('video, img')].map((each) => each.videoWidth ?? each.naturalWidth)"
    video, image, picture = page.execute_script(sides)
    assert (video, image) == (32, 32)
    assert picture > 100


def test_no_script_from_a_file_runs(page: Chrome) -> None:
    assert "onerror" in page.find_element(By.CSS_SELECTOR, ".legend").text
    script = "const s = document.createElement('script'); s.textContent = 'hacked = 3'; document.body.append(s)"
    page.execute_script(script)
    assert page.execute_script("return typeof hacked") == "undefined"
    assert any("Content Security Policy" in line for line in console_messages(page))


def test_a_button_hides_its_line(page: Chrome) -> None:
    button = page.find_elements(By.CSS_SELECTOR, ".legend button")[1]
    button.click()
    assert visible_lines(page) == [True, False]
    assert button.get_attribute("aria-pressed") == "false"
    ActionChains(page).move_to_element(chart(page)).perform()
    assert len(page.find_elements(By.CSS_SELECTOR, ".tip div")) == 1
    button.send_keys(Keys.ENTER)
    assert visible_lines(page) == [True, True]


def test_small_charts_have_an_axis_of_their_own_and_the_legend_above(page: Chrome) -> None:
    returns, speed = page.find_elements(By.CSS_SELECTOR, ".small .plot > svg")
    marks, equal = ([tick.text for tick in each.find_elements(By.CSS_SELECTOR, "text.y")] for each in (returns, speed))
    assert marks == ["-10", "-8", "-6", "-4", "-2", "0"]
    assert "50" in equal, "all values are 50"
    page.find_elements(By.CSS_SELECTOR, ".legend button")[1].click()
    assert [line.is_displayed() for line in returns.find_elements(By.CSS_SELECTOR, ".iqm path")] == [True, False]
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", returns)
    returns.send_keys(Keys.ARROW_RIGHT)
    steps, value = returns.find_element(By.XPATH, "..").find_element(By.CSS_SELECTOR, ".tip").text.splitlines()
    assert value.strip().startswith(f"good (3 seeds): {int(steps[-3:]) / 100 - 10:.4g} [")


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
    assert console_messages(page) == []


def test_arrow_keys_show_values(page: Chrome) -> None:
    chart(page).send_keys(Keys.ARROW_RIGHT)
    first, second, third = page.find_element(By.CSS_SELECTOR, ".tip").text.splitlines()[:3]
    assert re.fullmatch(r"environment steps: [56]00", first)
    steps = int(first[-3:])
    low, high = stats.wilson(round(60 * steps / 1000), 60)
    assert second.strip() == f"good (3 seeds): {steps / 10:.1f}% [{low:.1%}, {high:.1%}]"
    assert f"(3 seeds): {steps / 20:.1f}% [" in third


def test_a_command_can_be_copied(page: Chrome) -> None:
    button = page.find_element(By.CSS_SELECTOR, "footer button.copy")
    button.click()
    WebDriverWait(page, 10).until(lambda _: button.text != "copy")
    selected = page.execute_script("return String(getSelection())")
    assert button.text == "copied" or (button.text == "press Ctrl+C" and selected.startswith("rlher report logs/good"))


def test_collapsed_sections_are_printed(page: Chrome, tmp_path: Path) -> None:
    def pages(pdf: bytes) -> int:
        return len(re.findall(rb"/Type\s*/Page\b", pdf))

    out = tmp_path / "report.pdf"
    words = [
        *browser_arguments(),
        f"--user-data-dir={tmp_path / 'profile'}",
        "--no-pdf-header-footer",
        f"--print-to-pdf={out}",
    ]
    url = (tmp_path / "logs" / "report.html").as_uri()
    done = subprocess.run(["chromium", *words, url], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    closed = "return document.querySelectorAll('details:not([open])').length"
    assert page.execute_script(closed) == 2, "the trials, and the keys that do not differ"
    opened = pages(base64.b64decode(page.print_page()))
    assert page.execute_script(closed) == 2, "closed again"
    page.execute_script("Object.defineProperty(HTMLDetailsElement.prototype, 'open', {set() {}})")
    assert pages(out.read_bytes()) == opened > pages(base64.b64decode(page.print_page())) > 1


def test_dark_mode_follows_the_browser(page: Chrome) -> None:
    def brightness(selector: str, property: str) -> float:
        color = page.find_element(By.CSS_SELECTOR, selector).value_of_css_property(property)
        return sum(map(int, re.findall(r"\d+", color)[:3])) / 3

    pairs = (("body", "background-color"), ("body", "color"), (".plot text", "fill"))
    light = [brightness(*each) for each in pairs]
    preference = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", preference)
    dark = [brightness(*each) for each in pairs]
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert [each > 128 for each in light] == [True, False, False]
    assert [each > 128 for each in dark] == [False, True, True]
