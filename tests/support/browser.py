"""Headless Chromium for tests, with its console messages and requests."""

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


@contextmanager
def chromium() -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    # Chromium has no sandbox when run as root, and a container's /dev/shm is too small for it.
    no_sandbox = ["--no-sandbox"] if os.getuid() == 0 else []
    for argument in ["--headless=new", "--disable-dev-shm-usage", *no_sandbox]:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    program, driver = map(shutil.which, PROGRAMS)
    options.binary_location = program or ""
    browser = webdriver.Chrome(options, Service(driver))
    try:
        browser.set_window_size(1100, 900)
        yield browser
    finally:
        browser.quit()


def console_messages(browser: webdriver.Chrome) -> list[str]:
    """Return the messages of the console since the last call."""
    return [entry["message"] for entry in browser.get_log("browser")]


def requested_urls(browser: webdriver.Chrome) -> list[str]:
    """Return the URLs requested since the last call, the page itself included."""
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    return [each["params"]["request"]["url"] for each in messages if each["method"] == "Network.requestWillBeSent"]
