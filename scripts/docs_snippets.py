"""Takes the C++ blocks out of Markdown pages, so that tests compile and run what the documentation shows.

    docs_snippets.py ROOT OUT PAGE...

A block opened by ```cpp becomes OUT/PAGE_LINE.cpp: as it stands if it has `int main`, otherwise as the body of one
behind the umbrella header. ```cpp internal is the same for blocks that use headers of the inside; its file ends in
.internal.cpp. ```cpp from=PATH is a quotation: it must stand word for word in that file. Files of OUT that no block
makes any more are removed; unchanged ones are not touched.
"""
import pathlib
import re
import sys

WRAPPED = """#include <thalweg/thalweg.h>

#include <iostream>
#include <vector>
{includes}
int main() {{
#line {line} "{page}"
{body}
}}
"""

PLAIN = '#line {line} "{page}"\n{body}\n'


def blocks(text):
    """(line of the first code line, words after ```cpp, code) of each block."""
    for match in re.finditer(r"^```cpp([^\n]*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        yield text.count("\n", 0, match.start()) + 2, match.group(1).split(), match.group(2).rstrip("\n")


def program(page, line, code):
    if "int main" in code:
        return PLAIN.format(line=line, page=page, body=code)
    lines = code.split("\n")
    includes = "\n".join(row for row in lines if row.startswith("#include"))
    body = "\n".join("" if row.startswith("#include") else row for row in lines)
    return WRAPPED.format(includes=includes, line=line, page=page, body=body)


def check_quotation(root, page, line, path, code):
    source = root / path
    if not source.is_file() or code not in source.read_text():
        sys.exit(f"{page}:{line}: this block does not stand in {path}")


def main():
    root, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    made = set()
    for page in sys.argv[3:]:
        for line, words, code in blocks((root / page).read_text()):
            quoted = [word.removeprefix("from=") for word in words if word.startswith("from=")]
            if quoted:
                check_quotation(root, page, line, quoted[0], code)
                continue
            stem = re.sub(r"\W+", "_", page.removesuffix(".md")).lower()
            file = out / f"{stem}_{line}{'.internal' if 'internal' in words else ''}.cpp"
            made.add(file)
            text = program(page, line, code)
            if not file.is_file() or file.read_text() != text:
                file.write_text(text)
    for file in out.glob("*.cpp"):
        if file not in made:
            file.unlink()


if __name__ == "__main__":
    main()
