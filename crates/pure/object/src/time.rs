//! Times as Kubernetes writes them.

use jiff::Timestamp;

/// The time without its fraction: Kubernetes, Git and most forges count whole seconds.
pub fn whole_second(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}
