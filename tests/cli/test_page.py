"""``report.html``: whole by itself, true to the files beside it, and drawn by a browser where there is one."""

import re
import shutil
import subprocess
from html.parser import HTMLParser

import pandas as pd
import pytest


class _Reader(HTMLParser):
    """Text, headings, what is open, and what an element points to."""

    def __init__(self):
        super().__init__()
        self.text, self.headings, self.open, self.sources = [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.sources += [value for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)
        if self.open and self.open[-1] == "h2":
            self.headings.append(data)


def _read(path):
    reader = _Reader()
    reader.feed(path.read_text())
    assert reader.open == []
    assert all(source.startswith("data:image/png;base64,") for source in reader.sources)
    return reader


def test_a_page_holds_the_fit(command, shop, tmp_path):
    shop.assign(years=2 * shop["age"] + 1).to_csv(tmp_path / "shop.csv", index=False)
    result = command("fit", "shop.csv", "--target", "bought", "--rates", "feature", "--report", "--out", "out")
    assert result.exit_code == 0, result.stderr
    assert "report.html" in result.stdout
    page = _read(tmp_path / "out" / "report.html")
    assert page.headings == [
        "Data and fit", "On rows that the fit has not seen", "Weights", "Dropout rates", "Convergence",
        "What the data do not determine", "Model",
    ]  # fmt: skip
    assert len(page.sources) == 4
    text = "".join(page.text)
    assert "age and years go together (correlation 1.000)" in text
    weights = pd.read_csv(tmp_path / "out" / "weights.csv").set_index("feature")
    assert f"{weights.loc['age', 'weight']:.3g}" in text
    # Long names wrap, and a table that is wide still scrolls by itself.
    source = (tmp_path / "out" / "report.html").read_text()
    assert "body{overflow-wrap:anywhere}" in source
    assert "div{overflow-x:auto}" in source
    assert source.count("<div><table") == source.count("<table") == 2
    assert 'name="viewport" content="width=device-width' in source
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser:
        picture = tmp_path / "page.png"
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--window-size=1000,2000", f"--screenshot={picture}"]
        subprocess.run([browser, *options, str(tmp_path / "out" / "report.html")], capture_output=True, check=True)
        assert picture.stat().st_size > 50_000


@pytest.mark.parametrize("target", ["color", "age"])
def test_pages_of_other_responses(command, shop, tmp_path, target):
    shop.to_csv(tmp_path / "shop.csv", index=False)
    result = command("fit", "shop.csv", "--target", target, "--report", "--out", "out")
    assert result.exit_code == 0, result.stderr
    text = "".join(_read(tmp_path / "out" / "report.html").text)
    assert re.search("% wrong .* log loss" if target == "color" else "root mean squared error", text)
    assert "use bd.sample" in text


def test_a_loss_without_intervals_has_a_page_that_says_so(command, shop, tmp_path):
    shop.to_csv(tmp_path / "shop.csv", index=False)
    options = ("--target", "bought", "--loss", "hinge", "--rates", "0.2", "--report", "--out", "out")
    result = command("fit", "shop.csv", *options)
    assert result.exit_code == 0, result.stderr
    text = "".join(_read(tmp_path / "out" / "report.html").text)
    assert "Intervals: none, for a fit with noise is shrunk" in text
    assert "use bd.sample (here: --sample)" in text
    assert "The sign of" not in text
