//! What keeps us from doing something until a person acts.

/// What stands in the way until a person acts. Whoever meets it says which it is; nobody reads that out of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Barrier {
    /// Somebody outside does not let us in with the credentials that we have, or we have none.
    NotLetIn,
    /// The operator does not permit to reach the host.
    HostNotAllowed,
    /// Anything else, such as a wrong setting or a rule of the repository.
    Other,
}
