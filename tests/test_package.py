"""What a user gets: the wheel, the sdist, the command, and a light import."""

import json
import os
import re
import shutil
import site
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

HEAVY = {
    "av", "cv2", "jtop", "onnx", "onnxruntime", "openvino", "pyarrow", "pynvml",
    "scipy", "torch",
}  # fmt: skip
"""Libraries that neither the import nor a look at the help may load."""

FOLDERS = ("pipeline", "stages", "models", "scheduler", "telemetry", "configs")
NEVER_BUILT = shutil.ignore_patterns(".*", "__pycache__", "build", "dist", "*.egg-info")


@pytest.fixture(scope="module")
def distributions(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist and the wheel that ``build`` makes from the sdist."""
    source = tmp_path_factory.mktemp("source") / "edgepipe"
    shutil.copytree(root, source, symlinks=True, ignore=NEVER_BUILT)
    out = tmp_path_factory.mktemp("dist")
    # Without isolation: the backend of this environment serves, and no network is used.
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out)]
    run = subprocess.run([*command, str(source)], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    return out


@pytest.fixture(scope="module")
def wheel(distributions: Path) -> Path:
    """The wheel, built from the sdist alone."""
    return next(distributions.glob("*.whl"))


@pytest.fixture(scope="module")
def bin_folder(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Commands of an environment in which the wheel is installed.

    The libraries are those of this environment; the package is not: a path in a .pth
    file does not bring the .pth files of that path, and with them an editable install.
    """
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q"]
    command += ["--no-index", "--no-deps", str(wheel)]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    packages = next(folder.glob("lib/python*/site-packages"))
    (packages / "libraries.pth").write_text("\n".join(site.getsitepackages()))
    return folder / "bin"


def run_from_root(*command: str | Path, accept: tuple[int, ...] = (0,)) -> str:
    """Run a command where no checkout is near; return what it prints."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    run = subprocess.run(
        list(map(str, command)),
        cwd="/",
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode in accept, f"{command}\n{run.stdout}{run.stderr}"
    return run.stdout


def wheel_files(wheel: Path) -> set[str]:
    """Names in a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.mark.slow
def test_the_wheel_contains_every_module_and_every_data_file(
    root: Path, wheel: Path
) -> None:
    inside = wheel_files(wheel)
    sources = {folder: root / folder for folder in FOLDERS}
    expected = {
        f"edgepipe/{folder}/{path.relative_to(top).as_posix()}"
        for folder, top in sources.items()
        for path in top.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    front = root / "src" / "edgepipe"
    expected |= {f"edgepipe/{p.name}" for p in front.glob("*.py")}
    expected |= {f"edgepipe/commands/{p.name}" for p in front.glob("commands/*.py")}
    assert expected | {"edgepipe/py.typed"} <= inside
    assert {name.split("/")[0] for name in inside if "dist-info" not in name} == {
        "edgepipe"
    }


@pytest.mark.slow
def test_the_licences_travel_with_wheel_and_sdist(
    distributions: Path, wheel: Path
) -> None:
    inside = wheel_files(wheel)
    for name in ("LICENSE", "NOTICE"):
        assert any(path.endswith(f"licenses/{name}") for path in inside)
    with tarfile.open(next(distributions.glob("*.tar.gz"))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"LICENSE", "NOTICE", "constraints.txt", "tests/test_package.py"} <= names


@pytest.mark.slow
def test_the_installed_package_is_the_one_from_the_wheel(bin_folder: Path) -> None:
    code = "import edgepipe.stages; print(edgepipe.stages.__file__)"
    where = run_from_root(bin_folder / "python", "-c", code)
    assert Path(where).is_relative_to(bin_folder.parent)


@pytest.mark.slow
def test_the_installed_command_knows_its_version(bin_folder: Path) -> None:
    version = run_from_root(bin_folder / "edgepipe", "--version")
    assert re.fullmatch(r"edgepipe \d+\.\d+\.\d+\S*\n", version)
    as_module = run_from_root(bin_folder / "python", "-m", "edgepipe", "--version")
    assert as_module == version


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    sorted(path.stem for path in Path(__file__).parents[1].glob("configs/*.yaml")),
)
def test_the_installed_command_accepts_the_packaged_configs(
    bin_folder: Path, name: str
) -> None:
    run_from_root(bin_folder / "edgepipe", "config", "check", name)


@pytest.mark.slow
def test_a_short_bench_runs_from_the_wheel(bin_folder: Path, tmp_path: Path) -> None:
    bench = ["bench", "-c", "synthetic", "--duration", "2s", "--json"]
    to = f"telemetry.dir={tmp_path}"
    # Two seconds are too few frames for a p99, so the verdict is INVALID: exit code 1.
    edgepipe = bin_folder / "edgepipe"
    printed = run_from_root(edgepipe, *bench, "--set", to, accept=(0, 1))
    summary = json.loads(printed)
    assert summary["ledger"]["balanced"] is True
    assert all(stream["completed"] > 0 for stream in summary["streams"].values())


@pytest.mark.parametrize(
    "code",
    [
        "import edgepipe",
        "from edgepipe.cli import main; main(['--help'])",
        "from edgepipe.cli import main; main(['--version'])",
    ],
)
def test_nothing_heavy_is_loaded_before_there_is_work(code: str) -> None:
    loaded = "atexit.register(lambda: print(*sys.modules, file=sys.stderr))"
    program = f"import atexit, sys\n{loaded}\n{code}"
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    assert HEAVY.isdisjoint(run.stderr.split())
