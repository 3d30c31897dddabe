//! Making commits: exactly one per order, whatever happens in between.

use std::collections::HashMap;
use std::sync::Arc;

use gix::ObjectId;
use tokio::sync::oneshot;

use crate::{
    Change, ChangeError, Committed, Error, Order, Outcome, Write,
    error::Failure,
    objects::{self, NewObject, commit, compare, edit, history, snapshot::Snapshot},
    session::{Session, blocking},
    store::Store,
};

/// So often a branch may move under our hands before we let the caller wait a little.
const ATTEMPTS: usize = 10;

type Results = Vec<Result<Committed, Error>>;

/// Commits stacked on a tip, not pushed yet.
struct Stack {
    head: ObjectId,
    objects: Vec<NewObject>,
    results: Results,
}

impl Session {
    /// Carries out orders that all write the same branch.
    pub(crate) async fn carry_out(&self, orders: Vec<Order>) -> Result<Results, Failure> {
        let mut results: Vec<Option<Result<Committed, Error>>> = orders.iter().map(|_| None).collect();
        let direct: Vec<Order> = orders.iter().filter(|order| order.base == order.branch).cloned().collect();
        let mut pushed = match direct.first() {
            Some(first) => self.push_direct(&first.branch, &direct).await?.into_iter(),
            None => Vec::new().into_iter(),
        };
        for (order, result) in orders.iter().zip(&mut results) {
            *result = if order.base == order.branch {
                pushed.next()
            } else {
                Some(own(self.write_branch(order).await)?)
            };
        }
        let lost = || Err(Error::fault("the order was lost on the way"));
        Ok(results.into_iter().map(|result| result.unwrap_or_else(lost)).collect())
    }

    /// Stacks one commit per order on the branch and pushes them together.
    async fn push_direct(&self, branch: &str, orders: &[Order]) -> Result<Results, Failure> {
        let mut known = self.known_tip(branch);
        let mut objected = HashMap::new();
        let mut last = String::new();
        for _ in 0..ATTEMPTS {
            let (tip, fresh) = match known.take() {
                Some(tip) => (tip, false),
                None => (self.fresh_tip(branch).await?, true),
            };
            let stack = self.confirmed(branch, tip, orders, &mut objected).await?;
            if stack.objects.is_empty() {
                // Without a push nobody has told us yet that the tip we know is still the tip.
                if !fresh && stack.results.iter().any(is_doubtful) {
                    continue;
                }
                return Ok(stack.results);
            }
            match self.push(branch, Some(tip), Some(stack.head), stack.objects).await {
                Ok(()) => return Ok(stack.results),
                Err(Failure::Moved(message)) => last = message,
                Err(Failure::Refused { .. }) if orders.len() > 1 => {
                    return self.push_one_by_one(branch, orders).await;
                }
                Err(failure) => return Err(failure),
            }
        }
        Err(Failure::fault(format!("`{branch}` keeps moving under our hands: {last}")))
    }

    /// When a batch is refused, the innocent must not suffer with the guilty.
    async fn push_one_by_one(&self, branch: &str, orders: &[Order]) -> Result<Results, Failure> {
        let mut results = Vec::with_capacity(orders.len());
        for order in orders {
            let alone = Box::pin(self.push_direct(branch, std::slice::from_ref(order))).await;
            match alone {
                Ok(result) => results.extend(result),
                Err(failure) => results.push(own(Err(failure))?),
            }
        }
        Ok(results)
    }

    /// The tip of a branch as the remote has it now, with its objects here.
    async fn fresh_tip(&self, branch: &str) -> Result<ObjectId, Failure> {
        let tip = self.tip(branch).await?.ok_or_else(|| self.no_branch(branch))?;
        self.ensure(&[tip]).await?;
        self.store.remember_tip(branch, Some(tip));
        Ok(tip)
    }

    fn no_branch(&self, branch: &str) -> Failure {
        Failure::problem(format!(
            "there is no branch `{branch}` in the repository `{}`: create it or correct the branch name",
            self.target.url
        ))
    }

    /// The commits that may go out now. All are asked when all are built, because building one may hold up those before
    /// it for long; what is objected to, by its place among the orders, is left out of the stack.
    async fn confirmed(
        &self,
        branch: &str,
        tip: ObjectId,
        orders: &[Order],
        objected: &mut HashMap<usize, ChangeError>,
    ) -> Result<Stack, Failure> {
        loop {
            let stack = self.stack(branch, tip, orders, objected).await?;
            let built = orders.iter().zip(&stack.results).enumerate();
            let asked = built.filter_map(|(place, (order, result))| {
                let done = result.as_ref().ok().filter(|done| done.kind == Outcome::Pushed)?;
                Some(async move { (place, order.change.confirm(&done.files).await) })
            });
            let answers = futures::future::join_all(asked).await.into_iter();
            let before = objected.len();
            objected.extend(answers.filter_map(|(place, answer)| Some((place, answer.err()?))));
            if objected.len() == before {
                return Ok(stack);
            }
        }
    }

    /// Builds the commits of all orders that nobody objects to, each on top of the one before.
    async fn stack(
        &self,
        branch: &str,
        tip: ObjectId,
        orders: &[Order],
        objected: &HashMap<usize, ChangeError>,
    ) -> Result<Stack, Failure> {
        let mut stack = Stack { head: tip, objects: Vec::new(), results: Vec::new() };
        let mut here: HashMap<String, Committed> = HashMap::new();
        for (place, order) in orders.iter().enumerate() {
            if let Some(objection) = objected.get(&place) {
                stack.results.push(Err(objection.clone().into()));
                continue;
            }
            if let Some(twin) = here.get(order.identity.trim()) {
                stack.results.push(Ok(Committed { kind: Outcome::AlreadyThere, ..twin.clone() }));
                continue;
            }
            let done = match self.own_commit(Some(branch), tip, order, tip).await {
                Ok(Some(earlier)) => Ok(earlier),
                Ok(None) => self.build(order, stack.head, &mut stack.objects).await,
                Err(failure) => Err(failure),
            };
            let result = own(done)?;
            if let Ok(done) = &result
                && done.kind == Outcome::Pushed
            {
                stack.head = objects::parse_id(&done.commit)?;
                if !order.identity.trim().is_empty() {
                    here.insert(order.identity.trim().to_owned(), done.clone());
                }
            }
            stack.results.push(result);
        }
        Ok(stack)
    }

    /// Writes a branch of its own on top of the base.
    async fn write_branch(&self, order: &Order) -> Result<Committed, Failure> {
        let mut last = String::new();
        for _ in 0..ATTEMPTS {
            let tips = self.tips(&[&order.base, &order.branch]).await?;
            let base = *tips.get(&order.base).ok_or_else(|| self.no_branch(&order.base))?;
            let old = tips.get(&order.branch).copied();
            self.ensure(&[Some(base), old].into_iter().flatten().collect::<Vec<_>>()).await?;
            if let Some(there) = self.there_already(order, base, old).await? {
                return Ok(there);
            }
            let mut objects = Vec::new();
            let done = self.build(order, base, &mut objects).await?;
            if done.kind == Outcome::NothingToDo {
                return Ok(done);
            }
            let new = objects::parse_id(&done.commit)?;
            order.change.confirm(&done.files).await?;
            match self.push(&order.branch, old, Some(new), objects).await {
                Ok(()) => return Ok(done),
                Err(Failure::Moved(message)) => last = message,
                Err(failure) => return Err(failure),
            }
        }
        Err(Failure::fault(format!("`{}` keeps moving under our hands: {last}", order.branch)))
    }

    /// What an order for a branch of its own finds done; `None` when there is something to write.
    async fn there_already(
        &self,
        order: &Order,
        base: ObjectId,
        tip: Option<ObjectId>,
    ) -> Result<Option<Committed>, Failure> {
        let own = match tip {
            Some(tip) => self.own_commit(None, tip, order, base).await?,
            None => None,
        };
        if order.replaces.is_none() && own.is_some() {
            return Ok(own);
        }
        if let Some(merged) = self.own_commit(Some(&order.base), base, order, base).await? {
            return Ok(Some(merged));
        }
        let (Some(replaced), Some(tip)) = (&order.replaces, tip) else { return Ok(None) };
        let branch = &order.branch;
        let Some(own) = own.filter(|own| tip == own.commit.as_str()) else {
            return Err(Failure::Plain(Error::Overtaken(format!(
                "somebody has pushed to `{branch}`, and what others write is not overwritten: settle the conflict with \
                 `{}` there, or close the pull request",
                order.base
            ))));
        };
        if own.commit != *replaced {
            return Ok(Some(own));
        }
        let parent = own.parent.as_deref().map(objects::parse_id).transpose()?;
        let files = own.files;
        let differs = self
            .with_store(move |store| {
                let repo = store.local();
                let before = parent.map(|parent| objects::tree_of(&repo, parent)).transpose()?;
                let moved = compare::paths(&repo, before, Some(objects::tree_of(&repo, base)?))?;
                Ok(files.iter().any(|file| moved.contains(file)))
            })
            .await?;
        if differs {
            return Ok(None);
        }
        Err(Failure::fault(format!(
            "`{}` has not touched what `{branch}` changes since it was built; the forge has still to compare them",
            order.base
        )))
    }

    /// The order's own commit from an earlier life, in the history of `tip`. The line that names the order is only where to
    /// look: whoever can push can write it, too.
    async fn own_commit(
        &self,
        branch: Option<&str>,
        tip: ObjectId,
        order: &Order,
        base: ObjectId,
    ) -> Result<Option<Committed>, Failure> {
        let Some(found) = self.marked(branch, tip, order).await? else { return Ok(None) };
        let known = order.replaces.as_ref() == Some(&found.commit);
        Ok(if known || self.is_own(order, &found, base).await? { Some(found) } else { None })
    }

    /// Whether a commit is what the order makes of its only parent, and that parent is in the history of the base: to merge
    /// it brings in nothing else.
    async fn is_own(&self, order: &Order, found: &Committed, base: ObjectId) -> Result<bool, Failure> {
        let commit = objects::parse_id(&found.commit)?;
        let parents = self.with_store(move |store| history::parents(&store.local(), commit)).await?;
        let [parent] = parents.as_slice() else { return Ok(false) };
        let parent = *parent;
        if !self.contains(&base.to_string(), &parent.to_string()).await? {
            return Ok(false);
        }
        let wanted = match self.edited(order, parent).await {
            Ok(edited) => edited.tree,
            // It cannot be made there, so nobody has made it there for us.
            Err(Failure::Plain(Error::Change(error))) if !error.may_pass => return Ok(false),
            Err(failure) => return Err(failure),
        };
        let tree = self.with_store(move |store| objects::tree_of(&store.local(), commit)).await?;
        Ok(tree == wanted)
    }

    /// The commit that carries the order's line. What was found is kept for a branch that has a name here.
    async fn marked(
        &self,
        branch: Option<&str>,
        tip: ObjectId,
        order: &Order,
    ) -> Result<Option<Committed>, Failure> {
        let (branch, identity) = (branch.map(str::to_owned), order.identity.clone());
        if identity.trim().is_empty() {
            return Ok(None);
        }
        self.with_store(move |store| {
            let found = match branch {
                Some(branch) => store.find_mark(&branch, tip, &identity)?,
                None => store.find_mark_once(tip, &identity)?,
            };
            found.map(|commit| describe(store, commit)).transpose()
        })
        .await
    }

    /// Applies the order's change to a commit and makes the next one.
    async fn build(
        &self,
        order: &Order,
        parent: ObjectId,
        objects: &mut Vec<NewObject>,
    ) -> Result<Committed, Failure> {
        let root = self.with_store(move |store| objects::tree_of(&store.local(), parent)).await?;
        let mut edited = self.edited(order, parent).await?;
        if edited.tree == root {
            let there = self.with_store(move |store| describe(store, parent)).await?;
            return Ok(Committed { kind: Outcome::NothingToDo, files: Vec::new(), ..there });
        }
        let commit = commit::commit(order, edited.tree, parent)?;
        let done = Committed {
            commit: commit.id.to_string(),
            parent: Some(parent.to_string()),
            kind: Outcome::Pushed,
            files: edited.files,
        };
        edited.objects.push(commit);
        let made = edited.objects;
        let made = self.with_store(move |store| objects::write(&store.local(), &made).map(|()| made)).await?;
        objects.extend(made);
        Ok(done)
    }

    /// What the order's change makes of a commit.
    async fn edited(&self, order: &Order, parent: ObjectId) -> Result<edit::Edited, Failure> {
        let root = self.with_store(move |store| objects::tree_of(&store.local(), parent)).await?;
        let snapshot = Snapshot::new(self.store.repo.clone(), root);
        let (snapshot, writes) = applied(Arc::clone(&order.change), snapshot).await?;
        if let Some(damage) = snapshot.damage() {
            return Err(damage);
        }
        let writes = writes?;
        self.with_store(move |store| edit::edit(&store.local(), root, &writes)).await
    }
}

/// Applies a change on a thread of its own: it reads, unpacks and writes files, many and large ones among them, which would
/// keep everybody else waiting. It ends when nobody waits for it any more.
async fn applied(
    change: Arc<dyn Change>,
    snapshot: Snapshot,
) -> Result<(Snapshot, Result<Vec<Write>, ChangeError>), Failure> {
    let runtime = tokio::runtime::Handle::current();
    let (_waiting, mut left) = oneshot::channel::<()>();
    blocking(move || {
        let writes = runtime.block_on(async {
            tokio::select! {
                writes = change.apply(&snapshot) => Some(writes),
                _ = &mut left => None,
            }
        });
        let given_up = || ChangeError::fault("nobody waits for it any more");
        Ok((snapshot, writes.unwrap_or_else(|| Err(given_up()))))
    })
    .await
}

/// Tells a commit that exists.
fn describe(store: &Store, commit: ObjectId) -> Result<Committed, Failure> {
    let repo = store.local();
    let parent = history::parent(&repo, commit, &store.shallow()?)?;
    let files = match parent {
        None => Vec::new(),
        Some(parent) => {
            let (before, after) = (objects::tree_of(&repo, parent)?, objects::tree_of(&repo, commit)?);
            // A commit of somebody else may hold what we cannot name; its files are a courtesy only.
            compare::paths(&repo, Some(before), Some(after)).unwrap_or_default()
        }
    };
    let parent = parent.map(|parent| parent.to_string());
    Ok(Committed { commit: commit.to_string(), parent, kind: Outcome::AlreadyThere, files })
}

/// An order's own failure is its own result; damage and races concern the whole batch.
fn own(result: Result<Committed, Failure>) -> Result<Result<Committed, Error>, Failure> {
    match result {
        Ok(done) => Ok(Ok(done)),
        Err(failure @ (Failure::Plain(_) | Failure::Refused { .. })) => Ok(Err(failure.into_error())),
        Err(failure) => Err(failure),
    }
}

/// Whether a newer tip might give another result.
fn is_doubtful(result: &Result<Committed, Error>) -> bool {
    result.as_ref().map_or(true, |done| done.kind == Outcome::NothingToDo)
}
