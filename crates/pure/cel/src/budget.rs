//! What one evaluation may cost, and the state that functions share while it runs. It knows nothing of the program.
//!
//! Every node costs one, and work that grows with its input costs in proportion. Whatever allocates is charged before
//! it allocates, so the limit bounds memory as well as time.

use regex::{Regex, RegexBuilder};

use crate::fault::{EvalErrorKind, Fault, argument, fault};
use crate::time::Clock;

/// Bytes of text that cost as much as one node.
const BYTES_PER_COST: u64 = 10;
/// What it costs to compile a pattern that is known only when the expression runs.
const PATTERN_COST: u64 = 2_000;
/// Bytes that one compiled pattern may take.
const PATTERN_BYTES: usize = 256 * 1024;
/// Patterns that are kept during one evaluation.
const PATTERNS_KEPT: usize = 8;

/// Bounds of one evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The cost at which an evaluation stops with [`EvalErrorKind::Budget`].
    pub cost: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { cost: 1_000_000 }
    }
}

/// What an evaluation has left to spend, which instants it depends on, and the patterns it compiled.
pub(crate) struct Context {
    left: u64,
    limit: u64,
    pub(crate) clock: Clock,
    patterns: Vec<(String, Regex)>,
}

impl Context {
    /// A fresh context.
    pub(crate) fn new(limits: &Limits, clock: Clock) -> Context {
        Context { left: limits.cost, limit: limits.cost, clock, patterns: Vec::new() }
    }

    /// What has been spent so far.
    pub(crate) fn spent(&self) -> u64 {
        self.limit - self.left
    }

    /// Spends `cost` or stops the evaluation.
    #[inline]
    pub(crate) fn charge(&mut self, cost: u64) -> Result<(), Fault> {
        match self.left.checked_sub(cost) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(self.exhausted()),
        }
    }

    /// Spends what walking over `count` elements costs.
    #[inline]
    pub(crate) fn charge_items(&mut self, count: usize) -> Result<(), Fault> {
        self.charge(count as u64)
    }

    /// Spends what reading or writing `bytes` bytes of text costs.
    #[inline]
    pub(crate) fn charge_bytes(&mut self, bytes: usize) -> Result<(), Fault> {
        self.charge(bytes as u64 / BYTES_PER_COST)
    }

    #[cold]
    fn exhausted(&mut self) -> Fault {
        self.left = 0;
        let message = format!("the evaluation cost more than its limit of {}", self.limit);
        fault(EvalErrorKind::Budget, message)
    }

    /// The compiled form of a pattern that is known only now.
    pub(crate) fn pattern(&mut self, pattern: &str) -> Result<Regex, Fault> {
        if let Some((_, known)) = self.patterns.iter().find(|(text, _)| text == pattern) {
            return Ok(known.clone());
        }
        self.charge(PATTERN_COST + pattern.len() as u64)?;
        let compiled = compile_pattern(pattern).map_err(argument)?;
        if self.patterns.len() < PATTERNS_KEPT {
            self.patterns.push((pattern.to_owned(), compiled.clone()));
        }
        Ok(compiled)
    }

    /// Spends what matching `text` against `pattern` costs.
    pub(crate) fn charge_match(&mut self, text: &str, pattern: &str) -> Result<(), Fault> {
        let text_cost = 1 + text.len() as u64 / BYTES_PER_COST;
        let pattern_cost = 1 + pattern.len() as u64 / 4;
        self.charge(text_cost.saturating_mul(pattern_cost))
    }
}

/// Compiles a pattern within bounds. The error names the pattern and the reason in one line.
pub(crate) fn compile_pattern(pattern: &str) -> Result<Regex, String> {
    let built = RegexBuilder::new(pattern).size_limit(PATTERN_BYTES).dfa_size_limit(PATTERN_BYTES).build();
    built.map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => {
            format!(
                "the pattern `{}` is too large: compiled it may take {PATTERN_BYTES} bytes",
                excerpt(pattern)
            )
        }
        other => {
            let text = other.to_string();
            let reason = text.lines().last().unwrap_or("").trim();
            let reason = reason.strip_prefix("error: ").unwrap_or(reason);
            format!("`{}` is not a regular expression: {reason}", excerpt(pattern))
        }
    })
}

/// The beginning of a text, short enough for a message.
pub(crate) fn excerpt(text: &str) -> String {
    match text.char_indices().nth(60) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or("")),
    }
}
