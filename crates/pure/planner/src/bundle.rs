//! The Bundle's part of the sentence: from a version and a Pipeline to a Graph, and from its steps to a record.
