"""The adapter's compilation: cases.py adapter, before the other tests."""
import glob
import os
import tempfile

from cases import compiler_limit_s, hmcrun, python, run
from jobs import check_losses, program


def test_compiled_once():
    """By one of two ranks that start at the same time. The other tests use the result."""
    shared = os.environ.get("HMC_TORCH_CACHE")
    if shared:
        os.makedirs(shared, mode=0o700, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=shared) as cache:
        output = run([hmcrun, "-np", "2", *python(*program())], environment={"HMC_TORCH_CACHE": cache}, limit=compiler_limit_s)
        assert output.count("compiling the adapter") == 1, output
        check_losses(output, 2)
        adapters = glob.glob(f"{cache}/adapter-*.so")
        assert len(adapters) == 1, adapters
        if shared:
            os.replace(adapters[0], os.path.join(shared, os.path.basename(adapters[0])))
