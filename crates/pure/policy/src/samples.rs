//! Whether the parts of an expression work on the values that the context has.
//!
//! The attributes have known types, so a comparison such as `schedule.hour > "9"` fails whenever it is reached. There is
//! no type checker: every part that stands for itself is tried in sample contexts, and what fails in all of them because
//! of the types is refused. What fails for another reason, such as a label that is not there, may work with other values.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use kardinal_api::kardinal::{
    Approval, Artifacts, Bundle, BundleIntent, BundleSpec, ImageArtifact, Provenance,
};
use kardinal_cel::ast::{Expr, ExprKind};
use kardinal_cel::{CompileError, Env, EvalErrorKind, Limits, Span};

use crate::expression::Uses;
use crate::facts::{EnvironmentFacts, Facts};
use crate::tree::walk;
use crate::world::World;

/// How many parts of an expression are tried.
const MAX_PARTS: usize = 200;
/// What trying one part may cost.
const COST: Limits = Limits { cost: 10_000 };
/// A Wednesday.
const WEEKDAY: i64 = 1_712_739_000;
/// A Sunday.
const WEEKEND: i64 = 1_712_457_000;

/// What is wrong with the types of an expression that compiles.
pub(crate) fn check_types(env: &Env, source: &str, tree: &Expr, uses: &Uses) -> Vec<CompileError> {
    let mut parts: Vec<Span> = Vec::new();
    walk(tree, &mut |expr, bound| {
        let tried = matches!(
            expr.kind,
            ExprKind::Binary { .. } | ExprKind::Call { .. } | ExprKind::Negate(_) | ExprKind::Index { .. }
        );
        // What depends on a loop variable does not stand for itself.
        if tried && bound.is_empty() && parts.len() < MAX_PARTS {
            parts.push(expr.span);
        }
    });
    let worlds = worlds(uses);
    let mut errors: BTreeMap<Span, CompileError> = BTreeMap::new();
    for part in parts {
        if let Some((span, message)) = failure(env, source, part, &worlds) {
            let error = CompileError::new(span, format!("this never has a value: {message}"));
            let hint = "numbers, texts and truth values are compared with their own kind: `9` is a number, `\"9\"` a text";
            errors.entry(span).or_insert_with(|| error.with_hint(hint));
        }
    }
    errors.into_values().collect()
}

/// Where and why a part fails in every context because of the types.
fn failure(env: &Env, source: &str, part: Span, worlds: &[World]) -> Option<(Span, String)> {
    // A part whose parentheses lie outside of its span is no expression; those around it are tried.
    let program = env.compile(source.get(part.range())?).ok()?;
    let mut first = None;
    for world in worlds {
        let error = program.evaluate(world, &COST).err().filter(|error| error.kind == EvalErrorKind::Type)?;
        first.get_or_insert((error.span, error.message));
    }
    let (inner, message) = first?;
    Some((Span::new(part.start + inner.start, part.start + inner.end), message))
}

/// Contexts in which every attribute has a value of its type: one with all that a Bundle can tell, and one with nothing.
fn worlds(uses: &Uses) -> Vec<World> {
    let (full, empty) = (full_bundle(), bundle(Artifacts::default()));
    let samples =
        [(&full, Some(&full), Approval::PrReview, WEEKDAY), (&empty, None, Approval::Auto, WEEKEND)];
    let world = |(bundle, previous, approval, second)| {
        let environment = EnvironmentFacts { name: "prod", approval, upstreams: &[] };
        let now = Timestamp::from_second(second).unwrap_or_default();
        World::new(&Facts { bundle, environment, previous, now }, TimeZone::UTC, uses.clone())
    };
    samples.into_iter().map(world).collect()
}

fn bundle(artifacts: Artifacts) -> Bundle {
    Bundle::new("my-app-1-29-0", BundleSpec { kind: None, artifacts, provenance: None, intent: None })
}

fn full_bundle() -> Bundle {
    let image = ImageArtifact { reference: "ghcr.io/myorg/my-app:1.29.0".to_owned(), ..Default::default() };
    let mut full = bundle(Artifacts { images: vec![image], git_commit: None });
    full.spec.provenance = Some(Provenance {
        commit_sha: Some("0123456789abcdef0123456789abcdef01234567".to_owned()),
        ci_run_url: Some("https://ci.example.com/runs/1".to_owned()),
        author: Some("alice".to_owned()),
        build_timestamp: Timestamp::from_second(WEEKEND).ok(),
        rollback_of: Some("my-app-1-30-0".to_owned()),
    });
    full.spec.intent =
        Some(BundleIntent { target: Some("prod".to_owned()), skip: vec!["staging".to_owned()] });
    full
}

#[cfg(test)]
mod tests {
    use crate::check_expression;

    #[test]
    fn what_compares_values_of_different_kinds_is_refused_with_both_kinds() {
        for (expression, kinds) in [
            ("schedule.hour > \"9\"", ["int", "string"]),
            ("\"9\" <= schedule.hour", ["string", "int"]),
            ("bundle.upstreamSoakMinutes >= \"30\"", ["int", "string"]),
            ("bundle.version < 2", ["string", "int"]),
            ("schedule.isWeekend && schedule.hour > \"9\"", ["int", "string"]),
            ("!schedule.isWeekend || (schedule.hour > \"9\") == true", ["int", "string"]),
            ("bundle.name + 1 == \"a1\"", ["string", "int"]),
            ("schedule.hour.startsWith(\"9\")", ["int", "string"]),
            ("bundle.metadata.creationTimestamp < now()", ["string", "timestamp"]),
        ] {
            let said = check_expression(expression).expect_err(expression);
            assert!(said.contains("this never has a value"), "{expression}: {said}");
            assert!(kinds.iter().all(|kind| said.contains(kind)), "{expression}: {said}");
        }
    }

    #[test]
    fn what_may_work_with_other_values_is_not() {
        for expression in [
            "schedule.hour > 9 && schedule.hour < 17",
            "schedule.hour == \"9\" || true",
            "bundle.labels[\"replicas\"] > \"3\"",
            "has(bundle.labels.replicas) && int(bundle.labels.replicas) > 3",
            "bundle.labels[?\"team\"].orValue(\"\") < \"m\"",
            "timestamp(bundle.provenance.buildTimestamp) > timestamp(\"2026-01-01T00:00:00Z\")",
            "now() - timestamp(bundle.metadata.creationTimestamp) > duration(\"1h\")",
            "bundle.intent.skip[0] < \"z\"",
            "bundle.intent.skip.all(x, x > \"a\")",
            "int(bundle.version.split(\".\")[0]) >= 1",
            "previousBundle.version == \"\" || previousBundle.version < bundle.version",
            "(schedule.isWeekend ? dyn(\"a\") : dyn(1)) > 0",
            "(schedule.hour + 1) * 2 > 9",
            "-schedule.hour < 0",
            "size(bundle.provenance.author) > 0",
        ] {
            check_expression(expression).expect(expression);
        }
    }
}
