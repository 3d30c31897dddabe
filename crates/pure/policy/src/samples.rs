//! Whether the parts of an expression work on the values that the context has.
//!
//! The attributes have known types, so a comparison such as `schedule.hour > "9"` fails whenever it is reached. There is
//! no type checker: every part that stands for itself is tried in sample contexts, and what fails in all of them because
//! of the types is refused. What fails for another reason, such as a label that is not there, may work with other values.
//! Equality never fails; the same contexts tell whether its sides can be equal.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use kardinal_api::kardinal::{
    Approval, Artifacts, Bundle, BundleIntent, BundleSpec, ImageArtifact, Provenance,
};
use kardinal_cel::ast::{Expr, ExprKind};
use kardinal_cel::{CompileError, Env, EvalErrorKind, Limits, Span};

use crate::equality::{KINDS_HINT, check_equality};
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
            errors.entry(span).or_insert_with(|| error.with_hint(KINDS_HINT));
        }
    }
    for error in check_equality(env, source, tree, &worlds) {
        errors.entry(error.span).or_insert(error);
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
    fn equality_of_values_of_different_kinds_is_refused_with_both_kinds() {
        for (expression, answer, kinds) in [
            ("schedule.hour == \"9\"", "never true", ["int", "string"]),
            ("\"9\" == schedule.hour", "never true", ["string", "int"]),
            ("schedule.hour != \"9\"", "always true", ["int", "string"]),
            ("schedule.hour == \"9\" || true", "never true", ["int", "string"]),
            ("schedule.hour in [\"9\"]", "never found", ["int", "string"]),
            ("schedule.hour in [9, \"10\"]", "never found", ["int", "string"]),
            ("!(schedule.hour in [\"9\", \"10\"])", "never found", ["int", "string"]),
            ("schedule.isWeekend == \"false\"", "never true", ["bool", "string"]),
            ("schedule.isWeekend != \"true\"", "always true", ["bool", "string"]),
            ("schedule.isWeekend == 1", "never true", ["bool", "int"]),
            ("bundle.version == 1", "never true", ["string", "int"]),
            ("bundle.version in [1.5, 2]", "never found", ["string", "double"]),
            ("bundle.upstreamSoakMinutes == \"30\"", "never true", ["int", "string"]),
            ("(schedule.hour + 1) == (\"9\")", "never true", ["int", "string"]),
            ("bundle.version.split(\".\")[0] == 1", "never true", ["string", "int"]),
            ("size(bundle.version.split(\".\")) == \"3\"", "never true", ["int", "string"]),
            ("has(bundle.labels.hotfix) == \"true\"", "never true", ["bool", "string"]),
            (
                "bundle.metadata.creationTimestamp == now()",
                "never true",
                ["string", "google.protobuf.Timestamp"],
            ),
            ("bundle.labels[?\"team\"] == \"web\"", "never true", ["optional_type", "string"]),
        ] {
            let said = check_expression(expression).expect_err(expression);
            assert!(said.contains(&format!("this is {answer}: ")), "{expression}: {said}");
            assert!(
                said.contains(&format!("{} and {} are never equal", kinds[0], kinds[1])),
                "{expression}: {said}"
            );
        }
    }

    #[test]
    fn a_refused_equality_is_marked_where_it_stands_and_tells_the_remedy() {
        let said = check_expression("!schedule.isWeekend && schedule.hour in [9, \"10\"]").unwrap_err();
        assert!(said.starts_with("error: this is never found: int and string are never equal\n"), "{said}");
        assert!(said.contains("--> spec.expression:1:45\n"), "{said}");
        assert!(said.contains("`9` is a number, `\"9\"` a text"), "{said}");
        let said = check_expression("bundle.labels[?\"team\"] == \"web\"").unwrap_err();
        assert!(said.contains("`.orValue(\"\")`"), "{said}");
    }

    #[test]
    fn what_may_work_with_other_values_is_not() {
        for expression in [
            "schedule.hour > 9 && schedule.hour < 17",
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
            "schedule.hour == 9 && schedule.minute != 30u && schedule.hour != 9.5 && schedule.hour in [9, 10u, 11.0]",
            "schedule.isWeekend == false && schedule[\"isWeekend\"] != true",
            "bundle.provenance.author == null || null != bundle.provenance.author",
            "bundle.provenance.author in [null]",
            "schedule.hour in []",
            "bundle.labels.replicas == \"3\" || bundle.labels[\"replicas\"] == 3 || bundle.labels.replicas in [3]",
            "bundle.labels == {} || bundle.intent.skip == [] || bundle.intent.skip == [1]",
            "bundle.intent.skip[0] == \"staging\" || \"staging\" in bundle.intent.skip || 1 in bundle.intent.skip",
            "has(bundle.labels.hotfix) == true",
            "has(bundle.labels.hotfix) && bundle.labels.hotfix == true",
            "bundle.labels[?\"team\"] == optional.of(\"web\") || bundle.labels.?team != optional.none()",
            "bundle.labels[?\"team\"].orValue(\"\") == \"web\" || bundle.labels[?\"replicas\"].orValue(3) == \"3\"",
            "bundle.labels[?\"team\"].or(optional.of(1)).value() == \"web\"",
            "bundle.version in [?bundle.labels[?\"version\"]]",
            "dyn(schedule.hour) == \"9\" || schedule.hour != dyn(\"9\") || schedule.hour in [dyn(\"9\")]",
            "schedule.hour in dyn([\"9\"])",
            "bundle.intent.skip.all(x, x == 1) || bundle.labels.exists(k, bundle.labels[k] != 1)",
            "(schedule.hour > 22 ? \"late\" : 0) == \"late\"",
            "[1, \"a\"][schedule.hour % 2] == \"a\"",
            "{\"a\": 1, \"b\": \"b\"}[schedule.hour > 22 ? \"b\" : \"a\"] == \"b\"",
            "type(schedule.hour) == int && type(bundle.version) != type(1)",
            "timestamp(bundle.provenance.buildTimestamp) == now()",
        ] {
            check_expression(expression).expect(expression);
        }
    }
}
