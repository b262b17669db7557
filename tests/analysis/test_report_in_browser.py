"""The report in Chromium: drawing, copying, dark mode and printing."""

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from tests.analysis.conftest import HTML_IN_NAME, STUDY, write_clip
from tests.conftest import Make

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def browser() -> Iterator[Chrome]:
    """Headless Chromium, which records console messages and requests."""
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (program and driver):
        assert "CI" not in os.environ, "CI installs Chromium"
        pytest.skip("needs Chromium: apt-get install chromium chromium-driver")
    options = ChromeOptions()
    # Chromium has no sandbox when run as root, and a container's /dev/shm is too small for it.
    no_sandbox = ["--no-sandbox"] if os.getuid() == 0 else []
    for argument in ["--headless=new", "--disable-dev-shm-usage", *no_sandbox]:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    options.binary_location = program
    with Chrome(options, Service(driver)) as browser:
        browser.set_window_size(1100, 900)
        yield browser


def console_messages(browser: Chrome) -> list[str]:
    """Return the messages of the console since the last call."""
    return [entry["message"] for entry in browser.get_log("browser")]


def requested_urls(browser: Chrome) -> list[str]:
    """Return the URLs requested since the last call, the page itself included."""
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    return [each["params"]["request"]["url"] for each in messages if each["method"] == "Network.requestWillBeSent"]


@pytest.fixture
def page(browser: Chrome, rlher, make_run: Make, two_agents: list[str], tmp_path: Path) -> Chrome:
    """The report on two agents, one of them with HTML in its name, with a clip and a study, open in a browser."""
    in_folder = HTML_IN_NAME.replace("/", "∕")
    Path("logs/bad").rename(f"logs/{in_folder}")
    for name in ("enjoy.mp4", "enjoy.gif"):
        write_clip(tmp_path / "logs" / "good" / "0" / name)
    assert rlher("report", "logs/good", f"logs/{in_folder}", str(STUDY), "--output", "report.html").code == 0
    browser.get((tmp_path / "report.html").as_uri())
    return browser


def test_the_page_renders_without_messages_and_requests(page: Chrome) -> None:
    fetched = [url for url in requested_urls(page) if not url.startswith("data:")]
    assert len(fetched) == 1, fetched
    assert fetched[0].endswith("report.html")
    assert console_messages(page) == []
    texts = [element.text for element in page.find_elements(By.CSS_SELECTOR, ".chart:first-of-type text")]
    assert {"0", "1k", "0%", "100%", "good (3 seeds)"} <= {*texts}
    assert len(page.find_elements(By.CSS_SELECTOR, ".small svg")) == 1, "the return; speed is constant"
    width = "return document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    assert page.execute_script(width), "no horizontal scrolling"
    sides = "return [...document.querySelectorAll('video, img')].map((media) => media.videoWidth ?? media.naturalWidth)"
    video, image, picture = page.execute_script(sides)
    assert (video, image) == (32, 32)
    assert picture > 100


def test_no_script_from_a_file_runs(page: Chrome) -> None:
    assert "onerror" in page.find_element(By.CSS_SELECTOR, "#curves svg").text
    assert page.execute_script("return typeof hacked") == "undefined"


def test_a_command_can_be_copied(page: Chrome) -> None:
    button = page.find_element(By.CSS_SELECTOR, "footer button.copy")
    button.click()
    WebDriverWait(page, 10).until(lambda _: button.text != "copy")
    selected = page.execute_script("return String(getSelection())")
    assert button.text == "copied" or (button.text == "press Ctrl+C" and selected.startswith("rlher report logs/good"))


def test_dark_mode_follows_the_browser(page: Chrome) -> None:
    def brightness(selector: str, property: str) -> float:
        color = page.find_element(By.CSS_SELECTOR, selector).value_of_css_property(property)
        return sum(map(int, re.findall(r"\d+", color)[:3])) / 3

    axis = ".chart path[style*='stroke: #000000']"
    pairs = (("body", "background-color"), ("body", "color"), (".chart text", "fill"), (axis, "stroke"))
    light = [brightness(*pair) for pair in pairs]
    preference = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", preference)
    dark = [brightness(*pair) for pair in pairs]
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert [value > 128 for value in light] == [True, False, False, False]
    assert [value > 128 for value in dark] == [False, True, True, True]
