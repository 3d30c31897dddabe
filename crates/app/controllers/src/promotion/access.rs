//! The repository that a step promotes in.

use kardinal_api::kardinal::PromotionStep;

use crate::forges::{RepositoryAccess, Trouble};

/// What is needed to reach the repository of a step.
pub(super) fn of_step<'a>(
    namespace: &'a str,
    step: &'a PromotionStep,
) -> Result<RepositoryAccess<'a>, Trouble> {
    let git = step
        .spec
        .git
        .as_ref()
        .ok_or_else(|| Trouble::problem("the step has no `spec.git`: name the repository there"))?;
    Ok(RepositoryAccess {
        namespace,
        url: &git.url,
        provider: git.provider,
        secret: git.secret_ref.as_deref(),
    })
}
