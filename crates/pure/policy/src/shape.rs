//! What expressions may read: every attribute of a context with its type, and a sample of its value.
//!
//! A dialect writes the shape of its context down once. From it follow the names and values that an expression may use, the
//! types its parts are tried with, and which numbers grow with the time.

use serde_json::{Map, Value, json};

/// All that expressions may read besides `schedule` and `now()`.
#[derive(Debug)]
pub struct Shape {
    /// The variables.
    pub variables: &'static [(&'static str, Attribute)],
    /// Names that the design knows and expressions cannot read yet, with what they would be.
    pub later: &'static [(&'static str, &'static str)],
    /// An expression that is true or false, for those who have written another one.
    pub example: &'static str,
}

/// What stands under a name. The samples are what expressions are tried with before anybody asks them.
#[derive(Debug)]
pub enum Attribute {
    /// A text that is never empty, and a sample of it.
    Name(&'static str),
    /// A text that is empty where it is not known, and a sample of it.
    Text(&'static str),
    /// One of these texts.
    Choice(&'static [&'static str]),
    /// `true` or `false`.
    Truth,
    /// A whole number.
    Number,
    /// A whole number that grows with the time, see [`Elapsed`](crate::Elapsed). The title is what people call it.
    Elapsed {
        /// Such as `Soak`.
        title: &'static str,
        /// What is counted.
        unit: Unit,
    },
    /// Texts under keys of the user's. One that is not there reads as empty text.
    Labels,
    /// A list of texts, and a sample of it.
    Texts(&'static [&'static str]),
    /// These names and no others.
    Fields(&'static [(&'static str, Attribute)]),
}

/// The unit of a span of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Whole minutes.
    Minutes,
    /// Whole seconds.
    Seconds,
}

impl Unit {
    /// How many seconds it has.
    pub(crate) fn seconds(self) -> i64 {
        match self {
            Unit::Minutes => 60,
            Unit::Seconds => 1,
        }
    }
}

/// Which values a sample has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sample {
    /// Everything is known.
    Full,
    /// Nothing is known.
    Empty,
}

impl Attribute {
    /// What stands under this name.
    pub(crate) fn field(&self, name: &str) -> Option<&'static Attribute> {
        let Attribute::Fields(fields) = *self else { return None };
        find(fields, name)
    }

    /// A value of this type.
    pub(crate) fn sample(&self, sample: Sample) -> Value {
        let is_full = sample == Sample::Full;
        match *self {
            Attribute::Name(text) => json!(text),
            Attribute::Text(text) => json!(if is_full { text } else { "" }),
            Attribute::Choice(texts) => {
                json!(if is_full { texts.last() } else { texts.first() }.copied().unwrap_or_default())
            }
            Attribute::Truth => json!(is_full),
            Attribute::Number | Attribute::Elapsed { .. } => json!(0),
            Attribute::Labels => json!({}),
            Attribute::Texts(texts) => json!(if is_full { texts } else { &[] }),
            Attribute::Fields(fields) => {
                let field =
                    |(name, attribute): &(&str, Attribute)| ((*name).to_owned(), attribute.sample(sample));
                Value::Object(fields.iter().map(field).collect::<Map<String, Value>>())
            }
        }
    }
}

/// The attribute of this name in a list of them.
pub(crate) fn find(all: &'static [(&'static str, Attribute)], name: &str) -> Option<&'static Attribute> {
    all.iter().find(|(known, _)| *known == name).map(|(_, attribute)| attribute)
}
