//! One table of everything that was measured.

/// One line of it.
pub(crate) struct Row {
    /// What was done.
    pub(crate) what: String,
    /// What came of it.
    pub(crate) value: String,
    /// Beside what, or per what.
    pub(crate) beside: String,
}

impl Row {
    pub(crate) fn new(what: impl Into<String>, value: impl Into<String>, beside: impl Into<String>) -> Row {
        Row { what: what.into(), value: value.into(), beside: beside.into() }
    }
}

/// The rows, in columns.
pub(crate) fn render(rows: &[Row]) -> String {
    let width =
        |column: fn(&Row) -> &str| rows.iter().map(|row| column(row).chars().count()).max().unwrap_or(0);
    let (what, value) = (width(|row| &row.what), width(|row| &row.value));
    let line = |row: &Row| format!("{:<what$}  {:>value$}  {}\n", row.what, row.value, row.beside);
    rows.iter().map(line).collect()
}
