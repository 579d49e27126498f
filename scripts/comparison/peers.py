"""The other frameworks: how each is installed, asked and run."""
import json
import pathlib
import subprocess
import sys
import venv

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "bench" / "peers"


class Peer:
    """A framework in an environment of its own, a folder that may be thrown away."""

    # name: (what it calls itself, its modes, what it takes on the disk)
    KNOWN = {
        "torch": ("torch", ("eager", "compiled"), "5.4 GB, since its package brings CUDA along"),
        "tf": ("tensorflow", ("compiled", "xla"), "1.6 GB"),
        "jax": ("jax", ("compiled",), "0.7 GB"),
    }

    def __init__(self, name, folder):
        self.name = name
        self.engine, self.modes, self.size = self.KNOWN[name]
        self.folder = pathlib.Path(folder) / name
        self.requirements = PROGRAMS / "requirements" / f"{name}.txt"
        self._workloads = None

    @property
    def python(self):
        return self.folder / "bin" / "python"

    def installed(self):
        mark = self.folder / "installed"
        return mark.exists() and mark.read_text() == self.requirements.read_text()

    def install(self, say):
        say(f"installing {self.name} into {self.folder} ({self.size})")
        venv.create(self.folder, with_pip=True, clear=True)
        command = [self.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        if subprocess.run([*map(str, command), "-r", str(self.requirements)], stdout=sys.stderr).returncode != 0:
            say(f"{self.name} could not be installed")
            return False
        (self.folder / "installed").write_text(self.requirements.read_text())
        return True

    def workloads(self):
        """Those it has a program for; none if the framework does not start here."""
        if self._workloads is None:
            listed = subprocess.run([str(self.python), str(self._program()), "--list"], capture_output=True, text=True)
            self._workloads = listed.stdout.split() if listed.returncode == 0 else []
        return self._workloads

    def _program(self):
        return PROGRAMS / f"{self.name}_cpu.py"

    def command(self, workload, mode, options):
        return [str(self.python), str(self._program()), workload, "--mode", mode, *options]


def run_line(command):
    """The JSON object that a program prints last, or None and the last words of its messages."""
    done = subprocess.run(command, capture_output=True, text=True)
    lines = done.stdout.strip().splitlines()
    if done.returncode != 0 or not lines:
        words = done.stderr.strip().splitlines() or [f"left with {done.returncode}"]
        return None, words[-1]
    return json.loads(lines[-1]), ""


def say(text):
    print(text, file=sys.stderr, flush=True)
