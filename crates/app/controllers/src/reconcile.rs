//! What every controller is made of: the queue with its workers, and objects of our kinds as they are read and written.

pub(crate) mod driver;
pub(crate) mod objects;
