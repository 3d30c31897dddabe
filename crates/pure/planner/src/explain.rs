//! Why a promotion stands where it stands: which gate waits for what, with which values, and until when.
