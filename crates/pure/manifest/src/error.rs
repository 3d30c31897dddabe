//! What can be wrong with a manifest, a path or an image; always something the user must change.

/// Why an edit was refused. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file is larger than [`MAX_BYTES`](crate::MAX_BYTES).
    #[error("file `{file}` has {size} bytes; at most {limit} are allowed: split it")]
    TooLarge {
        /// The file.
        file: String,
        /// Its size in bytes.
        size: usize,
        /// The allowed size in bytes.
        limit: usize,
    },
    /// The file is not YAML.
    #[error("file `{file}` is not valid YAML: {message}")]
    NotYaml {
        /// The file.
        file: String,
        /// What the parser says, with line and column.
        message: String,
    },
    /// The path cannot be read.
    #[error(
        "path `{path}` for file `{file}` is not valid: {message}; write it like `.image.tag`, `.items[0]` or `.\"a.b\"`"
    )]
    BadPath {
        /// The file.
        file: String,
        /// The path as given.
        path: String,
        /// What is wrong with it.
        message: String,
    },
    /// The file has no such field.
    #[error("file `{file}` has no field `{path}`: {message}; add the field or correct the path")]
    Missing {
        /// The file.
        file: String,
        /// The path.
        path: String,
        /// Where the path leaves the file, and what is there.
        message: String,
    },
    /// The path means more than one place, or the images contradict each other.
    #[error("field `{path}` of file `{file}` is ambiguous: {message}")]
    Ambiguous {
        /// The file.
        file: String,
        /// The path.
        path: String,
        /// Which places it means.
        message: String,
    },
    /// The field has a shape that cannot be edited.
    #[error("field `{path}` of file `{file}` cannot be edited: {message}")]
    Unfit {
        /// The file.
        file: String,
        /// The path.
        path: String,
        /// What stands in the way.
        message: String,
    },
    /// The edit would have changed more than the field.
    #[error(
        "field `{path}` of file `{file}` cannot be edited without changing something else; write it in a plainer form, for example `key: value` on a line of its own"
    )]
    Unsafe {
        /// The file.
        file: String,
        /// The path.
        path: String,
    },
    /// An image reference cannot be read.
    #[error(
        "image `{name}` has the reference `{reference}`: {message}; write it like `registry.example.com/team/app:1.2.3`"
    )]
    BadImage {
        /// The name of the image in the Bundle.
        name: String,
        /// The reference as given.
        reference: String,
        /// What is wrong with it.
        message: String,
    },
    /// There is no image to write.
    #[error(
        "file `{file}`, field `{path}`: the Bundle has no image to write; add one to the Bundle or use another update strategy"
    )]
    NoImage {
        /// The file.
        file: String,
        /// The field that would be written.
        path: String,
    },
    /// The pattern is not a regular expression, or one that is too large.
    #[error("pattern `{pattern}` for file `{file}` cannot be used: {message}")]
    BadPattern {
        /// The file.
        file: String,
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        message: String,
    },
    /// The pattern matches nowhere.
    #[error("pattern `{pattern}` matches nothing in file `{file}`; correct the pattern or the file")]
    NoMatch {
        /// The file.
        file: String,
        /// The pattern.
        pattern: String,
    },
}
