//! What people ask for, as the objects to write: built once for the command line, the HTTP API and the UI.
