//! Labels have numbers on Gitea, and must exist before they can be used.

use ::http::Method;
use serde::Deserialize;
use serde_json::json;

use super::Gitea;
use crate::error::Error;

/// The colour of the labels that we create.
const COLOUR: &str = "#1d76db";

#[derive(Deserialize)]
struct LabelWire {
    id: i64,
    name: String,
}

impl Gitea {
    /// The numbers of these labels; those that do not exist are created. Labels are an ornament: where the token may
    /// not read or create them, they are left out with a warning.
    pub(super) async fn label_ids(&self, names: &[String]) -> Result<Vec<i64>, Error> {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let url = self.api.in_repository(&["labels"]);
        let known: Vec<LabelWire> = match self.api.all("list_labels", "read labels", &url).await {
            Ok(known) => known,
            Err(Error::Problem { message: problem, .. }) => return Ok(left_out(names, &problem)),
            Err(fault) => return Err(fault),
        };
        let mut ids = Vec::new();
        for name in names {
            if let Some(label) = known.iter().find(|label| label.name == *name) {
                ids.push(label.id);
                continue;
            }
            let body = json!({ "name": name, "color": COLOUR });
            let created =
                self.api.must("create_label", "create labels", Method::POST, url.clone(), Some(body)).await;
            match created {
                Ok(answer) => ids.push(answer.json::<LabelWire>()?.id),
                Err(Error::Problem { message: problem, .. }) => {
                    ids.extend(left_out(std::slice::from_ref(name), &problem))
                }
                Err(fault) => return Err(fault),
            }
        }
        Ok(ids)
    }

    /// Adds labels to a pull request; what it has already stays.
    pub(super) async fn add_labels(&self, number: u64, names: &[String]) -> Result<(), Error> {
        let ids = self.label_ids(names).await?;
        if ids.is_empty() {
            return Ok(());
        }
        let url = self.api.issue(number, &["labels"]);
        let body = json!({ "labels": ids });
        match self.api.must("add_labels", "add labels", Method::POST, url, Some(body)).await {
            Err(Error::Problem { message: problem, .. }) => {
                left_out(names, &problem);
                Ok(())
            }
            other => other.map(|_| ()),
        }
    }
}

fn left_out(names: &[String], problem: &str) -> Vec<i64> {
    tracing::warn!(labels = %names.join(", "), problem, "labels are left out");
    Vec::new()
}
