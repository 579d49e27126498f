"""make_data.py: small files of every kind that `thalweg train --data` takes, in the current folder.

Three classes that are easily told apart: the largest of the first three of four numbers, or for images the brightest
third. 160 examples; the files of a test have 40. Nothing but the standard library is needed.
"""
import gzip
import math
import os
import random
import struct
import zipfile
import zlib

draw = random.Random(7)
SIDE = 16


def example():
    label = draw.randrange(3)
    numbers = [draw.random() * 0.5 for _ in range(4)]
    numbers[label] += 0.5
    return numbers, label


def picture(label):
    """Blocks of 8 x 8 pixels: the one of the class is bright."""
    levels = [draw.randrange(20, 100) for _ in range(4)]
    levels[label] = draw.randrange(160, 240)
    return levels


def pixels(levels):
    return bytes(levels[y // 8 * 2 + x // 8] for y in range(SIDE) for x in range(SIDE))


def write(path, content):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "wb") as file:
        file.write(content)


def npy(descr, shape, content):
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + content


def idx(shape, content):
    return struct.pack(">HBB", 0, 8, len(shape)) + b"".join(struct.pack(">I", size) for size in shape) + content


def png(levels):
    rows = pixels(levels)
    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
    lines = b"".join(b"\x00" + rows[y * SIDE:(y + 1) * SIDE] for y in range(SIDE))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", SIDE, SIDE, 8, 0, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b""))


def jpeg(levels):
    """Baseline, grey, every block of one brightness: a DC difference of 0 to 11 bits, then the end of the block."""
    def segment(marker, content):
        return struct.pack(">BBH", 0xff, marker, len(content) + 2) + content
    bits, before = "", 0
    for level in levels:
        now = 8 * (level - 128)  # the DC coefficient, all quantised by 1
        difference, before = now - before, now
        size = abs(difference).bit_length()
        bits += f"{size:04b}"  # the code of the category: 12 codes of 4 bits
        if size:
            bits += f"{difference if difference > 0 else difference + (1 << size) - 1:0{size}b}"
        bits += "0"  # the only AC code: the end of the block
    bits += "1" * (-len(bits) % 8)
    scan = bytes(int(bits[i:i + 8], 2) for i in range(0, len(bits), 8)).replace(b"\xff", b"\xff\x00")
    dc = bytes([0, 0, 0, 0, 12] + [0] * 12) + bytes(range(12))
    ac = bytes([0x10, 1] + [0] * 15) + bytes([0])
    return (b"\xff\xd8" + segment(0xdb, b"\x00" + b"\x01" * 64) +
            segment(0xc0, struct.pack(">BHHBBBB", 8, SIDE, SIDE, 1, 1, 0x11, 0)) + segment(0xc4, dc) +
            segment(0xc4, ac) + segment(0xda, bytes([1, 1, 0, 0, 63, 0])) + scan + b"\xff\xd9")


def crc32c(content):
    value = 0xffffffff
    for byte in content:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0x82f63b78 if value & 1 else 0)
    value ^= 0xffffffff
    return ((value >> 15 | value << 17) + 0xa282ead8) & 0xffffffff


def field(number, content):
    size, length = len(content), b""
    while size > 127:
        length, size = length + bytes([size & 127 | 128]), size >> 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + content


def floats(*values):
    return field(2, field(1, struct.pack(f"<{len(values)}f", *values)))


def integers(*values):
    return field(3, field(1, bytes(values)))


def record(**features):
    content = field(1, b"".join(field(1, field(1, name.encode()) + field(2, feature))
                                for name, feature in features.items()))
    length = struct.pack("<Q", len(content))
    return length + struct.pack("<I", crc32c(length)) + content + struct.pack("<I", crc32c(content))


rows = [example() for _ in range(160)]
table = "".join(",".join(f"{number:.4f}" for number in numbers) + f",{label}\n" for numbers, label in rows).encode()
header = b'first,second,third,"a, b",class\n'
write("table.csv", header + table)
write("bare.csv", table)
write("packed.csv.gz", gzip.compress(header + table))
write("numbers.csv", b"a,b,c,d,sum\n" + b"".join(
    (",".join(f"{number:.4f}" for number in numbers) + f",{sum(numbers):.4f}\n").encode() for numbers, _ in rows))

x = npy("<f4", (160, 4), b"".join(struct.pack("<4f", *numbers) for numbers, _ in rows))
y = npy("<i8", (160,), b"".join(struct.pack("<q", label) for _, label in rows))
write("table.npy", npy("<f8", (160, 5), b"".join(struct.pack("<5d", *numbers, label) for numbers, label in rows)))
write("arrays/x.npy", x)
write("arrays/y.npy", y)
with zipfile.ZipFile("arrays.npz", "w", zipfile.ZIP_DEFLATED) as archive:
    archive.writestr("x.npy", x)
    archive.writestr("y.npy", y)

with zipfile.ZipFile("columns.npz", "w") as archive:
    archive.writestr("x.npy", x)
    archive.writestr("y.npy", npy("<i8", (160, 1, 1), b"".join(struct.pack("<q", label) for _, label in rows)))
one_hot = npy("<f4", (160, 3), b"".join(struct.pack("<3f", *(float(label == k) for k in range(3))) for _, label in rows))
with zipfile.ZipFile("onehot.npz", "w") as archive:
    archive.writestr("x.npy", x)
    archive.writestr("y.npy", one_hot)

pictures = [(picture(label), label) for _, label in rows]
for name, part in (("train", pictures[:120]), ("t10k", pictures[120:])):
    images = idx((len(part), SIDE, SIDE), b"".join(pixels(levels) for levels, _ in part))
    labels = idx((len(part),), bytes(label for _, label in part))
    write(f"idx/{name}-images-idx3-ubyte", images)
    write(f"idx/{name}-labels-idx1-ubyte", labels)
    if name == "train":
        write("packed_idx/train-images-idx3-ubyte.gz", gzip.compress(images))
        write("packed_idx/train-labels-idx1-ubyte.gz", gzip.compress(labels))
for i, (levels, label) in enumerate(pictures):
    write(f"images/{'abc'[label]}/{i:03}.{'png' if i % 2 else 'jpg'}", png(levels) if i % 2 else jpeg(levels))

write("rows.tfrecord", b"".join(record(x=floats(*numbers), y=integers(label)) for numbers, label in rows))
write("records/one.tfrecord", b"".join(record(x=floats(*numbers), y=integers(label)) for numbers, label in rows[:80]))
write("records/two.tfrecord.gz", gzip.compress(b"".join(record(x=floats(*numbers), y=integers(label)) for numbers, label in rows[80:])))
write("float_labels.tfrecord", b"".join(record(x=floats(*numbers), y=floats(label)) for numbers, label in rows))
write("book.txt", "the quick brown fox jumps över the lazy dog\n".encode() * 40)

write("clicks.tfrecord", b"".join(record(x=floats(i % 7, i % 3), y=integers(i % 2)) for i in range(20)))
write("two_classes.csv", b"".join(b"%d,%d,%d\n" % (i, i % 3, i % 2) for i in range(20)))

# What is taken, though it may not be meant.
write("first_row.csv", b"1,?,0\n" + b"".join(b"%d,%d,%d\n" % (i, i % 3, i % 2) for i in range(20)))
write("years.csv", b"".join(b"%d,%d,%d\n" % (i, i % 3, 2020 + i % 2) for i in range(20)))
with zipfile.ZipFile("channels_first.npz", "w") as archive:
    archive.writestr("x.npy", npy("<f4", (12, 3, 16, 16), bytes(12 * 768 * 4)))
    archive.writestr("y.npy", npy("<i8", (12,), bytes(12 * 8)))
with zipfile.ZipFile("one_test.npz", "w") as archive:
    for name, array in (("x_train", x), ("y_train", y)):
        archive.writestr(f"{name}.npy", array)
    archive.writestr("x_test.npy", npy("<f4", (1, 4), bytes(16)))
    archive.writestr("y_test.npy", npy("<i8", (1,), bytes(8)))
for name, shape in (("masks", (12, 16, 16)), ("one_channel", (12, 16, 16, 1)), ("small_masks", (12, 8, 8))):
    with zipfile.ZipFile(f"{name}.npz", "w") as archive:
        archive.writestr("x.npy", npy("<f4", (12, 16, 16, 3), bytes(12 * 768 * 4)))
        archive.writestr("y.npy", npy("|u1", shape, bytes(i // 8 % 4 for i in range(math.prod(shape)))))

# Damaged, or not what they seem.
write("text_in_column.csv", b"a,b,class\n1,2,0\n3,four,1\n5,6,0\n")
write("empty_field.csv", b"a,b,class\n1,2,0\n3,,1\n5,6,0\n")
write("one_row.csv", b"a,b,class\n1,2,0\n")
write("ragged.csv", b"a,b,class\n1,2,0\n3,1\n")
write("fraction.csv", b"a,b,class\n1,2,0\n3,4,0.5\n5,6,1\n")
write("negative.csv", b"a,b,class\n1,2,0\n3,4,-1\n5,6,1\n")
write("not_finite.csv", b"a,b,class\n1,2,0\n3,4,1\n5,nan,1\n")
write("label_not_finite.csv", b"a,b,class\n1,2,0\n3,4,nan\n")
write("semicolons.csv", b"a;b;class\n1;2;0\n3;4;1\n")
write("empty.csv", b"")
write("header.csv", b"a,b,class\n")
write("cut.csv.gz", gzip.compress(header + table)[:-400])
write("cut.npy", x[:-10])
write("object.npy", npy("|O", (3,), b"abc"))
write("image.npy", npy("<f4", (2, 2, 2), struct.pack("<8f", *range(8))))
with zipfile.ZipFile("other.npz", "w") as archive:
    archive.writestr("inputs.npy", x)
with zipfile.ZipFile("wide_test.npz", "w") as archive:
    for name, array in (("x_train", x), ("y_train", y), ("y_test", y)):
        archive.writestr(f"{name}.npy", array)
    archive.writestr("x_test.npy", npy("<f4", (160, 2), bytes(160 * 2 * 4)))
with zipfile.ZipFile("no_test.npz", "w") as archive:
    for name, array in (("x_train", x), ("y_train", y)):
        archive.writestr(f"{name}.npy", array)
    archive.writestr("x_test.npy", npy("<f4", (0, 4), b""))
    archive.writestr("y_test.npy", npy("<i8", (0,), b""))
write("no_columns/x.npy", npy("<f4", (160, 0), b""))
write("no_columns/y.npy", y)
write("uneven/x.npy", x)
write("uneven/y.npy", npy("<i8", (3,), struct.pack("<3q", 0, 1, 2)))
write("cut_idx/train-images-idx3-ubyte", idx((120, SIDE, SIDE), b"\x00" * 1000))
write("cut_idx/train-labels-idx1-ubyte", idx((120,), b"\x00" * 120))
for name in ("images-idx3", "labels-idx1"):  # a half of the test
    for part in ("train", "t10k"):
        if part == "train" or name == "labels-idx1":
            write(f"half/{part}-{name}-ubyte", open(f"idx/{part}-{name}-ubyte", "rb").read())
write("unlabelled/train-images-idx3-ubyte", idx((1, SIDE, SIDE), b"\x00" * 256))
write("broken_images/a/one.png", png([1, 2, 3, 4])[:-30])
write("broken_images/b/two.png", png([1, 2, 3, 4]))
write("empty_image/a/one.png", b"")
write("empty_image/b/two.png", png([1, 2, 3, 4]))
write("no_images/readme", b"nothing")
damaged = bytearray(b"".join(record(x=floats(*numbers), y=integers(label)) for numbers, label in rows))
damaged[200] ^= 1
write("damaged.tfrecord", bytes(damaged))
for name, features in (("no_label", {"x": floats(1, 2), "label": integers(1)}), ("integers", {"x": integers(1, 2), "y": integers(1)})):
    write(f"{name}.tfrecord", record(**features) * 20)
write("uneven.tfrecord", record(x=floats(1, 2), y=integers(1)) + record(x=floats(1, 2, 3), y=integers(0)))
with zipfile.ZipFile("too_large.npz", "w") as archive:  # for f32
    archive.writestr("x.npy", npy("<f8", (20, 2), struct.pack("<40d", *(1e300 if i == 7 else i % 5 for i in range(40)))))
    archive.writestr("y.npy", npy("<i8", (20,), struct.pack("<20q", *(i % 2 for i in range(20)))))
write("short.txt", b"short")
write("latin.txt", b"caf\xe9 " * 200)
