"""Draws per second of PG(1, z) and GIG(½, 1, ν²) beside compiled libraries: ``python -m benchmarks.polya_gamma``.

1e5 draws a call, z uniform on (0, 5); compiled beforehand, results waited for; medians over 40 turns.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

__all__ = ["main"]

SIZE, TURNS = 100_000, 40


def compare(ours: Callable[[int], object], theirs: Callable[[int], object]) -> tuple[float, float]:
    """Median seconds of both, run in turn."""
    times: tuple[list[float], list[float]] = ([], [])
    for turn in range(TURNS):
        for job, record in zip((ours, theirs), times, strict=True):
            start = time.perf_counter()
            job(turn)
            record.append(time.perf_counter() - start)
    return float(np.median(times[0])), float(np.median(times[1]))


def main() -> None:
    """Print the table."""
    import jax
    import jax.numpy as jnp
    import polyagamma

    from bayesdrop.distributions import polya_gamma_one, reciprocal_inverse_gaussian

    z = np.random.default_rng(0).uniform(0, 5, SIZE)
    generator = np.random.default_rng(1)
    print("\n| law | dtype | ours, M/s | library, M/s | ratio |\n|---|---|---|---|---|")
    for double in (True, False):
        with jax.enable_x64(double):
            tilt = jnp.asarray(z, jnp.float64 if double else jnp.float32)
            keys = list(jax.random.split(jax.random.key(0), TURNS))
            for name, draw, library in (
                ("PG(1, z)", polya_gamma_one, lambda _: polyagamma.random_polyagamma(1, z, random_state=generator)),
                ("GIG(½, 1, ν²)", reciprocal_inverse_gaussian, lambda _: generator.wald(1 / (z + 1e-3), 1.0)),
            ):
                draw(keys[0], tilt).block_until_ready()

                def once(turn: int, draw=draw, keys=keys, tilt=tilt) -> object:
                    return draw(keys[turn], tilt).block_until_ready()

                ours, theirs = compare(once, library)
                rates = SIZE / ours / 1e6, SIZE / theirs / 1e6
                print(
                    f"| {name} | {tilt.dtype} | {rates[0]:.1f} | {rates[1]:.1f} | **{rates[0] / rates[1]:.2f}** |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
