from toolchain.api.bundles import bench as bench
from toolchain.api.bundles import run as run
from toolchain.api.bundles import verify as verify
from toolchain.api.networks import build as build
from toolchain.api.networks import list_tasks as list_tasks
from toolchain.api.networks import load as load
from toolchain.api.networks import tune as tune
from toolchain.boards.inventory.lookup import find_board as find_board
from toolchain.boards.inventory.lookup import list_boards as list_boards
from toolchain.building.options import BuildOptions as BuildOptions
from toolchain.bundles.read import read_bundle as read_bundle
from toolchain.errors import ToolchainError as ToolchainError
from toolchain.models.options import ModelOptions as ModelOptions
from toolchain.tasks.options import CodeOptions as CodeOptions
from toolchain.tuning.options import TuneOptions as TuneOptions

__version__: str
__all__: list[str]
_MODULES: dict[str, str]
