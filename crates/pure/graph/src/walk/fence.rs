//! Holding a node back that reaches beyond the fence of its Graph. It is judged before anything is looked at, so that
//! not even the existence of an object outside shows.

use std::collections::BTreeSet;

use super::evaluate::Judgement;
use super::{Pass, Walker};
use crate::fence::{Passage, Permission, Permit};
use crate::graph::Node;
use crate::report::{Wait, WaitReason};
use kardinal_object::ObjectId;

impl Walker {
    /// Whether a node may read these objects; what the account must be allowed for it comes back.
    pub(super) fn may_read(
        &self,
        node: &Node,
        ids: &[ObjectId],
        pass: &Pass<'_>,
    ) -> Result<BTreeSet<Permit>, Box<Judgement>> {
        let passages = ids.iter().map(|id| self.fence.read(&self.owner, id)).collect();
        admit(node, passages, pass).map_err(|stopped| still_knowing(ids, stopped))
    }

    /// Whether a node may write these objects. It sees them, too.
    pub(super) fn may_write(
        &self,
        node: &Node,
        ids: &[ObjectId],
        pass: &Pass<'_>,
    ) -> Result<BTreeSet<Permit>, Box<Judgement>> {
        for id in ids {
            let passage = self.fence.write(&self.owner, id);
            passage.map_err(|message| still_knowing(ids, fenced(node, message)))?;
        }
        self.may_read(node, ids, pass)
    }
}

/// Lets a node pass when nothing stops it and everything that has to be asked was granted.
pub(super) fn admit(
    node: &Node,
    passages: Vec<Passage>,
    pass: &Pass<'_>,
) -> Result<BTreeSet<Permit>, Box<Judgement>> {
    let mut permits = BTreeSet::new();
    for passage in passages {
        match passage {
            Passage::Open => {}
            Passage::Ask(permit) => drop(permits.insert(permit)),
            Passage::Refused(message) => return Err(fenced(node, message)),
        }
    }
    for permit in &permits {
        let mut stopped = match pass.world.permission(permit) {
            Permission::Granted => continue,
            Permission::Denied(message) => fenced(node, message),
            Permission::Unknown => {
                let detail = format!("it is not known yet whether the ServiceAccount may read {permit}");
                let wait = Wait::new(&node.id, WaitReason::PermissionUnknown, detail.clone());
                Box::new(Judgement::pending(detail, vec![wait]))
            }
        };
        stopped.reads.permits = permits;
        return Err(stopped);
    }
    Ok(permits)
}

/// Whether a kind has namespaces must be known the next time, too.
fn still_knowing(ids: &[ObjectId], mut stopped: Box<Judgement>) -> Box<Judgement> {
    stopped.reads.kinds = ids.iter().map(|id| id.gvk.clone()).collect();
    stopped
}

fn fenced(node: &Node, message: String) -> Box<Judgement> {
    let mut judgement = Judgement::failed(message.clone());
    judgement.report.waits.push(Wait::new(&node.id, WaitReason::Fenced, message));
    Box::new(judgement)
}
