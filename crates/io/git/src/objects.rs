//! The object database: reading trees, making new objects, walking history. Everything here blocks.

pub(crate) mod commit;
pub(crate) mod compare;
pub(crate) mod edit;
pub(crate) mod history;
pub(crate) mod pack;
pub(crate) mod scan;
pub(crate) mod snapshot;

use gix::{ObjectId, objs};

use crate::error::Failure;

/// Files above this size are neither read nor written.
pub(crate) const MAX_FILE: u64 = 16 << 20;
/// Trees and commits above this size are not read.
const MAX_RECORD: u64 = 16 << 20;

/// An object that the remote does not have yet.
#[derive(Debug, Clone)]
pub(crate) struct NewObject {
    pub(crate) kind: objs::Kind,
    pub(crate) id: ObjectId,
    pub(crate) data: Vec<u8>,
}

impl NewObject {
    /// Names an object by its content.
    pub(crate) fn new(kind: objs::Kind, data: Vec<u8>) -> Result<NewObject, Failure> {
        let id = objs::compute_hash(gix::hash::Kind::Sha1, kind, &data)
            .map_err(|error| Failure::corrupt("hashing an object", error))?;
        Ok(NewObject { kind, id, data })
    }
}

/// Puts objects into the database, contents before containers.
pub(crate) fn write(repo: &gix::Repository, objects: &[NewObject]) -> Result<(), Failure> {
    use objs::Write as _;
    for object in objects {
        repo.objects
            .write_buf_with_known_id(object.kind, &object.data, object.id)
            .map_err(|error| Failure::fault(format!("writing an object to the repository: {error:#}")))?;
    }
    Ok(())
}

/// Reads a full commit or tree id.
pub(crate) fn parse_id(text: &str) -> Result<ObjectId, Failure> {
    if text.len() == 40
        && let Ok(id) = ObjectId::from_hex(text.as_bytes())
    {
        return Ok(id);
    }
    Err(Failure::problem(format!(
        "`{}` is not a commit id: 40 hexadecimal digits are needed",
        text.escape_debug()
    )))
}

/// The beginning of an id, in lower case. Fewer than seven digits mean too many commits.
pub(crate) fn parse_prefix(text: &str) -> Result<String, Failure> {
    match (7..40).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        true => Ok(text.to_ascii_lowercase()),
        false => Err(Failure::no_commit(format!(
            "`{}` is not the id of a commit: 7 to 40 hexadecimal digits are needed",
            text.escape_debug()
        ))),
    }
}

/// The entries of a tree.
pub(crate) fn entries(repo: &gix::Repository, id: ObjectId) -> Result<Vec<objs::tree::Entry>, Failure> {
    let object = find(repo, id, "reading a tree")?;
    if object.kind != objs::Kind::Tree {
        return Err(Failure::Corrupt(format!("object {id} is a {}, not a tree", object.kind)));
    }
    let tree = objs::TreeRef::from_bytes(&object.data, gix::hash::Kind::Sha1)
        .map_err(|error| Failure::corrupt("decoding a tree", error))?;
    Ok(tree.entries.iter().map(|entry| (*entry).into()).collect())
}

/// A tree or a commit. How large it is stands in front of it, so nothing is unpacked that is too large.
fn find<'a>(repo: &'a gix::Repository, id: ObjectId, what: &str) -> Result<gix::Object<'a>, Failure> {
    let header = repo.find_header(id).map_err(|error| Failure::corrupt(what, error))?;
    if header.size() > MAX_RECORD {
        return Err(Failure::problem(format!(
            "the {} `{id}` is too large: {} bytes, at most 16 MiB can be read",
            header.kind(),
            header.size()
        )));
    }
    repo.find_object(id).map_err(|error| Failure::corrupt(what, error))
}

/// A commit. An id that names something else is the caller's mistake, not damage.
pub(crate) fn find_commit(repo: &gix::Repository, id: ObjectId) -> Result<gix::Commit<'_>, Failure> {
    let object = find(repo, id, "reading a commit")?;
    let kind = object.kind;
    object.try_into_commit().map_err(|_| Failure::problem(format!("`{id}` is a {kind}, not a commit")))
}

/// The tree of a commit.
pub(crate) fn tree_of(repo: &gix::Repository, commit: ObjectId) -> Result<ObjectId, Failure> {
    let commit = find_commit(repo, commit)?;
    let tree = commit.tree_id().map_err(|error| Failure::corrupt("decoding a commit", error))?;
    Ok(tree.detach())
}
