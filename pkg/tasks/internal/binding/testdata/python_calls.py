"""Writes python_calls.json: what CPython 3.11 does with calls of many shapes.

Run: python3.11 python_calls.py > python_calls.json

A case is [function, number of positional arguments, keyword names, outcome].
Positional arguments are 0, 1, 2, ...; a keyword argument has the length of its
name plus 100. The outcome is the TypeError's text, or the values of the
parameters in order.
"""
import itertools
import json


def none(): return []
def one(x): return [x]
def add(x, y): return [x, y]
def four(a, b, c, d): return [a, b, c, d]
def opt(x, y=71): return [x, y]
def allopt(x=70, y=71): return [x, y]
def kwo(x, *, k): return [x, k]
def kwmany(*, k, ll, m, n=74): return [k, ll, m, n]
def kwdefault(x, y=71, *, k=72): return [x, y, k]
def rest(x, *args): return [x, list(args)]
def extra(x, **kwargs): return [x, kwargs]
def everything(x, y=71, *args, k, m=73, **kwargs): return [x, y, list(args), k, m, kwargs]


FUNCTIONS = [
    (none, ""), (one, "x"), (add, "xy"), (four, "abcd"), (opt, "xy"), (allopt, "xy"),
    (kwo, "xk"), (kwmany, ["k", "ll", "m", "n"]), (kwdefault, "xyk"),
    (rest, "x"), (extra, "x"), (everything, "xykm"),
]

cases = []
for function, names in FUNCTIONS:
    keywords = sorted([*names, "bad", "zz"])
    for positional in range(len(names) + 2):
        for size in range(0, 4):
            for given in itertools.combinations(keywords, size):
                try:
                    outcome = function(*range(positional), **{k: 100 + len(k) for k in given})
                except TypeError as error:
                    outcome = str(error)
                cases.append([function.__name__, positional, given, outcome])
print("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]")
