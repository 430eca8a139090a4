"""A disk that fails, as a process sees it: the system refuses its syncs."""

from __future__ import annotations

# A filter of system calls that answers EIO to fsync and fdatasync, for every thread of the process.
REFUSE_SYNCS = """
    import ctypes, errno, struct
    def refuse_syncs():
        filters = [(0x20, 0, 0, 0), (0x15, 1, 0, 74), (0x15, 0, 1, 75),
                   (0x06, 0, 0, 0x00050000 | errno.EIO), (0x06, 0, 0, 0x7fff0000)]
        code = ctypes.create_string_buffer(b"".join(struct.pack("<HBBI", *one) for one in filters))
        program = ctypes.create_string_buffer(struct.pack("<H6xQ", len(filters), ctypes.addressof(code)))
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(38, 1, 0, 0, 0) != 0 or libc.syscall(317, 1, 1, program) != 0:
            print("no filter", ctypes.get_errno(), flush=True)
            raise SystemExit(0)
"""
