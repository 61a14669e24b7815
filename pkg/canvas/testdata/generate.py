"""Records what a Celery worker publishes after a task: continuations.json.

    python generate.py > continuations.json

Needs Celery 5.7. The worker's own code traces a task whose message asks for a
continuation; what it would publish is caught where it leaves Celery.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import celery
from celery import Celery, chain, group, signature
from celery.app.trace import build_tracer
from kombu.utils.json import dumps, loads

PARENT = "11111111-1111-4111-8111-111111111111"
ROOT = "22222222-2222-4222-8222-222222222222"

app = Celery("continuations", broker="memory://", backend="cache+memory://", set_as_current=True)
app.conf.task_routes = [
    {"shop.exact": "q.exact", "shop.*": {"queue": "q.glob", "priority": 4}},
    {"lib.[ab]*": {"queue": "q.class"}, "shop.exact": "never"},
]


@app.task(name="proj.value")
def value(result: Any) -> Any:
    return result


@app.task(name="proj.fail")
def fail() -> None:
    raise ValueError("boom")


def s(task: str, *args: Any, immutable: bool = False, **options: Any) -> Any:
    """A signature of a task that this worker does not know, like all of Go's."""
    return signature(task, args=args, options=options, app=app, immutable=immutable)


sent: list[dict[str, Any]] = []


def catch(_producer: Any, name: str, message: Any, exchange=None, routing_key=None, queue=None, **options: Any) -> None:
    headers, properties, body, _ = message
    if queue is None and exchange is None:
        queue = app.amqp.default_queue
    direct = not exchange or not routing_key
    for known in ("retry", "retry_policy", "delivery_mode", "compression", "serializer"):
        if known in options:
            properties = {**properties, "~" + known: options.pop(known)}
    headers = {**headers, **(options.pop("headers", None) or {})}
    properties.update({k: v for k, v in options.items() if k not in ("declare", "exchange_type")})
    sent.append(
        {
            "queue": queue.name if direct else routing_key,
            "headers": headers,
            "properties": properties,
            "body": loads(dumps(body)),
        }
    )


app.amqp.__dict__["send_task_message"] = catch


def case(
    name: str, callbacks: Any = None, steps: Any = None, errbacks: Any = None, result: Any = 5,
    inherit: bool = False, headers: dict[str, Any] | None = None, root: str | None = ROOT,
) -> dict[str, Any]:
    """Trace one task. steps are a chain behind it, frozen as a producer does."""
    app.conf.task_inherit_parent_priority = inherit
    chained = None
    if steps:
        tasks, _ = chain(*steps, app=app).prepare_steps((), {}, list(steps), app=app)
        chained = tasks
    failing = errbacks is not None
    task = fail if failing else value
    embed = loads(dumps({"callbacks": callbacks, "errbacks": errbacks, "chain": chained, "chord": None}))
    request = {
        "id": PARENT, "root_id": root, "parent_id": None, "task": task.name, "retries": 0,
        "delivery_info": {"exchange": "", "routing_key": "celery", "priority": 7, "redelivered": False},
        "args": [] if failing else [result], "kwargs": {}, "is_eager": False, "hostname": "w@h", **embed, **(headers or {}),
    }
    sent.clear()
    tracer = build_tracer(task.name, task, app=app, propagate=False)
    tracer(PARENT, request["args"], {}, loads(dumps(request)))
    meta = app.backend.get_task_meta(PARENT)
    app.backend.forget(PARENT)
    return {
        "name": name, "embed": embed, "root": root, "result": result, "failing": failing, "inherit": inherit,
        "priority": 7, "messages": list(sent), "children": meta["children"],
    }


def later(*tasks: Any) -> Any:
    return chain(*tasks, app=app)


def many(*tasks: Any, **options: Any) -> Any:
    return group(*tasks, app=app, **options)


ALL = {"link": [s("x.linked")], "link_error": s("x.failed"), "countdown": None, "queue": "own", "priority": 3,
       "expires": "2031-02-03T04:05:06+00:00", "eta": "2030-02-03T04:05:06+00:00", "time_limit": 10, "soft_time_limit": 2.5,
       "headers": {"x-mine": "1"}, "shadow": "shown", "ignore_result": True, "serializer": "msgpack", "compression": "gzip",
       "delivery_mode": 1, "retries": 2, "replaced_task_nesting": 3, "unknown_to_celery": "kept", "group_index": 4,
       "reply_to": "someone", "group_id": "the-group"}
STAMPED = {"stamped_headers": ["batch", "who"], "batch": "b-7", "who": ["a", "b"]}


def cases() -> list[dict[str, Any]]:
    return [
        case("one callback", [s("x.a", 1)]),
        case("callback without a root", [s("x.a", 1)], root=None),
        case("two callbacks", [s("x.a", 1), s("x.b", 2, k=None)]),
        case("an immutable callback", [s("x.a", 1, immutable=True)]),
        case("a callback and a group", [s("x.a", 1), many(s("x.b"), s("x.c", 9)), s("x.d")]),
        case("a group as the only callback", [many(s("x.b"), s("x.c", 9, immutable=True), task_id="the-group-id")]),
        case("a nested group as callback", [many(s("x.a"), many(s("x.b"), s("x.c")), s("x.d"))]),
        case("a group of one", [many(s("x.a"))]),
        case("an empty group", [many()]),
        case("a chain as callback", [later(s("x.a", 1), s("x.b", 2), s("x.c", 3))]),
        case("a chain with links", [later(s("x.a"), s("x.b")).set(link=[s("x.l")], link_error=[s("x.e")], task_id="last")]),
        case("links of a chain that ends in a group", [
            later(s("x.a"), many(s("x.b", link_error=s("x.own")), s("x.c"))).set(link=[s("x.l")], link_error=s("x.e"))]),
        case("links of a group", [many(s("x.a", link=[s("x.own")]), s("x.b"), link=[s("x.l")], queue="q")]),
        case("a chain with an id that ends in a group", [later(s("x.a"), many(s("x.b"), s("x.c"))).set(task_id="lost")]),
        case("a group with a priority", [many(s("x.a"), s("x.b", priority=2), priority=3)]),
        case("a chain in groups in chains", [
            many(later(s("x.a"), many(later(s("x.b"), many(s("x.c"), s("x.d"))), s("x.e"))), s("x.f"), queue="gq")]),
        case("a chain of one", [later(s("x.a")).set(link=s("x.l"), queue="q", group_id="g", group_index=3)]),
        case("a chain with an empty group", [later(many(), s("x.a"), many(), s("x.b"))]),
        case("an immutable chain", [chain(s("x.a", 1), s("x.b"), app=app).set(immutable=True)]),
        case("a chain in a chain", [later(s("x.a"), later(s("x.b"), s("x.c")), s("x.d"))]),
        case("a chain that ends in a group", [later(s("x.a"), many(s("x.b"), s("x.c")))]),
        case("a chain with a group of one", [later(s("x.a"), many(s("x.b")), s("x.c"))]),
        case("a group of chains", [many(later(s("x.a"), s("x.b")), s("x.c"), later(s("x.d"), many(s("x.e"), s("x.f"))))]),
        case("a group of one chain that ends in a group", [many(later(s("x.a"), many(s("x.b"), s("x.c"))))]),
        case("several chains as callbacks", [later(s("x.a"), s("x.b")), later(s("x.c"), s("x.d"))]),
        case("all options", [s("x.a", 1, **ALL)]),
        case("stamps", [s("x.a", 1, **STAMPED)]),
        case("stamps in a group", [many(s("x.a", **STAMPED), s("x.b"))]),
        case("a kwarg and typed arguments", [signature("x.a", args=(1.5, None), kwargs={"k": [1, {"n": "é"}]}, app=app)], result={"r": [1]}),
        case("no child", [s("x.a", add_to_parent=False)]),
        case("null options", [s("x.a", queue=None, priority=None, task_id=None)]),
        case("a routing key alone", [s("x.a", routing_key="rk")]),
        case("an exchange and a routing key", [s("x.a", routing_key="rk", exchange="ex")]),
        case("routed by name", [s("shop.exact")]),
        case("routed by a glob", [s("shop.other"), s("lib.b1"), s("lib.c1")]),
        case("a route and an own queue", [s("shop.other", queue="own"), s("shop.more", priority=1)]),
        case("priority is not inherited", [s("x.a"), s("x.b", priority=2)]),
        case("priority is inherited", [s("x.a"), s("x.b", priority=2)], inherit=True),
        case("priority is inherited by chains", [later(s("x.a"), s("x.b"))], inherit=True),
        case("the next step", steps=[s("x.a", 1), s("x.b", 2)]),
        case("the last step", steps=[s("x.a", 1)]),
        case("an immutable step", steps=[s("x.a", 1, immutable=True), s("x.b")]),
        case("a step that is a group", steps=[many(s("x.a"), s("x.b", 1, immutable=True))]),
        case("a step that is a group of chains", steps=[many(later(s("x.a"), s("x.b")), s("x.c"))]),
        case("a step with options", steps=[s("x.a", 1, **ALL), s("x.b", **STAMPED)]),
        case("a step with an inherited priority", steps=[s("x.a", priority=2), s("x.b")], inherit=True),
        case("callbacks and a step", [s("x.l1"), s("x.l2")], steps=[s("x.a"), s("x.b")]),
        case("one errback", errbacks=[s("x.e", 1)]),
        case("two errbacks", errbacks=[s("x.e", 1), s("x.f", queue="elsewhere")]),
        case("an immutable errback", errbacks=[s("x.e", 1, immutable=True)]),
        case("an errback without a root", errbacks=[s("x.e", 1)], root=None),
        case("an errback with options", errbacks=[s("x.e", **{k: v for k, v in ALL.items() if "group" not in k})]),
        case("a group as errback", errbacks=[many(s("x.e"), s("x.f"))]),
        case("an errback inherits no priority", errbacks=[s("x.e")], inherit=True),
        case("a stamped errback", errbacks=[s("x.e", **STAMPED)]),
        case("a routed errback", errbacks=[s("shop.exact")]),
    ]


def clean(v: Any, inside: str = "", sent: bool = True) -> Any:
    """Leave out what says nothing: the name of a queue that only the rpc backend reads, and null options of what is sent."""
    if isinstance(v, dict):
        return {
            key: clean(item, key, sent and key != "embed")
            for key, item in v.items()
            if not (sent and inside == "options" and item is None) and not (key == "reply_to" and item == app.thread_oid)
        }
    return [clean(item, "", sent) for item in v] if isinstance(v, (list, tuple)) else v


json.dump(clean({"celery": celery.__version__, "cases": cases()}), sys.stdout, indent=1, sort_keys=True)
sys.stdout.write("\n")
