//! The differential suite: the same requests go to the embedded API server and to a real kube-apiserver, and the
//! answers must be equal once what is random by nature (uids, versions, times) has been given stable names.
//!
//! [`case`] reads the files in `tests/cases`, [`play`] sends their steps to one server, [`normalise`] gives names to
//! what is random, [`compare`] runs a case on both servers and reports where they differ. What differs on purpose is in
//! `tests/differences.txt`, with its reason, and nowhere else. No case knows which server it talks to.

pub mod case;
pub mod compare;
pub mod normalise;
pub mod play;
