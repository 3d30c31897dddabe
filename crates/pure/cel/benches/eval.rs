//! What one evaluation costs, binding of the scope included. Run with `cargo bench -p kardinal-cel`.

use std::collections::BTreeMap;

use divan::{Bencher, black_box};
use jiff::Timestamp;
use kardinal_cel::{Env, Limits, MapScope, Program};
use serde_json::{Value, json};

const GATE: &str =
    "bundle.upstreamSoakMinutes >= 30 && !schedule.isWeekend && bundle.labels['hotfix'] == 'true'";

fn main() {
    divan::main();
}

fn env() -> Env {
    Env::standard().declare("bundle").declare("schedule").declare("items").declare("name")
}

fn variables() -> BTreeMap<String, Value> {
    let items: Vec<Value> =
        (0..10).map(|x| json!({"x": x, "name": format!("item-{x}"), "labels": {"a": "b"}})).collect();
    let document = json!({
        "bundle": {
            "upstreamSoakMinutes": 45,
            "labels": {"hotfix": "true", "team": "payments", "tier": "gold"},
            "created": "2026-01-31T12:00:00Z",
            "images": ["registry.example.com/app:1.2.3", "registry.example.com/sidecar:4.5.6"],
        },
        "schedule": {"isWeekend": false, "hour": 14},
        "items": items,
        "name": "release-2026-01-31",
    });
    match document {
        Value::Object(map) => map.into_iter().collect(),
        _ => BTreeMap::new(),
    }
}

fn program(source: &str) -> Program {
    env().compile(source).unwrap_or_else(|errors| unreachable!("{errors:?}"))
}

#[divan::bench(sample_size = 1000, args = [
    ("gate", GATE),
    ("exists", "items.exists(i, i.x > 3)"),
    ("filter_map", "items.filter(i, i.x > 3).map(i, i.x * 2).size()"),
    ("matches", "name.startsWith('release-') && name.matches('^release-[0-9]{4}-[0-9]{2}-[0-9]{2}$')"),
    ("time", "timestamp(bundle.created) + duration('1h') < now()"),
    ("hours", "now().getHours('Europe/Vienna') >= 9"),
])]
fn evaluate(bencher: Bencher<'_, '_>, (_, source): (&str, &str)) {
    let (program, variables, limits) = (program(source), variables(), Limits::default());
    let now = Timestamp::UNIX_EPOCH;
    bencher.bench_local(|| {
        let scope = MapScope::new(&variables, now);
        program.evaluate(black_box(&scope), &limits).is_ok()
    });
}

#[divan::bench]
fn evaluate_until(bencher: Bencher<'_, '_>) {
    let source =
        "timestamp(bundle.created) + duration('1h') < now() && now().getDayOfWeek('Europe/Vienna') < 5";
    let (program, variables, limits) = (program(source), variables(), Limits::default());
    let now = Timestamp::UNIX_EPOCH;
    bencher.bench_local(|| {
        let scope = MapScope::new(&variables, now);
        program.evaluate_until(black_box(&scope), &limits).is_ok()
    });
}

#[divan::bench]
fn compile_gate(bencher: Bencher<'_, '_>) {
    let env = env();
    bencher.bench_local(|| env.compile(black_box(GATE)).is_ok());
}

/// Four nested loops over a hundred elements: how long it takes until the default budget stops them.
#[divan::bench(sample_count = 10)]
fn stop_a_bomb(bencher: Bencher<'_, '_>) {
    let source = "lists.range(100).all(a, lists.range(100).all(b, lists.range(100).all(c, lists.range(100).all(d, a + b + c + d >= 0))))";
    let (program, variables, limits) = (program(source), variables(), Limits::default());
    bencher.bench_local(|| {
        let scope = MapScope::new(&variables, Timestamp::UNIX_EPOCH);
        program.evaluate(black_box(&scope), &limits).is_err()
    });
}
