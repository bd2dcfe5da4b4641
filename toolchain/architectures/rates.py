"""Measured speeds of a board's cores, as `edge-rt probe` reports them and toolchain.toml keeps them."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from toolchain.architectures.table import linux_rows

Level = Literal["l1", "l2", "l3", "memory"]
Name = Annotated[str, Field(pattern=r"^[a-z0-9_]{1,32}$")]
Speed = Annotated[float, Field(gt=0, le=1e7, allow_inf_nan=False)]
_Kib = Annotated[int, Field(ge=1, le=2**30)]


def float_products() -> frozenset[str]:
    """Return the names of float32 products in measured rates; other ones are of int8."""
    return frozenset(rates.probe for row in linux_rows() for rates in row.rates.values() if rates.probe)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class MeasuredRates(_Strict):
    """Speeds of some cores of one kind that work at the same time, all together.

    Attributes
    ----------
    threads
        Number of cores that worked, with one thread each.
    gops
        Peak of multiply-accumulates in registers in 10^9 operations per second, two for each: by vectors for
        float32 (`Rates.probe`: `sse`, `avx2`, `avx512`, `neon`), by instruction for int8 (`avx512_vnni`,
        `asimddp` …).
    gb_s
        Bandwidth in GB/s of reading in order what lies in a cache or in memory; a level that the cores do not
        have, or that has no room for all of them, is left out.
    """

    threads: int = Field(ge=1, le=4096)
    gops: dict[Name, Speed] = Field(min_length=1, max_length=32)
    gb_s: dict[Level, Speed]

    @model_validator(mode="after")
    def _has_what_all_have(self) -> Self:
        if missing := {"l1", "l2", "memory"} - self.gb_s.keys():
            raise ValueError(f"gb_s: {', '.join(sorted(missing))} is missing")
        return self


class ClusterRates(_Strict):
    """Speeds of a cluster: one core alone, and all of its cores at the same time.

    Attributes
    ----------
    core
        Name of the core as edge-rt reports it: LLVM's for Arm, `x86`, or `unknown`.
    family
        Maker and family of an x86 CPU: `AuthenticAMD 26` is Zen 5; None on other architectures.
    l2_kib
        Size of the second cache; None if the system does not report it.
    """

    core: str = Field(max_length=64)
    family: str | None = Field(None, max_length=32)
    l2_kib: _Kib | None = None
    one: MeasuredRates
    all: MeasuredRates

    def product_of(self, name: str, threads: int) -> float | None:
        """Return what one of `threads` cores computes by products `name`, in 10^9 operations per second."""
        return self._share(self.one.gops.get(name), self.all.gops.get(name), threads)

    def peak_flops(self) -> float | None:
        """Return the peak of one core alone in float32, by its widest vectors, in operations per second."""
        names = float_products()
        return max((1e9 * gops for name, gops in self.one.gops.items() if name in names), default=None)

    def read_of(self, level: Level, threads: int) -> float | None:
        """Return what one of `threads` cores reads from a level, in GB/s; None if there is no such level."""
        return self._share(self.one.gb_s.get(level), self.all.gb_s.get(level), threads)

    def _share(self, one: float | None, together: float | None, threads: int) -> float | None:
        """Return the speed of one of several cores: its own, or its share if what all reach is less."""
        if one is None or together is None or threads <= 1:
            return one
        return min(one, together / min(threads, self.all.threads))


class BoardRates(_Strict):
    """Speeds of a board's clusters, with the date of the measurement and the version of its edge-rt.

    Attributes
    ----------
    measured
        Day of the measurement, such as 2026-11-26.
    edge_rt
        Version of edge-rt and the first digits of its fingerprint.
    cpu_share
        Share of the time for which the measuring threads had their CPUs; below 1 other programs ran there.
    """

    measured: str = Field(pattern=r"^\d{4}-\d\d-\d\d$")
    edge_rt: str = Field(max_length=100)
    cpu_share: float = Field(ge=0, le=2)
    clusters: tuple[ClusterRates, ...] = Field(min_length=1, max_length=64)

    def of_core(self, cpu: str) -> ClusterRates | None:
        """Return the speeds of the cluster with LLVM's cpu `cpu`; the only cluster's if there is one."""
        named = next((cluster for cluster in self.clusters if cluster.core == cpu), None)
        return self.clusters[0] if named is None and len(self.clusters) == 1 else named
