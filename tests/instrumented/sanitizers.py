"""The tests of Rust under AddressSanitizer, ThreadSanitizer and Miri, where they can be had."""

from __future__ import annotations

import tempfile
from pathlib import Path

from instrumented.toolchain import BrokenError, NotHereError, Rustc, Tests, said_by, sysroots

# Those that map files, talk to the kernel, and read what others wrote.
PACKAGES = ("delaymq-core", "delaymq-engine", "delaymq-server")
# What a forked child forgets is its parent's.
LEAKS_ON_PURPOSE = ("a_forked_child_touches_nothing",)
# What was freed is kept, to be recognised: 256 MB unless it is said, and tests that weigh memory would weigh it, too.
CHOSEN = {"ASAN_OPTIONS": "quarantine_size_mb=8"}
OVERFLOW = """
fn main() {
    let bytes = vec![1_u8; std::env::args().count() * 16];
    let beyond = unsafe { std::ptr::read_volatile(bytes.as_ptr().add(bytes.len())) };
    std::process::exit(i32::from(beyond));
}
"""
"""Reads one byte behind what it allocated."""


def finds_overflow(compiler: Rustc) -> None:
    """A sanitizer that does not see this one sees nothing."""
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder) / "overflow.rs", Path(folder) / "overflow"
        source.write_text(OVERFLOW)
        command = ["rustc", "--edition", "2024", "-Zsanitizer=address", "--target", compiler.host, "-o", str(program)]
        built = said_by([*command, str(source)], {"RUSTC_BOOTSTRAP": "1"})
        if built.returncode != 0:
            raise NotHereError(f"rustc {compiler.release} does not build with it: {built.stderr.strip()[-300:]}")
        if "heap-buffer-overflow" not in said_by([str(program)]).stderr:
            raise BrokenError("it did not find an overflow that was made for it")


def address(compiler: Rustc) -> str:
    runtime = "librustc*_rt.asan.a"
    if not list((compiler.sysroot / "lib/rustlib" / compiler.host / "lib").glob(runtime)):
        raise NotHereError(f"the toolchain has no {runtime}")
    finds_overflow(compiler)
    tests = Tests(PACKAGES, "-Zsanitizer=address", "address", target=compiler.host, changes=CHOSEN)
    count = tests.run(LEAKS_ON_PURPOSE)
    return f"{count} tests of {', '.join(PACKAGES)}, nothing found; it finds an overflow that is made for it"


def std_sources(compiler: Rustc) -> list[Path]:
    return [root for root in sysroots(compiler) if (root / "lib/rustlib/src/rust/library/std/Cargo.toml").is_file()]


def thread(compiler: Rustc) -> str:
    """Without a standard library that is built with it, every lock of that library looks like a race."""
    if not std_sources(compiler):
        seen = ", ".join(root.name for root in sysroots(compiler))
        raise NotHereError(f"the standard library cannot be built with it: no rust-src in {seen}")
    tests = Tests(("delaymq-engine",), "-Zsanitizer=thread -Zbuild-std", "thread", target=compiler.host)
    return f"{tests.run()} tests of delaymq-engine, nothing found"


def miri(compiler: Rustc) -> str:
    able = [root for root in sysroots(compiler) if (root / "bin/cargo-miri").is_file()]
    if not able:
        seen = ", ".join(root.name for root in sysroots(compiler))
        raise NotHereError(f"no cargo-miri in {seen}")
    command = [str(able[0] / "bin/cargo-miri"), "miri", "test", "--locked", "-p", "delaymq-core", "--lib", "wheel"]
    done = said_by(command, {"MIRI_SYSROOT": "", "RUSTUP_TOOLCHAIN": able[0].name})
    if "test result: ok" not in done.stdout:
        raise BrokenError(done.stdout[-2_000:] + done.stderr[-2_000:])
    return "the wheel's tests, nothing found"
