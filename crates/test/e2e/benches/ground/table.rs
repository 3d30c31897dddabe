//! The one table.

/// A measurement.
pub(crate) struct Row {
    /// What was measured.
    pub(crate) what: String,
    /// Here.
    pub(crate) ours: String,
    /// On kube-apiserver + etcd, where there is such a thing.
    pub(crate) theirs: String,
    /// How many times better we are.
    pub(crate) ratio: String,
    /// What we want.
    pub(crate) aim: &'static str,
}

impl Row {
    /// A measurement that only concerns us.
    pub(crate) fn ours(what: impl Into<String>, ours: String, aim: &'static str) -> Row {
        Row { what: what.into(), ours, theirs: String::new(), ratio: String::new(), aim }
    }

    fn cells(&self) -> [&str; 5] {
        [&self.what, &self.ours, &self.theirs, &self.ratio, self.aim]
    }
}

/// How many times `better` is in `worse`.
pub(crate) fn times(better: f64, worse: f64) -> String {
    if worse > 0.0 { format!("{:.1}x", better / worse) } else { String::new() }
}

/// A table in Markdown, aligned so that it can be read as it is.
pub(crate) fn render(rows: &[Row]) -> String {
    let head = Row {
        what: String::new(),
        ours: "kardinal".to_owned(),
        theirs: "kube-apiserver + etcd".to_owned(),
        ratio: "ratio".to_owned(),
        aim: "aim",
    };
    let mut widths = [0; 5];
    for row in std::iter::once(&head).chain(rows) {
        for (width, cell) in widths.iter_mut().zip(row.cells()) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |row: &Row| {
        let cells = row.cells().into_iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
    };
    let rule = widths.map(|width| "-".repeat(width));
    let mut text = line(&head);
    text.push_str(&format!("| {} |\n", rule.join(" | ")));
    rows.iter().for_each(|row| text.push_str(&line(row)));
    text
}
