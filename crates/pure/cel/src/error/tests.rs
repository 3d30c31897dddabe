use super::*;

fn rendered(source: &str, span: Span, hint: Option<&str>) -> String {
    let error = CompileError { span, message: "wrong".into(), hint: hint.map(str::to_owned) };
    render_error(source, "spec.x", &[error])
}

fn check(source: &str, span: Span, hint: Option<&str>, expected: &[&str]) {
    let found = rendered(source, span, hint);
    assert_eq!(found.lines().collect::<Vec<_>>(), expected, "rendering of {source:?}:\n{found}");
}

#[test]
fn carets_stand_under_the_place() {
    check(
        "a + b",
        Span::new(4, 5),
        None,
        &["error: wrong", " --> spec.x:1:5", "  |", "1 | a + b", "  |     ^"],
    );
    check(
        "a +\n  bcd",
        Span::new(6, 9),
        None,
        &["error: wrong", " --> spec.x:2:3", "  |", "2 |   bcd", "  |   ^^^"],
    );
    check(
        "é + b",
        Span::new(5, 6),
        None,
        &["error: wrong", " --> spec.x:1:5", "  |", "1 | é + b", "  |     ^"],
    );
    check("a +", Span::new(3, 3), None, &["error: wrong", " --> spec.x:1:4", "  |", "1 | a +", "  |    ^"]);
}

#[test]
fn hints_follow() {
    check(
        "a = b",
        Span::new(2, 3),
        Some("equality is written `==`"),
        &[
            "error: wrong",
            " --> spec.x:1:3",
            "  |",
            "1 | a = b",
            "  |   ^",
            "  |",
            "  = help: equality is written `==`",
        ],
    );
}

#[test]
fn several_errors_are_shown_one_after_the_other() {
    let errors = [CompileError::new(Span::new(0, 1), "first"), CompileError::new(Span::new(4, 5), "second")];
    let found = render_error("a + b", "x", &errors);
    let titles: Vec<_> = found.lines().filter(|line| line.starts_with("error")).collect();
    assert_eq!(titles, ["error: first", "error: second"]);
    assert_eq!(render_error("a", "x", &[]), "");
}

#[test]
fn spans_that_do_not_fit_are_moved_and_never_panic() {
    for (source, span) in [
        ("", Span::new(0, 0)),
        ("", Span::new(5, 9)),
        ("é", Span::new(1, 1)),
        ("aé", Span::new(2, 3)),
        ("abc", Span::new(2, u32::MAX)),
        ("abc", Span { start: 3, end: 1 }),
        ("a\r\nb\n", Span::new(1, 6)),
    ] {
        assert!(rendered(source, span, None).starts_with("error: wrong"), "{source:?} at {span}");
    }
}
