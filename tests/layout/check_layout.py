"""Checks the tree itself: include order, public headers, lengths, leftovers, repeated passages.

    check_layout.py ROOT

Prints one line per fault and fails if there is one.
"""
import collections
import pathlib
import re
import subprocess
import sys

# What each folder of thalweg/ may include besides itself. Data goes one way: nothing below knows what stands above.
BELOW = {
    "core": [],
    "backend": ["core", "ops"],  # ops: only the rows and programs it runs
    "ops": ["core", "backend"],
    "autodiff": ["core", "ops"],
    "interop": ["core"],
    "graph": ["core", "ops", "autodiff"],
    "plan": ["core", "ops", "autodiff", "graph", "backend"],
    "losses": ["core", "ops", "autodiff"],
    "metrics": ["core", "ops", "losses"],
    "nn": ["core", "ops", "autodiff"],
    "optim": ["core", "ops", "autodiff", "nn"],
    "checkpoint": ["core", "ops", "interop", "nn", "optim", "data"],
    "summary": ["core", "ops", "interop"],
    "train": ["core", "ops", "autodiff", "nn", "losses", "metrics", "optim", "data", "plan", "checkpoint", "summary"],
    "data": ["core", "ops", "interop"],
}

LINE_LIMIT = 500
LONGER_FOR_A_REASON = {
    "LICENSE": "the text of the licence",
}

SOURCE = (".cpp", ".h", ".def", ".py", ".sh", ".cmake")
REPEAT_LINES = 12


def tracked_files(root):
    listed = subprocess.run(["git", "-C", root, "ls-files"], capture_output=True, text=True)
    if listed.returncode == 0:
        names = listed.stdout.splitlines()
    else:  # an unpacked archive
        names = [str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()]
        names = [name for name in names if not name.startswith(("build/", "runs/", ".git/"))]
    return {name: (root / name).read_bytes() for name in sorted(names) if (root / name).is_file()}


def as_text(files):
    return {name: data.decode() for name, data in files.items() if b"\0" not in data}


def includes(text):
    return re.findall(r'^#include "(thalweg/[^"]+)"', text, re.MULTILINE)


def include_order(files):
    for name, text in files.items():
        parts = name.split("/")
        if parts[0] != "thalweg" or len(parts) < 3 or parts[1] == "cli" or parts[-1] == "samples.cpp":
            continue
        folder = parts[1]
        if folder not in BELOW:
            yield f"{name}: folder {folder} has no place in the include order; give it one in check_layout.py"
            continue
        for included in includes(text):
            other = included.split("/")[1]
            if "." not in other and other != folder and other not in BELOW[folder]:
                yield f"{name}: {folder} must not include {other} ({included})"


def public_headers(files):
    """Those that thalweg.h reaches: they offer something, need no other library, and none is forgotten."""
    reached, open_names = [], ["thalweg/thalweg.h"]
    while open_names:
        name = open_names.pop()
        if name in reached or name not in files:
            continue
        reached.append(name)
        open_names += includes(files[name])
    for name in reached:
        for included in re.findall(r"^#include <([^>]+)>", files[name], re.MULTILINE):
            if "/" in included and not included.startswith("sys/"):
                yield f"{name}: a public header must not include {included}"
    for name, text in files.items():
        offers = re.search(r"\bTW_API\b", text) and name.startswith("thalweg/") and name.endswith(".h")
        if offers and name not in reached:
            yield f"{name}: offers TW_API names, but thalweg.h does not reach it"


def lengths(files):
    for name, text in files.items():
        lines = text.count("\n")
        if lines > LINE_LIMIT and name.endswith(SOURCE) and name not in LONGER_FOR_A_REASON:
            yield f"{name}: {lines} lines, the limit is {LINE_LIMIT}"


def leftovers(files):
    marks = {
        "a note to do something later": r"\b(TO" r"DO|FIX" r"ME|X" r"XX)\b",
        "a merge conflict": r"^(<{7}|>{7}) ",
        "a path of one machine": r"(?<![\w.}])/(work|root|home|Users)/",
    }
    for name, text in files.items():
        for what, pattern in marks.items():
            for match in re.finditer(pattern, text, re.MULTILINE):
                yield f"{name}:{text.count(chr(10), 0, match.start()) + 1}: {what}: {match.group()}"


def repeats(files):
    """Passages of REPEAT_LINES lines or more that stand in two places outside the tests."""
    places = collections.defaultdict(list)
    for name, text in files.items():
        if name.startswith("tests/") or name.endswith("samples.cpp") or not name.endswith((".cpp", ".h")):
            continue
        lines = [(number, line.strip()) for number, line in enumerate(text.splitlines(), 1)]
        lines = [(number, line) for number, line in lines if line and not line.startswith("#include")]
        for i in range(len(lines) - REPEAT_LINES + 1):
            window = lines[i : i + REPEAT_LINES]
            places["\n".join(line for _, line in window)].append((name, window[0][0]))
    reported = set()
    for found in places.values():
        pair = tuple(name for name, _ in found)
        if len(found) > 1 and pair not in reported:
            reported.add(pair)
            yield "repeated passage: " + ", ".join(f"{name}:{line}" for name, line in found)


def main():
    root = pathlib.Path(sys.argv[1])
    files = as_text(tracked_files(root))
    faults = [fault for check in (include_order, public_headers, lengths, leftovers, repeats) for fault in check(files)]
    for fault in faults:
        print(fault)
    print(f"{len(files)} files, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
