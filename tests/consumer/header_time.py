"""header_time.py COMPILER INCLUDE: the umbrella header compiles in under 2 seconds of processor time, best of three."""
import pathlib
import resource
import subprocess
import sys
import tempfile

LIMIT = 2.0


def seconds(command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    subprocess.run(command, check=True)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


with tempfile.TemporaryDirectory() as folder:
    source = pathlib.Path(folder, "only_the_header.cpp")
    source.write_text("#include <thalweg/thalweg.h>\n")
    command = [sys.argv[1], "-std=c++20", "-O2", "-I", sys.argv[2], "-c", source, "-o", source.with_suffix(".o")]
    best = min(seconds(command) for _ in range(3))
print(f"{best:.2f} s, limit {LIMIT} s")
sys.exit(best >= LIMIT)
