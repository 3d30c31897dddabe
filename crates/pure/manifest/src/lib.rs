//! Text to text: edits of manifests that leave comments, order, quoting and line ends alone.
