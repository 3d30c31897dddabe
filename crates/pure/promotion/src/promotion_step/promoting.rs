//! A step that changes the world, task by task.

use kardinal_api::kardinal::{Bundle, PromotionState, PromotionStep, PromotionStepStatus};
use kardinal_planner::why::Wait;
use serde_json::{Map, Value, json};

use super::check::{Checked, CheckedStep, Problem};
use super::draft::{self, Draft, output};
use super::tasks::{Call, Task, TaskKind};
use super::{
    Effect, FINALIZER, ForgeEffect, GitEffect, NewPullRequest, Plan, Snapshot, StepEffect, TaskCall, body,
    change, lane, late, pending,
};

pub(super) fn plan(snapshot: &Snapshot<'_>, checked: &Checked) -> Plan {
    let mut draft = Draft::new(snapshot, checked);
    if snapshot.heard_of_pull_request
        && !has_opened(&draft)
        && let Some(plan) = late::take_up(snapshot, checked)
    {
        return plan;
    }
    let bundle = match go_ahead(snapshot) {
        Ok(bundle) => bundle,
        Err(Stop::Stay(wait)) => {
            draft.hold([wait]);
            return draft.plan();
        }
        Err(Stop::StartOver(wait)) => {
            draft.enter(PromotionState::Pending, [wait]);
            return draft.plan();
        }
    };
    let next = match checked {
        Ok(checked) => next_effect(snapshot, &draft.status, bundle, checked).map_err(|problem| vec![problem]),
        Err(problems) => Err(problems.clone()),
    };
    match next {
        Ok(Some(effect)) => return Plan::act(effect),
        // The next task is not done but watched: its state says so.
        Ok(None) => draft.advance(""),
        Err(problems) => draft.refuse(&problems),
    }
    draft.plan()
}

/// Whether the pull request is on record as opened.
fn has_opened(draft: &Draft<'_>) -> bool {
    let open = draft.position(&TaskKind::OpenPullRequest);
    open.is_some_and(|index| draft::is_complete(&draft.status, index))
}

/// Why a step that is Promoting does not go on.
enum Stop {
    /// It goes on from where it is.
    Stay(Wait),
    /// It begins again: another one has the environment.
    StartOver(Wait),
}

fn go_ahead<'a>(snapshot: &Snapshot<'a>) -> Result<&'a Bundle, Stop> {
    let bundle = pending::usable_bundle(snapshot).map_err(Stop::Stay)?;
    if let Some(held) = pending::held(snapshot) {
        return Err(Stop::Stay(held));
    }
    if lane::has_begun(snapshot.step) {
        return Ok(bundle);
    }
    pending::may_begin(snapshot).map_err(Stop::Stay)?;
    match lane::taken(snapshot) {
        None => Ok(bundle),
        Some(taken) if taken.keeps_claim => Err(Stop::Stay(taken.wait)),
        Some(taken) => Err(Stop::StartOver(taken.wait)),
    }
}

fn next_effect(
    snapshot: &Snapshot<'_>,
    status: &PromotionStepStatus,
    bundle: &Bundle,
    checked: &CheckedStep,
) -> Result<Option<Effect>, Problem> {
    let step = snapshot.step;
    let Some((index, task)) = draft::next(&checked.tasks, status) else { return Ok(None) };
    let effect = match &task.kind {
        TaskKind::Push if checked.opens_pull_request() && !has_finalizer(step) => {
            Effect::Step(StepEffect::AddFinalizer)
        }
        TaskKind::Push => {
            Effect::Git(GitEffect::Commit(change::order(step, bundle, snapshot.reverted, checked)?))
        }
        // Nothing was left to change. That may be the doing of this promotion, in a life of which the record got lost.
        TaskKind::OpenPullRequest if output(status, draft::CHANGED) == Some("false") => {
            let (head, base) = (change::branch_of(step), change::base_branch(step));
            Effect::Forge(ForgeEffect::FindMerge { head, base, since: change::since(snapshot) })
        }
        TaskKind::OpenPullRequest => Effect::Forge(ForgeEffect::OpenPullRequest(NewPullRequest {
            head: change::branch_of(step),
            base: change::base_branch(step),
            title: change::title(step, bundle),
            body: body::body(snapshot, bundle, status),
            labels: body::labels(snapshot, bundle),
            marker: change::marker(step),
            since: change::since(snapshot),
        })),
        TaskKind::Call(call) => Effect::CallTask(call_task(snapshot, status, bundle, (index, task, call))),
        _ => return Ok(None),
    };
    Ok(Some(effect))
}

/// Whether the step carries [`FINALIZER`].
pub(super) fn has_finalizer(step: &PromotionStep) -> bool {
    let finalizers = step.metadata.finalizers.as_ref();
    finalizers.is_some_and(|finalizers| finalizers.iter().any(|finalizer| finalizer == FINALIZER))
}

fn call_task(
    snapshot: &Snapshot<'_>,
    status: &PromotionStepStatus,
    bundle: &Bundle,
    (index, task, call): (usize, &Task, &Call),
) -> TaskCall {
    let spec = &snapshot.step.spec;
    let attempts = output(status, draft::TASK_ATTEMPTS).and_then(|attempts| attempts.parse().ok());
    TaskCall {
        index,
        url: call.url.clone(),
        timeout: call.timeout,
        secret: call.secret.clone(),
        header: call.header.clone(),
        body: json!({
            "pipeline": spec.pipeline,
            "environment": spec.environment,
            "bundle": bundle.spec,
            "context": context(snapshot, status, index, task),
            "config": call.config,
        }),
        attempt: attempts.unwrap_or(0u32).saturating_add(1),
    }
}

/// What a custom task may want to know. `id` is the same each time the call is repeated.
fn context(snapshot: &Snapshot<'_>, status: &PromotionStepStatus, index: usize, task: &Task) -> Value {
    let meta = &snapshot.step.metadata;
    let mut context = Map::new();
    let mut put = |key: &str, value: Option<&str>| {
        if let Some(value) = value {
            context.insert(key.to_owned(), Value::from(value));
        }
    };
    let id = format!("{}/{index}", meta.uid.as_deref().unwrap_or_default());
    put("id", Some(&id));
    put("task", Some(&task.name));
    put("step", meta.name.as_deref());
    put("namespace", meta.namespace.as_deref());
    put("bundle", Some(&snapshot.step.spec.bundle_ref));
    put("prURL", status.pr_url.as_deref());
    for key in [draft::COMMIT, draft::BASE_COMMIT, draft::BRANCH, draft::PR_NUMBER, draft::MERGE_COMMIT] {
        put(key, output(status, key));
    }
    Value::Object(context)
}
