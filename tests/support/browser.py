"""A headless Chromium of a test's own, with what it said and what it fetched."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

PROGRAMS = ("chromium", "chromedriver")
"""Of the Debian packages chromium and chromium-driver."""


def is_installed() -> bool:
    return all(map(shutil.which, PROGRAMS))


def switches() -> list[str]:
    """Where it runs as root there is no sandbox to be had, and a container's /dev/shm is too small for it."""
    return ["--headless=new", "--disable-dev-shm-usage", *(["--no-sandbox"] if os.getuid() == 0 else [])]


@contextmanager
def chromium() -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    for switch in switches():
        options.add_argument(switch)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    chromium, driver = map(shutil.which, PROGRAMS)
    options.binary_location = chromium or ""
    browser = webdriver.Chrome(options, Service(driver))
    try:
        browser.set_window_size(1100, 900)
        yield browser
    finally:
        browser.quit()


def complaints(browser: webdriver.Chrome) -> list[str]:
    """What the console says since it was last asked."""
    return [entry["message"] for entry in browser.get_log("browser")]


def requests(browser: webdriver.Chrome) -> list[str]:
    """What was fetched since it was last asked, the page itself included."""
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    return [each["params"]["request"]["url"] for each in messages if each["method"] == "Network.requestWillBeSent"]
