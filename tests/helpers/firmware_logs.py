"""Writers of PX4's ULog and ArduPilot's DataFlash logs, by the formats' definitions."""

import struct

import numpy as np

STAMPS_US = np.arange(1, 21) * 100_000


class UlogWriter:
    """ULog version 1 (docs.px4.io, "ULog File Format")."""

    def __init__(self):
        self.data = b"ULog\x01\x12\x35\x01" + struct.pack("<Q", 0)
        self.data += self._message("B", bytes(40))
        self.formats, self.bodies = [], []

    @staticmethod
    def _message(kind, body):
        return struct.pack("<Hc", len(body), kind.encode()) + body

    def parameter(self, name, value):
        """Add a parameter that is a float."""
        key = f"float {name}".encode()
        self.formats.append(self._message("P", bytes([len(key)]) + key + struct.pack("<f", value)))

    def topic(self, name, fields, code, rows, instance=0):
        """Add a topic: ``fields`` after the timestamp as ULog has them, ``code`` of struct.

        ``rows`` is what each message says, or a function of its number that gives it.
        """
        number = len(self.formats)
        text = f"{name}:uint64_t timestamp;{fields};"
        self.formats.append(self._message("F", text.encode()))
        head = struct.pack("<BH", instance, number)
        self.bodies.append(self._message("A", head + name.encode()))
        for k, stamp_us in enumerate(STAMPS_US):
            row = rows(k) if callable(rows) else rows
            body = struct.pack("<HQ", number, stamp_us) + struct.pack(f"<{code}", *row)
            self.bodies.append(self._message("D", body))

    def write(self, path):
        path.write_bytes(self.data + b"".join(self.formats) + b"".join(self.bodies))


class DataFlashWriter:
    """DataFlash's binary log: FMT messages describe the others (ArduPilot, LogStructure.h)."""

    HEAD = b"\xa3\x95"

    def __init__(self):
        self.data = self._format(128, "FMT", "BBnNZ", "Type,Length,Name,Format,Columns", 89)

    def _format(self, number, name, codes, columns, size):
        body = struct.pack("<BB4s16s64s", number, size, name.encode(), codes.encode(),
                           columns.encode())  # fmt: skip
        return self.HEAD + b"\x80" + body

    def message(self, number, name, codes, columns, rows, unit_us=1):
        """Add a message type and one message a stamp; codes: Q u64, B u8, f float, L 1e-7 deg."""
        struct_codes = codes.replace("L", "i")
        size = 3 + struct.calcsize(f"<{struct_codes}")
        self.data += self._format(number, name, codes, columns, size)
        for k, stamp_us in enumerate(STAMPS_US):
            row = rows(k) if callable(rows) else rows
            packed = struct.pack(f"<{struct_codes}", stamp_us // unit_us, *row)
            self.data += self.HEAD + bytes((number,)) + packed
