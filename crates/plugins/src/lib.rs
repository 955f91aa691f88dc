//! Device plugins and dynamic resource allocation; not implemented yet (see ARCHITECTURE.md).
