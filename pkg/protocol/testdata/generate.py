"""Writes the files of this folder that hold what Python itself does.

Run it after a change here, or to follow a new release of Celery, with an
interpreter that has celery, msgpack, pyyaml, brotli and backports.zstd:

    python generate.py

What is written by hand is in corpus.py, the rest is made from fixed seeds: a
second run gives the same. Each file is {"versions": {...}, "cases": [...]}.
"""

import base64
import bz2
import datetime as dt
import json
import lzma
import os
import random
import re
import sys
import zlib
from decimal import Decimal
from importlib.metadata import version
from uuid import UUID

import brotli
import msgpack
import yaml
from backports import zstd
from celery.utils.saferepr import saferepr
from dateutil.parser import isoparse
from kombu.utils import json as kombu_json

from corpus import JSON_BYTES, JSON_DOCUMENTS, TIMES, YAML_SCALARS

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGES = ("celery", "kombu", "msgpack", "pyyaml", "python-dateutil", "brotli", "backports.zstd")


def b64(data):
    return base64.b64encode(data).decode()


def write(name, cases):
    versions = {p: version(p) for p in PACKAGES}
    versions["python"] = ".".join(map(str, sys.version_info[:3]))
    with open(os.path.join(HERE, name), "w") as out:
        out.write('{"versions": %s, "cases": [\n' % json.dumps(versions))
        out.write(",\n".join(json.dumps(c) for c in cases))
        out.write("\n]}\n")


def canonical(value):
    """kombu's JSON with sorted keys: what EncodeJSON writes."""
    return kombu_json.dumps(value, sort_keys=True)


# --- JSON -------------------------------------------------------------------


def random_value(r, depth=0):
    kind = r.randrange(12 if depth < 4 else 8)
    if kind == 0:
        return r.choice([None, True, False])
    if kind == 1:
        return r.randrange(-100, 100)
    if kind == 2:
        return r.randrange(-(2**70), 2**70)
    if kind in (3, 4):
        return r.choice([r.uniform(-10, 10), r.uniform(-1, 1) * 10.0 ** r.randrange(-320, 309), float("nan"), -0.0])
    if kind in (5, 6, 7):
        return "".join(
            chr(
                r.choice(
                    [
                        r.randrange(32, 127),
                        r.randrange(0, 32),
                        r.randrange(0x80, 0xD800),
                        r.randrange(0xD800, 0xE000),
                        r.randrange(0x10000, 0x110000),
                    ]
                )
            )
            for _ in range(r.randrange(6))
        )
    if kind in (8, 9):
        return [random_value(r, depth + 1) for _ in range(r.randrange(4))]
    return {random_value_key(r): random_value(r, depth + 1) for _ in range(r.randrange(4))}


def random_value_key(r):
    return r.choice(["a", "b", "__type__", "__value__", "é", "k%d" % r.randrange(50)])


def json_case(data):
    try:
        want = canonical(kombu_json.loads(data))
    except (ValueError, TypeError, AttributeError, ArithmeticError, RecursionError):
        want = None
    return {"data": b64(data), "want": want}


def json_cases():
    r = random.Random(1)
    documents = [d.encode() for d in JSON_DOCUMENTS] + JSON_BYTES
    for _ in range(400):
        documents.append(json.dumps(random_value(r), ensure_ascii=r.random() < 0.7).encode("utf-8", "surrogatepass"))
    seeds = list(documents)
    for _ in range(1200):
        data = bytearray(r.choice(seeds)[:80])
        for _ in range(r.randrange(1, 3)):
            if not data:
                break
            i = r.randrange(len(data))
            how = r.randrange(3)
            if how == 0:
                del data[i]
            elif how == 1:
                data[i:i] = r.choice([b",", b'"', b"\\", b"[", b"{", b":", b"1", b"-", b".", b"e", b" ", b"u"])
            else:
                data[i] = r.randrange(32, 127)
        documents.append(bytes(data))
    return [json_case(d) for d in documents]


# --- YAML -------------------------------------------------------------------


def listed(value):
    """Sets and the tuples of ordered maps as lists, which is what they become."""
    if isinstance(value, (set, frozenset)):
        return sorted((listed(v) for v in value), key=repr)
    if isinstance(value, (list, tuple)):
        return [listed(v) for v in value]
    if isinstance(value, dict):
        return {k: listed(v) for k, v in value.items()}
    return value


def yaml_cases():
    documents = [d.encode() for d in YAML_SCALARS] + [b"\xff", b"- \xc3\xa9", b"\xff\xfe1\x00", b"a\x00b", b"a\x07b"]
    documents += ["- {}".format(d).encode() for d in YAML_SCALARS[:110] if "\n" not in d]
    r = random.Random(2)
    values = []
    for _ in range(150):
        # The library that splits YAML in Go refuses lone surrogates.
        value = json.loads(re.sub(r"\\ud[89a-f]..", "", json.dumps(random_value(r))))
        values.append(value)
    for value in values:
        text = yaml.safe_dump(value, allow_unicode=r.random() < 0.5, default_flow_style=r.random() < 0.3)
        try:
            documents.append(text.encode())
        except UnicodeEncodeError:
            continue
    seen = set()
    for data in documents:
        if data in seen:
            continue
        seen.add(data)
        try:
            want = canonical(listed(yaml.safe_load(data)))
        except (yaml.YAMLError, ValueError, TypeError, KeyError, OverflowError, AttributeError, IndexError):
            want = None
        yield {"data": b64(data), "want": want}


# --- msgpack ----------------------------------------------------------------


def refuse_extension(code, data):
    """No serializer of Celery writes one."""
    raise ValueError("extension")


def msgpack_cases():
    r = random.Random(3)
    values = [
        None,
        True,
        False,
        0,
        1,
        -1,
        127,
        128,
        -32,
        -33,
        255,
        256,
        65535,
        65536,
        2**32,
        2**63 - 1,
        2**63,
        2**64 - 1,
        -(2**63),
        1.5,
        float("nan"),
        float("inf"),
        "",
        "a",
        "é世界😀",
        "x" * 40,
        "x" * 300,
        b"",
        b"\xff\x00",
        b"x" * 300,
        [],
        [1, 2],
        list(range(20)),
        [0] * 400,
        {},
        {"a": 1},
        {"k%d" % i: i for i in range(20)},
        msgpack.ExtType(5, b"abc"),
        msgpack.Timestamp(1, 2),
        {1: 2},
        {b"k": 1},
        {None: 1},
    ]
    documents = [msgpack.packb(v, use_bin_type=True) for v in values]
    documents.append(msgpack.packb(1.5, use_single_float=True))
    documents += [
        b"",
        b"\xc1",
        b"\x91",
        b"\x92\x01",
        b"\x01\x01",
        b"\xa2a",
        b"\xa2\xff\xfe",
        b"\xdb\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff",
        b"\xdd\xff\xff\xff\xff\x01",
        b"\x81\xa1a",
        b"\xd9\x01a",
        b"\xc4\x01a",
        b"\xcf",
        b"\xcb\x00",
    ]
    for _ in range(200):
        value = random_value(r)
        try:
            documents.append(msgpack.packb(value, use_bin_type=True))
        except (OverflowError, UnicodeEncodeError):
            continue
    seeds = [d for d in documents if len(d) < 60]
    for _ in range(400):
        data = bytearray(r.choice(seeds))
        for _ in range(r.randrange(1, 3)):
            if data:
                data[r.randrange(len(data))] = r.randrange(256)
        documents.append(bytes(data))
    for data in documents:
        try:
            # A timestamp is not encodable, nor are bytes as a key.
            want = canonical(msgpack.unpackb(data, raw=False, ext_hook=refuse_extension))
        except (ValueError, TypeError, msgpack.UnpackException, msgpack.ExtraData, UnicodeError):
            want = None
        yield {"data": b64(data), "want": want}


# --- times ------------------------------------------------------------------


def strict_int(text):
    """int() without spaces, signs and underscores, which dateutil lets through."""
    if isinstance(text, bytes) and not text.isdigit():
        raise ValueError(text)
    return int(text)


def time_cases():
    sys.modules["dateutil.parser.isoparser"].int = strict_int
    r = random.Random(4)
    texts = list(TIMES)
    for _ in range(1200):
        text = list(r.choice(TIMES))
        for _ in range(r.randrange(1, 3)):
            i = r.randrange(len(text) + 1)
            if r.random() < 0.4 and i < len(text):
                del text[i]
            elif r.random() < 0.5:
                text.insert(i, r.choice("0123456789-:.+TZW"))
            elif i < len(text):
                text[i] = r.choice("0123456789-:.+TZW")
        texts.append("".join(text))
    seen = set()
    for text in texts:
        if text in seen:
            continue
        seen.add(text)
        try:
            value = isoparse(text)
            if value.tzinfo is None:
                value = value.replace(tzinfo=dt.timezone.utc)
            want = value.isoformat()
        except (ValueError, OverflowError):
            want = None
        yield {"text": text, "want": want}


# --- repr -------------------------------------------------------------------


class Args(tuple):
    """A tuple in a file of JSON: {"args": [...]}."""


def repr_cases():
    r = random.Random(5)
    utc, east, west = (
        dt.timezone.utc,
        dt.timezone(dt.timedelta(hours=5, minutes=30)),
        dt.timezone(dt.timedelta(hours=-8)),
    )
    values = [
        None,
        True,
        False,
        0,
        -1,
        10**30,
        1.5,
        1e16,
        1e-5,
        float("nan"),
        float("inf"),
        float("-inf"),
        -0.0,
        100.0,
        "",
        "a",
        "it's",
        'say "x"',
        "a\nb\\c",
        "é世界😀",
        b"",
        b"ascii",
        b"\xff\x00",
        "é".encode(),
        [],
        {},
        [1, 2],
        [[]],
        [[[[1]]]],
        [[[1]], [[2]]],
        {"a": {"b": {"c": {"d": 1}}}},
        {"a": None, "b": [1, {"c": "d"}]},
        [[[{"a": 1}, [1], "x"]]],
        Decimal("1.10"),
        UUID("11111111-2222-4333-8444-555555555555"),
        dt.date(2020, 1, 2),
        dt.time(3, 4),
        dt.time(3, 4, 5),
        dt.time(3, 4, 5, 678901),
        dt.time(3, 0, tzinfo=utc),
        dt.datetime(2020, 1, 2),
        dt.datetime(2020, 1, 2, 3, 4, 5, 678901),
        dt.datetime(2020, 1, 2, 3, 4, 5, tzinfo=utc),
        dt.datetime(2020, 1, 2, 3, 4, tzinfo=east),
        dt.datetime(2020, 1, 2, 3, 4, 0, 5, tzinfo=west),
        "x" * 2000,
        "word " * 400,
        ["x" * 600, "y" * 600],
        ["x" * 1022],
        ["x" * 1023],
        ["x" * 1024],
        list(range(500)),
        {"k%03d" % i: i for i in range(300)},
        {"k": "x" * 2000, "l": 1},
        {"x" * 2000: 1},
        b"x" * 2000,
        b"\xff" * 2000,
        [["x" * 1100], 1],
        [[1, [2, ["x" * 1100, 3], 4], 5], 6],
        [10**2000],
        {"a": ["b" * 1010, {"c": 1}]},
    ]
    for value in values:
        for limit in (0, 1024):
            yield value, limit
    for value in ((), (1,), (2, 3), ("x" * 1100,), ("x" * 1100, 2), (1, [2, (3,)]), ([[[1]]],)):
        yield Args(value), 1024
    for _ in range(600):
        value = random_value(r)
        try:
            kombu_json.loads(canonical(value))
        except (ValueError, TypeError):
            continue  # it looks like a typed value and is none
        if r.random() < 0.2:
            value = Args([value, r.randrange(10)][: r.randrange(3)])
            yield value, 1024
            continue
        yield value, r.choice([0, 1, 2, 5, 10, 20, 40, 80])


def sorted_maps(value):
    if isinstance(value, dict):
        return {k: sorted_maps(value[k]) for k in sorted(value)}
    if isinstance(value, list):
        return [sorted_maps(v) for v in value]
    return value


def repr_case(value, limit):
    # A tuple inside a value is a list on the other side.
    decoded = kombu_json.loads(canonical(list(value) if isinstance(value, Args) else value))
    decoded = sorted_maps(decoded)
    shown = saferepr(tuple(decoded) if isinstance(value, Args) else decoded, limit or None)
    case = {
        "value": canonical(decoded),
        "limit": limit,
        "want": shown.encode("utf-8", "surrogatepass").hex() if has_surrogate(shown) else shown,
    }
    if has_surrogate(shown):
        case["hex"] = True
    if isinstance(value, Args):
        case["args"] = True
    return case


def has_surrogate(text):
    return any(0xD800 <= ord(c) < 0xE000 for c in text)


# --- compression ------------------------------------------------------------


def compression_cases():
    r = random.Random(6)
    bodies = [b"", b"a", b"[[2, 3], {}, {}]" * 50, bytes(r.randrange(256) for _ in range(3000)), b"x" * 200000]
    codecs = [
        ("application/x-gzip", zlib.compress, None),
        ("application/x-bz2", bz2.compress, None),
        ("application/x-lzma", lzma.compress, None),
        ("application/x-brotli", brotli.compress, None),
        ("application/zstd", zstd.compress, None),
    ]
    for mime, compress, _ in codecs:
        for body in bodies:
            yield {"mime": mime, "data": b64(compress(body)), "size": len(body), "crc32": zlib.crc32(body)}
    body = b"[[2, 3], {}, {}]" * 50
    for check in (lzma.CHECK_NONE, lzma.CHECK_CRC32, lzma.CHECK_CRC64, lzma.CHECK_SHA256):
        yield {
            "mime": "application/x-lzma",
            "data": b64(lzma.compress(body, check=check, preset=9)),
            "size": len(body),
            "crc32": zlib.crc32(body),
        }
    for level in (1, 9, 19):
        yield {
            "mime": "application/zstd",
            "data": b64(zstd.compress(body, level)),
            "size": len(body),
            "crc32": zlib.crc32(body),
        }


def bomb_cases():
    """1 GiB of zeros in about a kilobyte."""
    size = 1 << 30
    body = bytes(size)
    for mime, compress in (("application/x-bz2", bz2.compress), ("application/x-brotli", brotli.compress)):
        yield {"mime": mime, "data": b64(compress(body)), "size": size}


if __name__ == "__main__":
    write("json.json", json_cases())
    write("yaml.json", list(yaml_cases()))
    write("msgpack.json", list(msgpack_cases()))
    write("times.json", list(time_cases()))
    write("repr.json", [repr_case(v, limit) for v, limit in repr_cases()])
    write("compression.json", list(compression_cases()))
    write("bombs.json", list(bomb_cases()))
