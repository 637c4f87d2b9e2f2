#!/usr/bin/env python3
"""Adds to tests/fuzz/corpus the small valid files the library reads and does not write (seeds.c makes the others). Standard library
only; the same bytes every time. JPEG and HDF5 files come from tests/unit/image.c and h5_files.h, which have them as arrays."""
import gzip, io, json, os, re, struct, sys, zipfile, zlib

here = os.path.dirname(os.path.abspath(__file__))
corpus = os.path.join(here, "corpus")


def put(target, name, data):
    os.makedirs(os.path.join(corpus, target), exist_ok=True)
    with open(os.path.join(corpus, target, name), "wb") as f:
        f.write(data)


def idx(code, dims, element):
    count = 1
    for d in dims:
        count *= d
    return struct.pack(">HBB", 0, code, len(dims)) + struct.pack(">%dI" % len(dims), *dims) + element * count


for name, code, dims, element in [("u8", 8, (2, 3, 3), b"\7"), ("i8", 9, (3,), b"\xff"), ("i16", 11, (2, 2), b"\1\2"),
                                  ("i32", 12, (2,), b"\0\0\1\2"),
                                  ("f32", 13, (1, 2), b"\x3f\x80\0\0"), ("f64", 14, (2,), struct.pack(">d", 1.5))]:
    put("idx", name, idx(code, dims, element))
put("idx", "u8.gz", gzip.compress(idx(8, (2, 4, 4), b"\5"), mtime=0))


def npy(version, header, data):
    text = header.encode() + b"\n"
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(text)) + text + data


put("npy", "version2.npy", npy(2, "{'descr': '>i4', 'fortran_order': True, 'shape': (2, 3), }", bytes(24)))
put("npy", "version3.npy", npy(3, "{'descr': '|u1', 'fortran_order': False, 'shape': (), }", b"\1"))
put("npy", "u2.npy", npy(1, "{'descr': '<u2', 'fortran_order': True, 'shape': (2L, 1L), }", b"\1\2\3\4"))


def archive(method):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as z:
        for name in ("a.npy", "folder/b.npy"):
            data = npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (8,), }", bytes(32))
            z.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data, method)
    return out.getvalue()


put("zip", "deflated.npz", archive(zipfile.ZIP_DEFLATED))
put("zip", "stored.npz", archive(zipfile.ZIP_STORED))


def safetensors(entries, data, metadata=None, pad=b""):
    header = dict({"__metadata__": metadata} if metadata else {},
                      **{n: {"dtype": d, "shape": s, "data_offsets": o} for n, d, s, o in entries})
    text = json.dumps(header, separators=(",", ":")).encode() + pad
    return struct.pack("<Q", len(text)) + text + data


# The first byte of the input says whether the length of the header is put right; even: it is as it is.
put("safetensors", "one", b"\0" + safetensors([("dense/kernel", "F32", [2, 3], [0, 24])], bytes(range(24)),
                                                {"format": "np"}, b"   "))
put("safetensors", "empty", b"\0" + safetensors([], b""))
put("safetensors", "types", b"\0" + safetensors(
    [("a", "F64", [1], [0, 8]), ("b", "I64", [1], [8, 16]), ("c", "U64", [1], [16, 24]), ("d", "I32", [1], [24, 28]),
     ("e", "U32", [1], [28, 32]), ("f", "F16", [1], [32, 34]),
     ("g", "BF16", [1], [34, 36]), ("h", "I16", [], [36, 38]), ("i", "U16", [1, 1], [38, 40]), ("j", "I8", [2], [40, 42]),
      ("k", "U8", [2], [42, 44]),
     ("l", "BOOL", [3], [44, 47]), ("m", "F32", [0, 3], [47, 47])], bytes(range(47))))
put("safetensors", "unknown", b"\0" + safetensors([("a", "F8_E4M3", [4], [0, 4])], bytes(4)))
put("safetensors", "overlap", b"\0" + safetensors([("a", "U8", [4], [0, 4]), ("b", "U8", [4], [2, 6])], bytes(6)))
put("safetensors", "length", b"\1\x3a\0" + safetensors([("a", "U8", [4], [0, 4])], bytes(4)))

put("csv", "packed.gz", gzip.compress(b"a,b\n1,2\n3,4\n", mtime=0))
put("tfrecord", "packed.gz", b"\1" + gzip.compress(struct.pack("<QI", 0, 0) + bytes(4), mtime=0))


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width, height, bits, colour, interlace, rows, extra=b""):
    head = struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, interlace)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + extra + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


palette = chunk(b"PLTE", bytes(range(12))) + chunk(b"tRNS", b"\x80\xff")
put("png", "palette", b"\0" + png(4, 2, 2, 3, 0, b"\0\x1b\1\xe4", palette))
put("png", "bits", b"\2" + png(9, 2, 1, 0, 0, b"\0\xaa\x80\2\x55\0"))
put("png", "deep", b"\4" + png(1, 2, 16, 6, 0, b"\3" + bytes(8) + b"\4" + bytes(8)))
put("png", "interlaced", b"\6" + png(3, 3, 8, 0, 1, b"\0\1" + b"\0\2" * 2 + b"\0\3\4" + b"\0\5\6" + b"\0\7\7\7"))

put("png", "bomb", b"\4" + png(9000, 9000, 8, 0, 0, b"\0"))
put("jpeg", "bomb.jpg", b"\xff\xd8\xff\xc0\0\x0b\x08" + struct.pack(">HH", 9000, 9000) +
    b"\1\1\x11\0\xff\xda\0\x08\1\1\0\0\x3f\0\0\xff\xd9")

with open(os.path.join(here, "..", "unit", "image.c")) as f:
    source = f.read()
for name in ("RGB", "GREY", "CMYK"):
    body = re.search(r"JPEG_%s\[\] = \{([^}]*)\}" % name, source).group(1)
    put("jpeg", name.lower() + ".jpg", bytes(int(x, 0) for x in re.findall(r"0x[0-9a-fA-F]+|\d+", body)))

with open(os.path.join(here, "..", "unit", "h5_files.h")) as f:
    source = f.read()
for found in re.finditer(r"H5_(\w+)\[\] = \{([^}]*)\}", source):
    data = zlib.decompress(bytes(int(x) for x in re.findall(r"\d+", found.group(2))), -15)
    if len(data) < 10000:
        put("h5", found.group(1), data)
