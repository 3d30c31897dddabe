//! Reads case files: the `.http` format that editors know, with a few directives in comments.
//!
//! ```text
//! ### a title
//! # @save rv = metadata.resourceVersion
//! PATCH /api/v1/namespaces/{{ns}}/configmaps/a?fieldManager=x
//! Content-Type: application/merge-patch+json
//!
//! {"data": {"a": "b"}}
//! ```
//!
//! Directives: `@save NAME = PATH` keeps a value of the answer for later `{{NAME}}`s, per server;
//! `@until 404` and `@until PATH = VALUE` ask again until the answer is so; `@watch N` reads N events of a stream;
//! `@intended ID POINTER` names an entry of the list of differences and the part of the answer that it excuses
//! (`*` stands for any one part of a pointer); before the first step it holds for the whole file;
//! `@window N`, before the first step, makes the embedded server remember only N watch events.
//! A body that is `< FILE` is read from that file, relative to the workspace.

use anyhow::{Context as _, bail};

/// A file of steps that share a namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Case {
    /// What to send, in order.
    pub steps: Vec<Step>,
    /// How many watch events the embedded server remembers, where the case needs it to forget.
    pub window: Option<usize>,
    /// Entries of the list of differences that any step may use, each with the JSON pointer that it excuses.
    pub intended: Vec<(String, String)>,
}

/// One request and what to do with its answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Step {
    /// What it shows; failures are reported under it.
    pub title: String,
    /// The line in the file.
    pub line: usize,
    /// `GET`, `POST`, …
    pub method: String,
    /// Path and query, with `{{…}}`.
    pub path: String,
    /// Request headers.
    pub headers: Vec<(String, String)>,
    /// The body as it is sent, with `{{…}}`.
    pub body: String,
    /// Values of the answer to keep: name and path.
    pub save: Vec<(String, String)>,
    /// What the answer must be before it counts.
    pub until: Option<Until>,
    /// How many watch events to read; nothing for a plain request.
    pub watch: Option<usize>,
    /// Entries of the list of differences, each with the JSON pointer that it excuses.
    pub intended: Vec<(String, String)>,
}

/// A condition on an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Until {
    /// The HTTP status code.
    Code(u16),
    /// A path in the body and the value there, as compact JSON or as plain text.
    Field(String, String),
}

/// Reads a case file.
pub fn parse(text: &str) -> anyhow::Result<Case> {
    let mut case = Case::default();
    let mut block: Vec<(usize, &str)> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.starts_with("### ") {
            finish(&mut case, &block)?;
            block.clear();
        }
        block.push((index + 1, line));
    }
    finish(&mut case, &block)?;
    Ok(case)
}

fn finish(case: &mut Case, block: &[(usize, &str)]) -> anyhow::Result<()> {
    let Some((line, title)) =
        block.first().and_then(|(line, text)| Some((*line, text.strip_prefix("### ")?)))
    else {
        for (number, text) in block {
            if let Some(count) = text.strip_prefix("# @window ") {
                case.window = Some(count.trim().parse()?);
            } else if let Some(rest) = text.strip_prefix("# @intended ") {
                case.intended.push(excuse(rest)?);
            } else if !text.is_empty() && !text.starts_with('#') {
                bail!("line {number}: `{text}` is before the first `### title`");
            }
        }
        return Ok(());
    };
    let mut step = Step { title: title.trim().to_owned(), line, ..Step::default() };
    let mut lines = block.iter().skip(1);
    for (number, text) in lines.by_ref() {
        if text.is_empty() && !step.method.is_empty() {
            break;
        }
        head_line(&mut step, text).with_context(|| format!("line {number}: `{text}`"))?;
    }
    let body: Vec<&str> = lines.map(|(_, text)| *text).collect();
    step.body = body.join("\n").trim_end().to_owned();
    if step.method.is_empty() {
        bail!("line {line}: `{title}` has no request");
    }
    case.steps.push(step);
    Ok(())
}

fn head_line(step: &mut Step, text: &str) -> anyhow::Result<()> {
    if let Some(directive) = text.strip_prefix("# @") {
        return directive_line(step, directive);
    }
    if text.is_empty() || text.starts_with('#') {
        return Ok(());
    }
    if step.method.is_empty() {
        let (method, path) = text.split_once(' ').context("a request is `METHOD /path`")?;
        step.method = method.to_owned();
        step.path = path.trim().to_owned();
    } else {
        let (name, value) = text.split_once(':').context("a header is `Name: value`")?;
        step.headers.push((name.to_owned(), value.trim().to_owned()));
    }
    Ok(())
}

fn directive_line(step: &mut Step, directive: &str) -> anyhow::Result<()> {
    let (name, rest) = directive.split_once(' ').unwrap_or((directive, ""));
    let rest = rest.trim();
    match name {
        "save" => {
            let (name, path) = rest.split_once('=').context("`@save NAME = PATH`")?;
            step.save.push((name.trim().to_owned(), path.trim().to_owned()));
        }
        "until" => {
            step.until = Some(match rest.split_once('=') {
                Some((path, value)) => Until::Field(path.trim().to_owned(), value.trim().to_owned()),
                None => Until::Code(rest.parse().context("`@until CODE` or `@until PATH = VALUE`")?),
            });
        }
        "watch" => step.watch = Some(rest.parse().context("`@watch N`")?),
        "intended" => step.intended.push(excuse(rest)?),
        other => bail!("unknown directive `@{other}`"),
    }
    Ok(())
}

fn excuse(text: &str) -> anyhow::Result<(String, String)> {
    let (id, pointer) = text.trim().split_once(' ').context("`@intended ID POINTER`")?;
    Ok((id.to_owned(), pointer.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_has_directives_a_request_headers_and_a_body() {
        let text = "# about\n# @window 4\n\n### one\n# @save rv = metadata.resourceVersion\n# @until code.x = 3\nPATCH /a?b=c\nX: y: z\n\n{\n\n}\n\n### two\n# @until 404\nGET /b\n";
        let case = parse(text).expect("it is well formed");
        assert_eq!(case.window, Some(4));
        let [one, two] = case.steps.as_slice() else { panic!("two steps, not {:?}", case.steps) };
        assert_eq!((one.title.as_str(), one.line, one.path.as_str()), ("one", 4, "/a?b=c"));
        assert_eq!(one.headers, [("X".to_owned(), "y: z".to_owned())]);
        assert_eq!(one.body, "{\n\n}");
        assert_eq!(one.save, [("rv".to_owned(), "metadata.resourceVersion".to_owned())]);
        assert_eq!(one.until, Some(Until::Field("code.x".to_owned(), "3".to_owned())));
        assert_eq!((two.until.clone(), two.body.as_str()), (Some(Until::Code(404)), ""));
    }

    #[test]
    fn mistakes_are_refused() {
        for text in ["x", "### a\n", "### a\nGET\n", "### a\n# @nope\nGET /\n", "### a\n# @until x\nGET /\n"]
        {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }
}
