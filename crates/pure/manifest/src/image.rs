//! Image references, split into the parts that manifests name one by one.

use crate::Error;

/// An image that should run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// The name in the Bundle.
    pub name: String,
    /// Registry and repository, without tag and digest.
    pub repository: String,
    /// The tag.
    pub tag: Option<String>,
    /// The digest, always `sha256:` and 64 hexadecimal digits.
    pub digest: Option<String>,
}

impl Image {
    /// Splits `host:port/repository:tag@sha256:…`. A separately given digest wins over the one in the reference.
    /// A digest that is not well-formed is left out when there is a tag, and an error when there is none.
    pub fn parse(name: &str, reference: &str, digest: Option<&str>) -> Result<Image, Error> {
        let bad = |message: &str| Error::BadImage {
            name: name.to_owned(),
            reference: reference.to_owned(),
            message: message.to_owned(),
        };
        let (rest, own_digest) = match reference.split_once('@') {
            Some((rest, own_digest)) => (rest, Some(own_digest)),
            None => (reference, None),
        };
        // A colon before the last slash belongs to the port of the registry.
        let (repository, tag) = match rest.rsplit_once(':') {
            Some((repository, tag)) if !tag.contains('/') => (repository, Some(tag)),
            _ => (rest, None),
        };
        if repository.is_empty()
            || !repository.chars().all(is_repository_char)
            || !repository.ends_with(is_name_char)
        {
            return Err(bad("it has no usable repository"));
        }
        if tag.is_some_and(|tag| !is_tag(tag)) {
            return Err(bad("its tag must be 1 to 128 letters, digits, `.`, `_` or `-`"));
        }
        let given = digest.or(own_digest);
        let digest = given.filter(|digest| is_digest(digest));
        if tag.is_none() && digest.is_none() && given.is_some() {
            return Err(bad(
                "its digest must be `sha256:` and 64 hexadecimal digits, because there is no tag",
            ));
        }
        Ok(Image {
            name: name.to_owned(),
            repository: repository.to_owned(),
            tag: tag.map(str::to_owned),
            digest: digest.map(str::to_owned),
        })
    }

    /// What a Helm value means by "tag": the tag, or the digest where there is only that.
    pub(crate) fn version(&self) -> Option<&str> {
        self.tag.as_deref().or(self.digest.as_deref())
    }
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric()
}

fn is_repository_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/' | ':' | '[' | ']')
}

fn is_tag(tag: &str) -> bool {
    (1..=128).contains(&tag.len())
        && tag.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
        && !tag.starts_with(['.', '-'])
}

fn is_digest(digest: &str) -> bool {
    digest.strip_prefix("sha256:").is_some_and(|hex| {
        hex.len() == 64 && hex.chars().all(|c| c.is_ascii_digit() || ('a'..='f').contains(&c))
    })
}
