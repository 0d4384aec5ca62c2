"""The page in a browser: no script error, no request, first paint within 2 s, filters, sorting, keyboard, themes, print.

    browser.py CHROMIUM FOLDER

FOLDER has one.html, many.html and empty.html. Screenshots go there, too."""
import json
import pathlib
import sys

from playwright.sync_api import sync_playwright

FIRST_PAINT_MS = 2000
failures = []


def expect(truth, what):
    if not truth:
        failures.append(what)


class Page:
    """An open page with its errors and requests."""

    def __init__(self, browser, path, width=1280, scheme="light", address=""):
        self.errors, self.requests = [], []
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.page = context.new_page()
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda message: self.errors.append(message.text)
                     if message.type in ("error", "warning") else None)
        self.page.on("request", lambda request: self.requests.append(request.url[:100]))
        self.page.goto(path.as_uri() + address)
        self.wait_for("document.documentElement.dataset.ready === 'true'")
        self.name = f"{path.stem} {width} {scheme}"

    def run(self, script):
        return self.page.evaluate(script)

    def wait_for(self, condition):
        """Waits for a condition. The page's policy refuses Playwright's wait_for_function(), which evaluates text."""
        for _ in range(600):
            if self.run(condition):
                return
            self.page.wait_for_timeout(100)
        raise SystemExit(f"{self.page.url}: still not: {condition}")

    def check(self, folder):
        paint = self.run("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        print(f"{self.name}: first paint after {paint:.0f} ms")
        expect(paint < FIRST_PAINT_MS, f"{self.name}: first paint after {paint:.0f} ms")
        expect(not self.errors, f"{self.name}: {self.errors}")
        expect(len(self.requests) == 1, f"{self.name}: requests {self.requests}")
        expect(self.run("document.documentElement.scrollWidth <= innerWidth"), f"{self.name} is wider than the window")
        self.page.wait_for_timeout(500)
        self.page.screenshot(path=folder / f"{self.name.replace(' ', '-')}.png", full_page=True)


def rows(page):
    return page.run("document.querySelectorAll('#table tbody tr').length")


def check_one(page):
    sections = page.run("[...document.querySelectorAll('#problem h3')].map(h => h.textContent)")
    expect(sections == ["Winner", "Roofline", "Progress of the search", "Parameters", "Rejected candidates",
                        "Fastest candidates"], f"sections {sections}")
    plots = page.run("[...document.querySelectorAll('#problem .plot')].map(p => p.querySelectorAll('.main-svg').length)")
    expect(len(plots) >= 7 and all(plots), f"plots that are drawn: {plots}")
    markers = page.run("[...document.querySelectorAll('section[aria-label=Roofline] .point')].length")
    expect(markers > 300, f"the roofline has {markers} candidates of 400")
    expect(page.run("document.querySelectorAll('.tiles svg').length") >= 1, "no tiles")
    named = page.run("[...document.querySelectorAll('.plot')].every(p => p.getAttribute('aria-label').length > 20)")
    expect(named, "a figure has no words for a screen reader")
    labels = page.run("[...document.querySelectorAll('input, select')].every(e => e.closest('label'))")
    expect(labels, "a control has no label")


def check_many(page):
    expect(rows(page) == 200, f"{rows(page)} rows at first")
    page.page.fill("#words", "bf16 4096x4096")
    page.wait_for("document.getElementById('shown').textContent.includes(' of ')")
    few = rows(page)
    expect(0 < few < 30, f"{few} rows of a filter")
    page.page.fill("#words", "")
    page.page.click("#table thead button:has-text('Rate')")
    speeds = page.run("[...document.querySelectorAll('#table tbody tr')].slice(0, 5).map(r => rows[r.querySelector('button').dataset.index].tflops)")
    expect(speeds == sorted(speeds, reverse=True), f"sorted by rate: {speeds}")
    expect(page.run("document.querySelector('th[aria-sort=descending]').textContent") == "Rate", "aria-sort")
    page.page.focus("#table tbody button.open")
    page.page.keyboard.press("ArrowDown")
    wanted = page.run("document.activeElement.textContent")
    page.page.keyboard.press("Enter")
    expect(page.run("document.getElementById('problem-title').textContent").startswith(wanted), "Enter opens a problem")
    expect(page.run("document.activeElement.id") == "problem-title", "the focus moves to it")
    before = page.run("getComputedStyle(document.body).backgroundColor")
    page.page.click("#theme")
    expect(page.run("getComputedStyle(document.body).backgroundColor") != before, "the theme changes")
    page.page.click("#more")
    page.wait_for("document.querySelectorAll('#table tbody tr').length === 1000")


def main():
    chromium, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        for name, width, scheme, more in [("one", 1280, "light", check_one), ("one", 1280, "dark", check_one),
                                          ("one", 380, "light", check_one), ("many", 1280, "light", check_many),
                                          ("empty", 1280, "light", lambda page: expect(rows(page) == 0, "empty"))]:
            page = Page(browser, folder / f"{name}.html", width, scheme)
            page.check(folder)
            more(page)
            expect(not page.errors, f"{page.name}: {page.errors}")
        page = Page(browser, folder / "many.html", address="#problem-500")
        expect(page.run("shownProblem") == 500, "the address names a problem")
        page.page.pdf(path=folder / "one.pdf")
        expect(not page.errors, f"printing: {page.errors}")
        browser.close()
    print(json.dumps(failures, indent=1) if failures else "all right")
    sys.exit(1 if failures else 0)


main()
