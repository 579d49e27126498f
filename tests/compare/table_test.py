"""The table of scripts/compare, from runs that are made up."""
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
from comparison import table  # noqa: E402
from comparison.peers import PROGRAMS, Peer  # noqa: E402


def run(engine, mode, ms, first=1.0, peak=100, workload="mlp"):
    return dict(engine=engine, mode=mode, workload=workload, step_ms_min=ms, first_step_s=first, peak_rss_mb=peak)


KIND = dict(workload="mlp", gflop=4.6)


class Table(unittest.TestCase):
    def row(self, runs, missing=()):
        return table.row_of("mlp", runs, KIND, 230.0, "f32", missing)

    def test_minima_over_rounds_of_the_best_mode(self):
        row = self.row([
            run("thalweg", "compiled", 26, first=0.3, peak=90), run("torch", "eager", 40), run("jax", "compiled", 31),
            run("thalweg", "compiled", 25, first=0.2, peak=80), run("torch", "compiled", 30, first=9, peak=700),
            run("torch", "compiled", 32, first=8, peak=600), run("torch", "compiled", 1, workload="cnn"),
        ])
        self.assertEqual((row["ours"]["step_ms_min"], row["ours"]["first_step_s"], row["ours"]["peak_rss_mb"]), (25, 0.2, 80))
        self.assertEqual((row["peer"]["engine"], row["peer"]["mode"], row["peer"]["step_ms_min"]), ("torch", "compiled", 30))
        self.assertEqual((row["peer"]["first_step_s"], row["peer"]["peak_rss_mb"]), (8, 600))
        self.assertAlmostEqual(row["ratio"], 1.2)
        self.assertAlmostEqual(row["share"], 0.8)  # 4.6 GFLOP in 25 ms of 230 GFLOP/s
        self.assertEqual(row["at_least"], 1.05)

    def test_text_has_one_line_for_a_workload(self):
        lines = table.text([self.row([run("thalweg", "compiled", 25, 0.2, 80), run("tf", "xla", 50, 4, 900)])]).splitlines()
        self.assertEqual(len(lines), 2)
        self.assertEqual(lines[1].split(), "mlp 25.0 50.0 tf xla 2.00 1.05 80 % 40 % 80 900 0.200 4.00".split())

    def test_peers_that_are_missing(self):
        lines = table.text([self.row([run("thalweg", "compiled", 25)], missing=["torch", "jax"])]).splitlines()
        self.assertRegex(lines[1], r"^mlp +25\.0 +not installed +- +- +1\.05")
        self.assertEqual(lines[2], "not installed: jax, torch")

    def test_ours_failed(self):
        row = self.row([run("jax", "compiled", 30)])
        self.assertIsNone(row["ratio"])
        self.assertRegex(table.text([row]), r"mlp +failed +30\.0 +jax compiled +-")

    def test_the_better_limit_counts(self):
        first = dict(threads=2, f32_gflops=200.0, bf16_gflops=None, round_trip_ns=100.0)
        second = dict(threads=2, f32_gflops=230.0, bf16_gflops=None, round_trip_ns=510.0)
        self.assertEqual(table.best_limits([first], [second]), [dict(second, round_trip_ns=100.0)])

    def test_every_peer_has_its_files(self):
        for name in Peer.KNOWN:
            self.assertTrue((PROGRAMS / f"{name}_cpu.py").exists())
            for line in (PROGRAMS / "requirements" / f"{name}.txt").read_text().splitlines():
                self.assertRegex(line, r"^[a-z0-9-]+==[0-9.]+$")


if __name__ == "__main__":
    unittest.main()
