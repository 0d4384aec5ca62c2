#!/usr/bin/env python3
"""The pages of the repository: docs_test.py ROOT. Links have a target, README.md and docs/performance.md stay
short, README.md lists every page for its readers."""
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(sys.argv.pop(1)).resolve()


def pages():
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "*.md"], capture_output=True, text=True)
    if listed.returncode == 0 and listed.stdout:
        return [ROOT / name for name in listed.stdout.split() if (ROOT / name).exists()]
    return [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("bench/**/*.md")]


def without_code(text):
    return re.sub(r"```.*?```", "", text, flags=re.S)


def anchors(page):
    """The anchors of the headings, as GitHub makes them."""
    found = set()
    for heading in re.findall(r"^#+ (.*)$", without_code(page.read_text()), flags=re.M):
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        count = 0
        while slug + (f"-{count}" if count else "") in found:
            count += 1
        found.add(slug + (f"-{count}" if count else ""))
    return found


class Pages(unittest.TestCase):
    def test_links_lead_to_files_and_headings(self):
        broken = []
        for page in pages():
            text = re.sub(r"`[^`]*`", "", without_code(page.read_text()))
            for link in re.findall(r"\]\(([^)\s]+)\)", text):
                if re.match(r"[a-z]+:", link):
                    continue
                name, _, anchor = link.partition("#")
                to = (page.parent / name).resolve() if name else page
                if not to.exists():
                    broken.append(f"{page.relative_to(ROOT)}: {link}: no such file")
                elif anchor and to.suffix == ".md" and anchor not in anchors(to):
                    broken.append(f"{page.relative_to(ROOT)}: {link}: no such heading")
        self.assertEqual(broken, [])

    def test_short_pages_are_short(self):
        for name in ("README.md", "docs/performance.md"):
            self.assertLess(len((ROOT / name).read_text().splitlines()), 150, name)

    def test_tables_of_measurements_are_made_from_results(self):
        """A table with ten figures or more is between the marks of bench/tables.py."""
        by_hand = []
        for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
            text = re.sub(r"<!-- table .*?<!-- end -->", "", page.read_text(), flags=re.S)
            for table in re.findall(r"(?:^\|.*\n)+", text, flags=re.M):
                cells = [cell.strip() for row in table.splitlines() for cell in row.strip("|").split("|")]
                if sum(bool(re.fullmatch(r"[+-]?[\d.,]+ ?(%|us|ms|s|x|GB/s)?", cell)) for cell in cells) >= 10:
                    by_hand.append(f"{page.name}: {table.splitlines()[0]}")
        self.assertEqual(by_hand, [])

    def test_programs_of_pages_are_those_of_examples(self):
        for page, program in (("README.md", "first.cpp"), ("docs/deploy.md", "deploy.cpp")):
            shown = re.search(r"^```cpp\n(.*?)^```", (ROOT / page).read_text(), flags=re.M | re.S)[1]
            self.assertEqual(shown, (ROOT / "examples" / program).read_text(), page)

    def test_pages_say_for_whom_they_are_as_the_readme_sorts_them(self):
        sorted_by_readme = {}
        for verb, links in re.findall(r"^\| (use|understand|change) \| (.*) \|$", (ROOT / "README.md").read_text(), flags=re.M):
            for name in re.findall(r"\(docs/([\w-]+\.md)\)", links):
                sorted_by_readme[name] = verb
        said = {}
        for page in (ROOT / "docs").glob("*.md"):
            found = re.match(r"# .*\n\n\*To (use|understand|change) Tilewise\.\*", page.read_text())
            said[page.name] = found[1] if found else "nobody"
        self.assertEqual(said, sorted_by_readme)

    def test_sentences_of_the_readme_have_at_most_35_words(self):
        text = without_code((ROOT / "README.md").read_text())
        paragraphs = re.split(r"\n\s*\n", "\n".join(line for line in text.splitlines() if not line.startswith(("|", "#", "<!--", "!["))))
        long = [sentence for paragraph in paragraphs
                for sentence in re.split(r"(?<=[.:;])\s+", re.sub(r"\]\([^)]*\)", "]", " ".join(paragraph.split())))
                if len(sentence.split()) > 35]
        self.assertEqual(long, [])

    def test_result_files_that_pages_name_exist(self):
        missing = []
        for page in pages():
            for name in re.findall(r"\b((?:h200|h100)_\w+\.(?:json(?:\.xz)?|txt|log))\b", page.read_text()):
                if not (ROOT / "bench" / "results" / name).exists():
                    missing.append(f"{page.relative_to(ROOT)}: {name}")
        self.assertEqual(missing, [])


if __name__ == "__main__":
    unittest.main()
