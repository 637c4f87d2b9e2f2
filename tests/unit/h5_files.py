#!/usr/bin/env python3
"""Small HDF5 files as h5py writes them, for tests/unit/h5.c: h5_files.py > h5_files.h

Each is one table, packed as deflate packs; lki_unpack() makes it a file again. Needs h5py and numpy.
"""
import io
import zlib

import h5py
import numpy as np


def kinds(f):
    """Every kind of value that is read."""
    f.create_dataset("packed", data=np.arange(600, dtype="<f4").reshape(20, 30), chunks=(7, 11), compression="gzip", shuffle=True)
    f.create_dataset("checked", data=np.arange(64, dtype="<i4"), chunks=(16,), fletcher32=True)
    f.create_dataset("big_f64", data=np.array([1.5, -2.25], dtype=">f8"))
    f.create_dataset("f16", data=np.array([1.5, -2.25, 65504], dtype="<f2"))
    f.create_dataset("big_f16", data=np.array([1.5, -2.25], dtype=">f2"))
    f.create_dataset("i8", data=np.array([-128, 127], dtype="i1"))
    f.create_dataset("u8", data=np.array([0, 255], dtype="u1"))
    f.create_dataset("i16", data=np.array([-32768, 32767], dtype="<i2"))
    f.create_dataset("u32", data=np.array([0, 4294967295], dtype="<u4"))
    f.create_dataset("i64", data=np.array([-2**63, 2**63 - 1], dtype="<i8"))
    f.create_dataset("u64", data=np.array([0, 2**63 - 1], dtype="<u8"))
    f.create_dataset("bool", data=np.array([True, False, True]))
    f.create_dataset("enum", data=np.array([0, 7], dtype="i2"), dtype=h5py.enum_dtype({"A": 0, "B": 7}, basetype="i2"))
    f.create_dataset("scalar", data=np.float32(0.5))
    f.create_dataset("empty", shape=(0, 3), dtype="<f4")
    f.create_dataset("never_written", shape=(2, 2), dtype="<f4", fillvalue=7)
    f.create_dataset("texts", data=["one", "zwei \u00e4", ""], dtype=h5py.string_dtype())
    f.create_dataset("fixed", data=np.array([b"abc", b"d"], dtype="S4"))
    f.attrs["text"] = "a \u00e9"
    f.attrs["bytes"] = np.bytes_(b"raw")
    f.attrs["number"] = 42
    f.attrs["nothing"] = h5py.Empty("f4")
    f.attrs["names"] = np.array([[b"a", b"bc"]], dtype="S2")
    spaces = h5py.h5t.TypeID.copy(h5py.h5t.C_S1)
    spaces.set_size(6)
    spaces.set_strpad(h5py.h5t.STR_SPACEPAD)
    h5py.h5a.create(f.id, b"padded", spaces, h5py.h5s.create(h5py.h5s.SCALAR)).write(np.array(b"ab    ", dtype="S6"), mtype=spaces)


def links(f):
    """Two names for one group, a way back to the root, and a soft link."""
    g = f.create_group("a/b")
    g.create_dataset("x", data=np.float32(1))
    f["again"] = g
    g["root"] = f["/"]
    f["soft"] = h5py.SoftLink("/a/b/x")
    f["to_y"] = h5py.SoftLink("/z/y")
    f.create_dataset("z/y", data=np.float32(2))


def external(f):
    f["away"] = h5py.ExternalLink("/etc/passwd", "/x")


def soft_external(f):
    f["b"] = h5py.ExternalLink("/etc/passwd", "/x")
    f["a"] = h5py.SoftLink("/b/x")


def dangling(f):
    f["nowhere"] = h5py.SoftLink("/not/there")


def elsewhere(f):
    f.create_dataset("x", shape=(4,), dtype="<f4", external=[("/etc/passwd", 0, 16)])


def virtual(f):
    layout = h5py.VirtualLayout(shape=(4,), dtype="<f4")
    layout[:] = h5py.VirtualSource("/etc/passwd", "x", shape=(4,))
    f.create_virtual_dataset("x", layout)


def compound(f):
    f.create_dataset("pairs", data=np.array([(1, 2.0)], dtype=[("a", "<i4"), ("b", "<f4")]))


def reference(f):
    f.attrs["to"] = f["/"].ref


def opaque(f):
    f.create_dataset("vars/0", data=np.zeros(3, dtype="V2"))  # as bfloat16 is stored


def too_large(f):
    f.create_dataset("u64", data=np.array([2**63], dtype="<u8"))


def claims(f):
    f.create_dataset("x", shape=(1 << 20, 1 << 20), dtype="<f4")


def claims_overflow(f):
    f.create_dataset("x", shape=(1 << 40, 1 << 10), dtype="<f4", chunks=(1, 1))


def latin(f):
    f.attrs["text"] = np.bytes_(b"caf\xe9")


def named_type(f):
    f["type"] = np.dtype("<f4")


def deep(f):
    f.create_group("/".join(["d"] * 70))


def deepest(f):
    f.create_group("/".join(["d"] * 64))


def alias(f):
    """Two hard links to one dataset."""
    f.create_dataset("x", data=np.arange(6, dtype="<f4"))
    f["y"] = f["x"]


def wide(f):
    """80 bits, of which float64 has not enough."""
    f.create_dataset("x", data=np.array([np.longdouble(1) / 10]))


def one_text(f):
    """20000 texts that are all the same object of the file: share_text() makes them so."""
    f.create_dataset("x", shape=(20000,), dtype=h5py.string_dtype())[0] = "a" * 60000


def share_text(data):
    with h5py.File(io.BytesIO(data), "r") as f:
        at = f["x"].id.get_offset()
    return data[:at] + data[at:at + 16] * 20000 + data[at + 16 * 20000:]


FILES = [kinds, links, external, soft_external, dangling, elsewhere, virtual, compound, reference, too_large, claims,
         claims_overflow,
         latin, named_type, deep, deepest, opaque, alias, wide, one_text]


def packed(make):
    image = io.BytesIO()
    with h5py.File(image, "w", libver="latest" if make in (deep, deepest) else None) as f:
        make(f)
    data = share_text(image.getvalue()) if make is one_text else image.getvalue()
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    return len(data), deflate.compress(data) + deflate.flush()


print("/* HDF5 files, packed; made by h5_files.py with h5py. */")
print("#ifndef LK_TESTS_H5_FILES_H\n#define LK_TESTS_H5_FILES_H\n\n#include <stddef.h>\n#include <stdint.h>\n")
print("typedef struct h5_sample {\n    size_t         size, packed;\n    const uint8_t *data;\n} h5_sample;\n")
print("/* clang-format off */")
for make in FILES:
    size, data = packed(make)
    print(f"static const uint8_t H5_{make.__name__}[] = {{")
    for i in range(0, len(data), 32):
        print("    " + " ".join(f"{b}," for b in data[i:i + 32]))
    print(f"}};\nenum {{ H5_{make.__name__}_size = {size} }};")
print("/* clang-format on */\n")
print("#define H5_SAMPLE(name) ((h5_sample){H5_##name##_size, sizeof H5_##name, H5_##name})\n\n#endif")
