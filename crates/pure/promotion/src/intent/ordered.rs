//! What came of a wish: whether a Bundle was created for it, and which one fulfils it.

use kardinal_api::kardinal::Bundle;
use kardinal_object::name_of;
use serde::Serialize;

use super::history::taken_back;
use crate::explain::display_version;

/// What came of a wish to go forward or back.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Ordered {
    /// Whether a Bundle was created for it.
    pub outcome: Coming,
    /// The Bundle that brings the content.
    pub bundle: String,
    /// How people call what it carries.
    pub version: String,
    /// The environment.
    pub environment: String,
    /// The version that it takes back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub takes_back: Option<String>,
}

/// How the content comes to the environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Coming {
    /// With a new Bundle.
    Created,
    /// With a Bundle that is on its way already.
    OnItsWay,
    /// It is there.
    There,
}

impl Ordered {
    /// What came of a wish for an environment, and the Bundle that fulfils it. `bundles` are those that existed before.
    pub fn new(outcome: Coming, bundle: &Bundle, environment: &str, bundles: &[Bundle]) -> Ordered {
        let older = taken_back(bundle);
        let older = older.and_then(|name| bundles.iter().find(|one| name_of(&one.metadata) == name));
        Ordered {
            outcome,
            bundle: name_of(&bundle.metadata).to_owned(),
            version: crate::gate_context::version(&bundle.spec),
            environment: environment.to_owned(),
            takes_back: older.map(|bundle| crate::gate_context::version(&bundle.spec)),
        }
    }

    /// The same as a sentence for people.
    pub fn render(&self) -> String {
        let Ordered { bundle, environment, .. } = self;
        let version = display_version(&self.version);
        match (self.outcome, self.takes_back.as_deref().map(display_version)) {
            (Coming::Created, Some(from)) => format!(
                "Bundle \"{bundle}\" created: {environment} goes back from {from} to {version}, through the same gates"
            ),
            (Coming::Created, None) => {
                format!("Bundle \"{bundle}\" created: {version} goes to {environment}")
            }
            (Coming::OnItsWay, _) => {
                format!("{version} is on its way to {environment} already, with Bundle \"{bundle}\"")
            }
            (Coming::There, _) => {
                format!("{version} is verified in {environment} already, with Bundle \"{bundle}\"")
            }
        }
    }
}
