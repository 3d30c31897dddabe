//! Content negotiation: what the client sends and what it wants back.

/// How an answer is to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// The object or list itself.
    Plain,
    /// `as=Table`
    Table,
    /// `as=PartialObjectMetadata` and `as=PartialObjectMetadataList`
    Metadata,
    /// `as=APIGroupDiscoveryList` in version `v2` or `v2beta1`.
    Aggregated(&'static str),
}

/// Whether the answer is JSON or YAML.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Syntax {
    /// `application/json`
    Json,
    /// `application/yaml`
    Yaml,
}

/// The best answer form for an `Accept` header; nothing when none can be given (406).
pub(crate) fn accept(header: Option<&str>) -> Option<(Form, Syntax)> {
    let header = match header {
        None => return Some((Form::Plain, Syntax::Json)),
        Some(text) if text.trim().is_empty() => return Some((Form::Plain, Syntax::Json)),
        Some(text) => text,
    };
    let mut best: Option<((Form, Syntax), u32)> = None;
    let mut protobuf = false;
    for item in header.split(',') {
        let mut parts = item.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default().to_ascii_lowercase();
        let parameters: Vec<(&str, &str)> = parts.filter_map(|part| part.split_once('=')).collect();
        let parameter = |name: &str| {
            parameters
                .iter()
                .find(|(key, _)| key.trim() == name)
                .map(|(_, value)| value.trim().trim_matches('"'))
        };
        let syntax = match media.as_str() {
            "application/json" | "*/*" | "application/*" => Syntax::Json,
            "application/yaml" => Syntax::Yaml,
            "application/vnd.kubernetes.protobuf" => {
                protobuf = true;
                continue;
            }
            _ => continue,
        };
        let Some(form) = form(parameter("g"), parameter("v"), parameter("as")) else { continue };
        let quality = quality(parameter("q"));
        if quality > 0 && best.is_none_or(|(_, other)| quality > other) {
            best = Some(((form, syntax), quality));
        }
    }
    match best {
        Some((chosen, _)) => Some(chosen),
        // A client that speaks only protobuf gets JSON, named as such in Content-Type, rather than nothing.
        None if protobuf => Some((Form::Plain, Syntax::Json)),
        None => None,
    }
}

fn form(group: Option<&str>, version: Option<&str>, target: Option<&str>) -> Option<Form> {
    match (group, version, target) {
        (_, _, None) => Some(Form::Plain),
        (Some("meta.k8s.io"), Some("v1" | "v1beta1"), Some("Table")) => Some(Form::Table),
        (
            Some("meta.k8s.io"),
            Some("v1" | "v1beta1"),
            Some("PartialObjectMetadata" | "PartialObjectMetadataList"),
        ) => Some(Form::Metadata),
        (Some("apidiscovery.k8s.io"), Some("v2"), Some("APIGroupDiscoveryList")) => {
            Some(Form::Aggregated("v2"))
        }
        (Some("apidiscovery.k8s.io"), Some("v2beta1"), Some("APIGroupDiscoveryList")) => {
            Some(Form::Aggregated("v2beta1"))
        }
        _ => None,
    }
}

/// A quality value in thousandths; what cannot be read counts as 1.
fn quality(text: Option<&str>) -> u32 {
    let Some(text) = text else { return 1000 };
    let Ok(value) = text.parse::<f32>() else { return 1000 };
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // clamped to 0..=1000 before
    let thousandths = (value.clamp(0.0, 1.0) * 1000.0) as u32;
    thousandths
}

/// How a request body is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyType {
    /// `application/json`, or nothing said.
    Json,
    /// `application/yaml`
    Yaml,
    /// `application/vnd.kubernetes.protobuf`
    Protobuf,
    /// `application/json-patch+json`
    JsonPatch,
    /// `application/merge-patch+json`
    MergePatch,
    /// `application/strategic-merge-patch+json`
    StrategicMergePatch,
    /// `application/apply-patch+yaml` (JSON is YAML too)
    ApplyPatch,
}

/// The type a `Content-Type` header names; nothing when it is not supported (415).
pub(crate) fn content_type(header: Option<&str>) -> Option<BodyType> {
    let media = header.unwrap_or_default().split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match media.as_str() {
        "" | "application/json" | "*/*" => Some(BodyType::Json),
        "application/yaml" | "application/x-yaml" | "text/yaml" => Some(BodyType::Yaml),
        "application/vnd.kubernetes.protobuf" => Some(BodyType::Protobuf),
        "application/json-patch+json" => Some(BodyType::JsonPatch),
        "application/merge-patch+json" => Some(BodyType::MergePatch),
        "application/strategic-merge-patch+json" => Some(BodyType::StrategicMergePatch),
        "application/apply-patch+yaml" | "application/apply-patch+json" => Some(BodyType::ApplyPatch),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accept_headers() {
        use Form::*;
        use Syntax::*;
        for (header, expected) in [
            ("", Some((Plain, Json))),
            ("*/*", Some((Plain, Json))),
            ("application/json", Some((Plain, Json))),
            ("application/yaml", Some((Plain, Yaml))),
            ("application/vnd.kubernetes.protobuf, application/json", Some((Plain, Json))),
            ("application/vnd.kubernetes.protobuf", Some((Plain, Json))),
            (
                "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json",
                Some((Table, Json)),
            ),
            ("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", Some((Metadata, Json))),
            ("application/json;as=Nonsense;g=meta.k8s.io;v=v1, application/json", Some((Plain, Json))),
            ("application/json;as=Nonsense;g=meta.k8s.io;v=v1", None),
            (
                "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json",
                Some((Aggregated("v2"), Json)),
            ),
            ("application/json;q=0.5, application/yaml;q=0.9", Some((Plain, Yaml))),
            ("text/html", None),
        ] {
            assert_eq!(accept(Some(header)), expected, "{header}");
        }
    }

    #[test]
    fn content_types() {
        for (header, expected) in [
            (None, Some(BodyType::Json)),
            (Some("application/json; charset=utf-8"), Some(BodyType::Json)),
            (Some("application/apply-patch+yaml"), Some(BodyType::ApplyPatch)),
            (Some("application/vnd.kubernetes.protobuf"), Some(BodyType::Protobuf)),
            (Some("application/cbor"), None),
            (Some("text/plain"), None),
        ] {
            assert_eq!(content_type(header), expected, "{header:?}");
        }
    }
}
