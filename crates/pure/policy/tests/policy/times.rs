//! Points in time as people write them.

use kardinal_policy::{parse_when, time_zone};

use super::door::{NOW, at};

#[test]
fn times_are_read() {
    for (text, zone, expected) in [
        ("now", "UTC", NOW),
        ("Saturday 3pm", "UTC", "2026-04-18T15:00:00Z"),
        ("saturday 3PM", "Europe/Berlin", "2026-04-18T13:00:00Z"),
        ("sat 15:30", "UTC", "2026-04-18T15:30:00Z"),
        ("Tuesday 3pm", "UTC", "2026-04-14T15:00:00Z"),
        ("Tuesday 2pm", "UTC", "2026-04-14T14:00:00Z"),
        ("Tuesday 1pm", "UTC", "2026-04-21T13:00:00Z"),
        ("Wednesday", "UTC", "2026-04-15T00:00:00Z"),
        ("today 12am", "UTC", "2026-04-14T00:00:00Z"),
        ("tomorrow 12:30 pm", "UTC", "2026-04-15T12:30:00Z"),
        ("13:59", "UTC", "2026-04-15T13:59:00Z"),
        ("3pm", "UTC", "2026-04-14T15:00:00Z"),
        ("2026-04-11 15:00", "America/New_York", "2026-04-11T19:00:00Z"),
        ("2026-04-11", "UTC", "2026-04-11T00:00:00Z"),
        ("2026-04-11T15:00:00Z", "Europe/Berlin", "2026-04-11T15:00:00Z"),
        ("2026-04-11T15:00:00+02:00", "UTC", "2026-04-11T13:00:00Z"),
        // The clocks go forward at 2:00.
        ("2026-03-29 02:30", "Europe/Berlin", "2026-03-29T01:30:00Z"),
    ] {
        let zone = time_zone(zone).unwrap();
        assert_eq!(parse_when(text, at(NOW), &zone), Ok(at(expected)), "{text}");
    }
}

#[test]
fn other_texts_are_refused() {
    let zone = time_zone("UTC").unwrap();
    for text in [
        "",
        "3",
        "Caturday 3pm",
        "13pm",
        "0am",
        "25:00",
        "Saturday 3",
        "2026-13-01",
        "2026-04-11 nine",
        "-1:00",
    ] {
        let error = parse_when(text, at(NOW), &zone).unwrap_err();
        assert!(error.contains(&format!("`{text}`")) && error.contains("Saturday 3pm"), "{error}");
    }
    assert!(time_zone("").is_err() && time_zone("../etc/passwd").is_err());
}
