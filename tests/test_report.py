"""Report pages: complete in one file, escaped, and right in a real browser."""

import html
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from sketchridge import diagnose, report, solve
from sketchridge.model import Model
from tests.problems import decaying

EVIL = "<script>document.title='taken'</script>&\"'<img src=x onerror=alert(1)>.csv"
BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)


def data():
    rng = np.random.default_rng(0)
    X = decaying(rng, 300, 60)
    return X, X @ rng.standard_normal(60)


@pytest.fixture(scope="module")
def fit_html(tmp_path_factory):
    X, y = data()
    names = (EVIL, *(f"feature {i}" for i in range(1, 60)))
    solution = solve(X, y, 1e-5, solver="cg", rank=5, fit_intercept=True, random_state=0)
    model = Model.of(solution, 1e-5, fit_intercept=True, feature_names=names)
    path = tmp_path_factory.mktemp("fit") / "fit.html"
    report.write(report.fit_page(model, EVIL, Path("a.model")), path)
    return path


@pytest.fixture(scope="module")
def diagnosis_html(tmp_path_factory):
    X, y = data()
    found = diagnose(X, y=y, rank=20, method="sketch", random_state=0)
    path = tmp_path_factory.mktemp("diagnosis") / "diagnosis.html"
    report.write(report.diagnosis_page(found, "words.svm"), path)
    return path


class Elements(HTMLParser):
    """Every tag with its attributes, and all text."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.text = [], ""
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, text):
        self.text += text


def test_user_strings_are_text_and_never_markup(fit_html):
    page = Elements(fit_html.read_text())
    assert page.text.count(EVIL) >= 2  # the title, and the name of a feature
    names = {tag for tag, _ in page.tags}
    assert "script" not in names and "img" not in names
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)


@pytest.mark.parametrize("which", ["fit_html", "diagnosis_html"])
def test_a_page_fetches_nothing(which, request):
    text = request.getfixturevalue(which).read_text()
    for _, attributes in Elements(text).tags:
        assert "src" not in attributes
        for name in ("href", "xlink:href"):
            assert attributes.get(name, "#").startswith("#")
    assert "@import" not in text and not re.search(r"url\((?!#)", text)


@pytest.mark.parametrize("which", ["fit_html", "diagnosis_html"])
def test_pictures_of_a_page_share_no_identifiers_and_use_the_pages_colours(which, request):
    text = request.getfixturevalue(which).read_text()
    tags = Elements(text).tags
    identifiers = [attributes["id"] for _, attributes in tags if "id" in attributes]
    assert len(identifiers) == len(set(identifiers))
    pictures = text[text.index("<svg") :]
    assert "var(--ink)" in pictures and "var(--line0)" in pictures
    assert not re.search(r"#[0-9a-f]{6}\b", pictures)
    assert all(attributes.get("aria-label") for tag, attributes in tags if tag == "svg")


def test_a_fits_page_tells_the_certificate_the_plan_and_the_way_on(fit_html):
    text = Elements(fit_html.read_text()).text
    assert "converged: the certified relative gap is within tol" in text
    assert "It is proved" in text and "(rank 5)" in text
    assert "sketchridge predict a.model" in text
    assert "Largest coefficients" in text and "certified" in text


def test_a_diagnosis_page_tells_its_bars_and_its_advice(diagnosis_html):
    text = Elements(diagnosis_html.read_text()).text
    assert "hold at once with probability 0.999999" in text
    assert "share explained" in text and "advice" in text and "Section 2.2" in text
    assert "words.svm" in text


def test_many_targets_and_a_failure_are_told():
    X, _ = data()
    Y = np.random.default_rng(1).standard_normal((300, 3))
    model = Model.of(solve(X, Y, 1e-9, solver="cg", max_passes=3, random_state=0), 1e-9)
    page = report.fit_page(model, "x")
    assert not page.good and "not converged" in page.verdict
    assert ("targets", "3") in page.sections[0].facts


def test_a_missing_library_is_named_before_any_work(monkeypatch):
    import builtins

    real = builtins.__import__

    def without_jinja2(name, *arguments, **options):
        if name == "jinja2":
            raise ImportError(name)
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without_jinja2)
    with pytest.raises(ImportError, match=r"pip install 'sketchridge\[report\]'"):
        report.check_available()


# -- in a browser --------------------------------------------------------------------------------

MEASURE = """<script>
const style = getComputedStyle(document.body);
const pictures = [...document.querySelectorAll("svg")].map(svg => {
  const box = svg.getBoundingClientRect();
  const texts = [...svg.querySelectorAll("text")].map(t => t.getBoundingClientRect());
  const line = svg.querySelector('[style*="--line0"]');
  return {
    width: box.width, height: box.height,
    letter: Math.min(...texts.map(t => Math.min(t.height, t.width * 3))),
    outside: texts.filter(t => t.left < box.left - 2 || t.right > box.right + 2).length,
    ink: getComputedStyle(svg.querySelector("text")).fill,
    line: line ? getComputedStyle(line).stroke : "",
  };
});
parent.postMessage(JSON.stringify({
  title: document.title, inner: innerWidth, scroll: document.documentElement.scrollWidth,
  ink: style.color, paper: style.backgroundColor, pictures,
}), "*");
</script></body>"""
# A frame may be as narrow as a phone, a window of the browser may not.
FRAME = """<!doctype html><pre id="measured"></pre><script>
onmessage = event => document.getElementById("measured").textContent = event.data;
</script><iframe src="measured.html" style="width: {width}px; height: 900px; border: 0"></iframe>"""


def measured(page, width, dark, folder):
    """What a browser makes of the page: sizes and colours."""
    if BROWSER is None:
        pytest.skip("no browser is at hand: install Debian's chromium to test the pages in it")
    (folder / "measured.html").write_text(page.read_text().replace("</body>", MEASURE))
    frame = folder / "frame.html"
    frame.write_text(FRAME.format(width=width))
    scheme = ["--blink-settings=preferredColorScheme=0"] if dark else []
    result = subprocess.run(
        [
            BROWSER,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            f"--user-data-dir={folder / 'profile'}",
            "--window-size=1300,1000",
            "--virtual-time-budget=3000",
            *scheme,
            "--dump-dom",
            frame.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    found = re.search(r'<pre id="measured">(.*?)</pre>', result.stdout, re.DOTALL)
    return json.loads(html.unescape(found[1]))


def brightness(colour):
    return sum(map(float, re.findall(r"[\d.]+", colour)[:3])) / 3


@pytest.mark.parametrize(
    ("which", "width", "dark"),
    [
        ("fit_html", 390, True),
        ("fit_html", 1200, False),
        ("diagnosis_html", 390, False),
        ("diagnosis_html", 1200, True),
    ],
)
def test_a_page_reads_well_in_a_browser(which, width, dark, request, tmp_path):
    seen = measured(request.getfixturevalue(which), width, dark, tmp_path)
    assert seen["inner"] == width
    assert seen["scroll"] <= width  # nothing sticks out: tables scroll by themselves
    assert seen["title"] != "taken"  # a script in a name is only text
    assert (brightness(seen["paper"]) < 60) == dark
    assert (brightness(seen["ink"]) > 190) == dark
    assert seen["pictures"]
    for picture in seen["pictures"]:
        assert picture["width"] > min(300, width - 60) and picture["height"] > 180
        assert picture["letter"] >= 9  # pixels
        assert picture["outside"] == 0
        assert picture["ink"] == seen["ink"]
