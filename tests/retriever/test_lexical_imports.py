"""What importing BM25 must not do on a host with GPUs, and who is spared it."""

import os
import subprocess
import sys

JAX = """
import os, sys, types
print(os.environ.get("JAX_PLATFORMS"))
lax = sys.modules["jax.lax"] = types.ModuleType("jax.lax")
lax.top_k = lambda array, k: (array[:k], array[:k])
"""


def test_a_jax_that_is_installed_stays_off_the_gpus(tmp_path):
    (tmp_path / "jax").mkdir()
    (tmp_path / "jax" / "__init__.py").write_text(JAX)
    environment = {name: value for name, value in os.environ.items() if name != "JAX_PLATFORMS"}
    paths = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", "import retriever.index.lexical"],
        env={**environment, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert (done.returncode, done.stdout) == (0, "cpu\n"), done.stderr


def test_who_serves_without_words_does_not_import_it():
    program = "import sys, retriever.app; print('torch' in sys.modules, 'bm25s' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout == "True False\n", done.stderr
