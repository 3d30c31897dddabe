//! What is wrong with a source text, and how to show it; this module decides nothing about what is an error.

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

use crate::span::Span;

/// One thing that is wrong with an expression, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CompileError {
    /// The bytes of the source the error is about.
    pub span: Span,
    /// What is wrong, in one line.
    pub message: String,
    /// What to do about it, when that is known.
    pub hint: Option<String>,
}

impl CompileError {
    /// An error without a hint.
    pub fn new(span: Span, message: impl Into<String>) -> CompileError {
        CompileError { span, message: message.into(), hint: None }
    }

    /// The same error with a hint.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> CompileError {
        self.hint = Some(hint.into());
        self
    }
}

/// Shows the errors under the lines of `source` they are about, with carets and without colours. `name` says which
/// source it is: a file, a field path.
pub fn render_error(source: &str, name: &str, errors: &[CompileError]) -> String {
    let renderer = Renderer::plain();
    let mut reports = Vec::with_capacity(errors.len());
    for error in errors {
        let annotation = AnnotationKind::Primary.span(visible(source, error.span));
        let snippet = Snippet::source(source).path(name).annotation(annotation);
        let mut group: Group<'_> = Level::ERROR.primary_title(error.message.as_str()).element(snippet);
        if let Some(hint) = &error.hint {
            group = group.element(Level::HELP.message(hint.as_str()));
        }
        reports.push(renderer.render(&[group]));
    }
    reports.join("\n")
}

/// The range to underline: inside the source, on character boundaries, whatever the error claims.
fn visible(source: &str, span: Span) -> std::ops::Range<usize> {
    let start = source.floor_char_boundary(span.start as usize);
    let end = source.ceil_char_boundary((span.end as usize).max(start).min(source.len()));
    start..end
}

#[cfg(test)]
mod tests;
